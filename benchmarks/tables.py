"""Make the tables in README and docs anew, from results/ledger.jsonl.

    python benchmarks/tables.py     after `progcl reproduce`

A table stands between `<!-- progcl reproduce table2 --data photo [--rows dgi,gca] [--short] -->` and `<!-- end -->`.
"""

from __future__ import annotations

from pathlib import Path

from progcl.experiments.ledger import Ledger
from progcl.experiments.render import refresh_page
from progcl.experiments.tables import load_tables

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write the pages that have changed."""
    tables, ledger = load_tables(), Ledger(ROOT / "results" / "ledger.jsonl")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        old = page.read_text()
        new = refresh_page(old, tables, ledger)
        if new != old:
            page.write_text(new)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
