"""Plans: what is done, stale, missing or impossible, and how long the rest takes."""

from pathlib import Path
from typing import Any

import pytest

from progcl import InputError
from progcl.budget import format_seconds
from progcl.config.schema import Config
from progcl.data import datasets
from progcl.data.datasets import load_data
from progcl.data.prepare import fingerprint
from progcl.experiments import plan as module
from progcl.experiments.ledger import Ledger, Run
from progcl.experiments.plan import (
    PlannedRow,
    estimate_seconds,
    load_epoch_seconds,
    make_plan,
    read_checksums,
    recall_checksums,
)
from progcl.experiments.tables import load_tables
from support.tables import fill, make_entry, write_tables


def seven(config: Config) -> int:
    return 7


def plan_of(tmp_path: Path, ledger: Ledger, seeds: int | None = None, fast: bool = False) -> dict[str, PlannedRow]:
    table = write_tables(tmp_path / "tables")
    return {row.cell.row: row for row in make_plan(table, table.select(), ledger, seven, seeds, fast)}


def test_only_what_the_ledger_lacks_is_missing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cells = write_tables(tmp_path / "tables").columns["csbm"].cells
    before = plan_of(tmp_path, ledger)
    assert {row: len(each.missing) for row, each in before.items() if not each.obstacle} == {
        **{"raw": 1, "random-init": 1, "grace": 2, "hcl": 2, "elsewhere": 1},
    }
    assert before["absent"].state == "not available: unknown preset `gcn-nowhere`"
    fill(ledger, cells["raw"], [70])
    fill(ledger, cells["grace"], [71])
    after = plan_of(tmp_path, ledger)
    assert after["raw"].state == "done"
    assert after["grace"].state == "1 of 2 seeds"
    assert [slot.run.seed for slot in after["grace"].missing] == [1]
    assert after["hcl"].state == "not run"


def test_seeds_are_for_rows_that_have_any(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Ledger(tmp_path / "ledger.jsonl"), seeds=3)
    assert [len(plan[row].slots) for row in ("raw", "random-init", "grace")] == [1, 3, 3]


def test_a_stale_entry_is_shown_stale_and_runs_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cell = write_tables(tmp_path / "tables").columns["csbm"].cells["grace"]
    stale: list[dict[str, Any]] = [{"code": "method grace 0"}, {"data": 8}]
    for seed, changes in enumerate(stale):
        ledger.append(make_entry(Run(cell.name, cell.config(seed), 7), **changes))
    row = plan_of(tmp_path, ledger)["grace"]
    assert row.state == "stale (code, data)"
    assert len(row.missing) == len(row.stale) == 2
    fill(ledger, cell, [70])
    assert plan_of(tmp_path, ledger)["grace"].state == "1 of 2 seeds, stale (data)"


def test_short_runs_are_apart(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cell = write_tables(tmp_path / "tables").columns["csbm"].cells["grace"]
    for seed in range(2):
        ledger.append(make_entry(Run(cell.name, cell.config(seed, fast=True), 7, fast=True)))
    assert plan_of(tmp_path, ledger, fast=True)["grace"].state == "done"
    assert plan_of(tmp_path, ledger)["grace"].state == "not run"


def test_data_that_is_not_here_is_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_why_unreachable", lambda url: "no network")
    monkeypatch.delenv("PROGCL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table = write_tables(tmp_path / "tables")
    checksum = read_checksums(None)
    plan = make_plan(table, table.select(), Ledger(tmp_path / "ledger.jsonl"), checksum)
    states = {row.cell.row: row.state for row in plan}
    assert states["elsewhere"] == "data not available here"
    assert states["raw"] == "not run"
    assert plan[0].slots[0].run.data == fingerprint(load_data(plan[0].slots[0].run.config.data))
    with pytest.raises(InputError, match="not available here"):
        checksum(table.columns["csbm"].cells["elsewhere"].config())


def test_without_data_the_newest_entry_says_which_graph_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    table = write_tables(tmp_path / "tables")
    cells = table.columns["csbm"].cells
    fill(ledger, cells["raw"], [70], data=8)
    fill(ledger, cells["grace"], [70], data=9)
    plan = {row.cell.row: row for row in make_plan(table, table.select(), ledger, recall_checksums(ledger))}
    assert plan["raw"].state == "stale (data)"
    assert plan["grace"].state == "1 of 2 seeds"


def test_time_is_that_of_runs_before_else_of_measured_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cell = write_tables(tmp_path / "tables").columns["csbm"].cells["grace"]
    run = Run(cell.name, cell.config(), 7)
    assert estimate_seconds(run, ledger) is None
    monkeypatch.setattr(module, "load_epoch_seconds", lambda: {cell.name: 2.0})
    probe = sum(module.PROBE_SECONDS.values()) * 60 * 8 * 2  # nodes, columns, splits
    assert estimate_seconds(run, ledger) == pytest.approx(4 * 2.0 + probe)
    fill(ledger, cell, [70])
    assert estimate_seconds(run, ledger) == 105


def test_measured_epochs_are_of_cells_that_exist() -> None:
    names = {cell.name for table in load_tables().values() for cell in table.select()}
    assert load_epoch_seconds().keys() <= names
    assert {"table2/photo/gca", "table2/photo/progcl-mix", "table2/cora/dgi"} <= load_epoch_seconds().keys()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (5400, "1 h 30 min"), (36060, "10 h 01 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
