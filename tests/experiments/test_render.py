"""Tables from ledgers that were made up, verdicts, plans, and pages that are made anew."""

from pathlib import Path

import pytest

from progcl.config.schema import Config
from progcl.evaluation.significance import paired_difference
from progcl.experiments.ledger import Ledger, Run
from progcl.experiments.plan import make_plan
from progcl.experiments.render import format_plan, format_scores, format_table, judge, refresh_page
from progcl.experiments.tables import Cell, Published, Table
from support.tables import fill, make_entry, write_tables


def render(table: Table, ledger: Ledger, **options: bool) -> dict[str, list[str]]:
    """Cells of the printed table by title."""
    plan = make_plan(table, table.select(), ledger, seven)
    lines = [line for line in format_table(table, plan, **options).splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def seven(config: Config) -> int | None:
    return 7


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return write_tables(tmp_path / "tables")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def test_a_row_has_ours_the_published_figure_the_difference_and_a_verdict(table: Table, ledger: Ledger) -> None:
    fill(ledger, table.columns["csbm"].cells["grace"], [60, 62])
    rows = render(table, ledger)
    ours = "61.00 ± 1.41"
    published = "60.00 ± 0.50 (gca)"
    assert rows["GRACE"] == [*[ours] * 3, published, "+1.00", "", "2", "2 min", "0.2 GB", "above"]
    assert rows["raw features"] == ["", "", "", published, "", "", "", "", "", "not run"]
    assert rows["ABSENT"][-1] == "not available: unknown preset `gcn-nowhere`"
    assert len(rows) == 6


def test_the_gain_of_a_miner_is_paired_over_the_seeds_that_both_have(table: Table, ledger: Ledger) -> None:
    cells = table.columns["csbm"].cells
    fill(ledger, cells["grace"], [60, 62])
    fill(ledger, cells["hcl"], [63])
    row = render(table, ledger)["HCL"]
    assert row[5] == str(paired_difference([[62.0, 64.0]], [[59.0, 61.0]])) == "+3.00 [+3.00, +3.00]"
    assert row[-1] == "nothing published; 1 of 2 seeds"
    fill(ledger, cells["hcl"], [63, 63.5])
    both = paired_difference([[62.0, 64.0], [62.5, 64.5]], [[59, 61], [61, 63]])
    assert render(table, ledger)["HCL"][5] == str(both)


def test_a_stale_row_shows_no_figure(table: Table, ledger: Ledger) -> None:
    cell = table.columns["csbm"].cells["raw"]
    ledger.append(make_entry(Run(cell.name, cell.config(), 7), code="method raw 0"))
    row = render(table, ledger)["raw features"]
    assert row[:3] == ["", "", ""]
    assert row[-1] == "stale (code)"


def test_what_was_trained_with_labels_has_one_score(table: Table, ledger: Ledger) -> None:
    cell = table.columns["csbm"].cells["grace"]
    scores = {"supervised": [61.0, 63.0]}
    ledger.append(make_entry(Run(cell.name, cell.config(), 7), scores=scores))
    row = render(table, ledger)["GRACE"]
    assert row[:3] == ["62.00 (with labels)", "", ""]
    assert row[4] == "+2.00"


def test_notes_are_of_rows_that_were_run(table: Table, ledger: Ledger) -> None:
    fill(ledger, table.columns["csbm"].cells["hcl"], [60])
    text = format_table(table, make_plan(table, table.select(), ledger, seven))
    assert text.splitlines()[-1] == "- HCL: 4 of 100 epochs; settings: ours"
    assert text.startswith("**Drawn graph**, accuracy, tiny; mean ± std over seeds\n")
    assert "no result" in format_table(table, make_plan(table, table.select(), ledger, seven), fast=True)


CELL = Cell("tiny", "csbm", "grace", "csbm", "ours")


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (60.4, "as published"),
        (59.6, "as published"),
        (60.6, "above"),
        (59.4, "below"),
        (58.6, "below"),
        (58.4, "far below: not yet explained"),
    ],
)
def test_verdicts(ours: float, verdict: str) -> None:
    cell = Cell(**{**vars(CELL), "published": Published(60.0, "nowhere", "gca")})
    assert judge(ours, cell) == verdict
    shorter = Cell(**{**vars(cell), "length": "1,000 of 2,500 epochs"})
    assert judge(ours, shorter) == f"{verdict}, shorter run"


def test_verdicts_without_protocol_figure_or_riddle() -> None:
    assert judge(50.0, CELL) == "nothing published"
    silent = Cell(**{**vars(CELL), "published": Published(60.0, "nowhere")})
    assert judge(60.0, silent) == "as published, protocol not said"
    found = Cell(**{**vars(CELL), "published": Published(60.0, "nowhere", "gca"), "finding": "fewer epochs"})
    assert judge(50.0, found) == "far below: see the note"


def test_scores_of_one_seed_have_no_deviation() -> None:
    assert [format_scores(means) for means in ([], [61.234], [60.0, 62.0])] == ["", "61.23", "61.00 ± 1.41"]


def test_a_plan_tells_states_runs_and_time(table: Table, ledger: Ledger) -> None:
    fill(ledger, table.columns["csbm"].cells["raw"], [60])
    fill(ledger, table.columns["csbm"].cells["hcl"], [60])
    lines = format_plan(make_plan(table, table.select(), ledger, seven), ledger).splitlines()
    assert lines[0].split() == ["row", "seeds", "state", "to", "run", "time", "on", "one", "core"]
    assert lines[1].split() == ["csbm", "raw", "1", "done"]
    assert lines[3].split() == ["csbm", "grace", "2", "not", "run", "2", "not", "known"]
    assert lines[4].split()[-7:] == ["1", "of", "2", "seeds", "1", "2", "min"]
    assert lines[-1].startswith("5 runs to do, about 2 min, and 4 whose time is not known")


def test_a_page_is_made_anew_between_its_markers(table: Table, ledger: Ledger) -> None:
    fill(ledger, table.columns["csbm"].cells["grace"], [60, 62])
    begin, end = f"<!-- progcl reproduce {table.name} --data csbm --rows grace --short -->", "<!-- end -->"
    new = refresh_page(f"a\n{begin}\nold\nlines\n{end}\nb\n{end}\n", {table.name: table}, ledger)
    lines = new.splitlines()
    assert (lines[:2], lines[-3:]) == (["a", begin], [end, "b", end])
    assert lines[4] == "|  | clean | gca | bgrl | published | gain of mining | seeds |"
    assert [line.split(" | ")[-1] for line in lines if "GRACE" in line] == ["2 |"]
    assert "hcl" not in new.lower()
    assert refresh_page(new, {table.name: table}, ledger) == new
    whole = refresh_page(new.replace(" --rows grace --short", ""), {table.name: table}, ledger)
    assert "verdict" in whole
    assert "hcl" in whole.lower()
