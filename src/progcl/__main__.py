"""python -m progcl."""

from progcl.cli.main import main

main()
