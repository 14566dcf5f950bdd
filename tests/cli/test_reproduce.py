"""progcl reproduce: the list, the plan, the table, and names that are wrong."""

from pathlib import Path

import pytest

from progcl.cli import reproduce as module
from progcl.cli.main import main
from progcl.experiments import runner
from progcl.experiments.ledger import Ledger
from progcl.experiments.tables import Table, load_tables
from support.commands import refusal
from support.tables import fill, write_tables

BAD = [
    (["tabel2"], "did you mean `table2`?"),
    (["table2", "--data", "fotos"], "did you mean `photo`?"),
    (["table2", "--rows", "dgi,gcaa"], "did you mean `gca`?"),
    (["table2", "--data", "cora", "--seeds", "0"], "`--seeds` needs to be at least 1"),
    (["--data", "photo"], "`--data` needs a table"),
    (["table2", "--dri-run"], "did you mean `--dry-run`?"),
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The one table that there is, and an empty current folder."""
    monkeypatch.chdir(tmp_path)
    tiny = write_tables(tmp_path / "tables")
    monkeypatch.setattr(module, "load_tables", lambda: {"tiny": tiny})
    return tiny


def test_wrong_names_are_refused_with_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for argv, message in BAD:
        assert message in refusal(capsys, "reproduce", *argv), argv
    assert not list(tmp_path.iterdir())


def test_all_tables_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["reproduce"])
    lines = capsys.readouterr().out.splitlines()
    listed = [tuple(line.split()[:2]) for line in lines[1:]]
    assert listed == [(table.name, data) for table in load_tables().values() for data in table.columns]


def test_plan_run_and_table(table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From nothing to a table; the second time nothing is run."""
    executed: list[str] = []

    def start(task: runner.Task, report: runner.Report) -> str:
        executed.append(task.cell)
        cell = table.columns["csbm"].cells[task.cell.split("/")[-1]]
        assert task.data is not None
        fill(Ledger(Path(task.ledger)), cell, [61.0], task.data)
        return runner.DONE

    monkeypatch.setattr(runner, "execute_in_process", start)
    argv = ["reproduce", "tiny", "--rows", "grace", "--seeds", "1"]
    main([*argv, "--dry-run"])
    assert "3 runs to do" in capsys.readouterr().out
    assert not executed
    main(argv)
    printed = capsys.readouterr()
    assert executed == ["tiny/csbm/raw", "tiny/csbm/random-init", "tiny/csbm/grace"]
    assert "| GRACE | 61.00 | 61.00 | 61.00 | 60.00 ± 0.50 (gca) | +1.00 |" in printed.out
    assert "3 runs to do" in printed.err
    main(argv)
    assert capsys.readouterr().out == printed.out
    assert len(executed) == 3
    main([*argv, "--only-ledger"])
    assert capsys.readouterr().out == printed.out
    main(["reproduce"])
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == ["tiny", "csbm", "6", "2", "0"]


def test_failed_runs_are_named(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "execute_in_process", lambda task, report: "failed: no memory")
    main(["reproduce", "tiny", "--rows", "grace", "--seeds", "1"])
    printed = capsys.readouterr()
    assert "warning: tiny/csbm/grace, seed 0: failed: no memory" in printed.err
    assert "| not run |" in printed.out
