"""The tables of the paper in README and docs are those of the ledger."""

from pathlib import Path

import pytest

from progcl.experiments.ledger import Ledger
from progcl.experiments.render import MARKER, refresh_page
from progcl.experiments.tables import load_tables
from support.blocks import PAGES, README, ROOT

pytestmark = pytest.mark.docs
REPRODUCE = ROOT / "docs" / "reproduce.md"


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_tables_are_those_of_the_ledger(page: Path) -> None:
    tables, ledger = load_tables(), Ledger(ROOT / "results" / "ledger.jsonl")
    text = page.read_text()
    assert refresh_page(text, tables, ledger) == text, "run `python benchmarks/tables.py`"


@pytest.mark.parametrize("page", [README, REPRODUCE], ids=lambda page: page.stem)
def test_there_is_a_table(page: Path) -> None:
    assert MARKER.search(page.read_text())
    assert Ledger(ROOT / "results" / "ledger.jsonl").entries
