"""python -m progcl."""

from progcl.cli import main

main()
