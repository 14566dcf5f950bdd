"""The tables of the paper in README and docs are those of the ledger."""

from pathlib import Path

import pytest

from progcl.experiments.ledger import Ledger
from progcl.experiments.render import MARKER, refresh_page, render_table
from progcl.experiments.tables import load_tables
from support.blocks import PAGES, README, ROOT

pytestmark = pytest.mark.docs
REPRODUCE = ROOT / "docs" / "reproduce.md"


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_tables_are_those_of_the_ledger(page: Path) -> None:
    tables, ledger = load_tables(), Ledger(ROOT / "results" / "ledger.jsonl")
    text = page.read_text()
    new = refresh_page(text, lambda table, data: render_table(tables[table], data, ledger))
    assert new == text, "run `python benchmarks/tables.py`"


def test_there_is_a_table() -> None:
    assert MARKER.search(REPRODUCE.read_text())
    assert Ledger(ROOT / "results" / "ledger.jsonl").entries
