"""The runner: only what is missing, from where a killed run was, and never twice."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from progcl import InputError
from progcl.evaluation.probe import PROTOCOLS, probe_gca
from progcl.experiments import runner as module
from progcl.experiments.ledger import Ledger
from progcl.experiments.plan import Slot, make_plan, read_checksums
from progcl.experiments.runner import CLAIMED, DONE, Runner, Task, execute, execute_in_process
from support.runs import read_log
from support.tables import CELLS, TINY, write_tables

SOURCE = Path(__file__).parents[2] / "src"


class Stop(Exception):
    """Ends a run from its report."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables; the slowest protocol has few steps."""
    monkeypatch.setitem(PROTOCOLS, "gca", partial(probe_gca, steps=40))
    write_tables(tmp_path / "tables", {row: CELLS[row] for row in ("raw", "random-init", "grace", "hcl")})
    return tmp_path


def slots_of(place: Path, rows: list[str]) -> list[Slot]:
    table = write_tables(place / "tables", {row: CELLS[row] for row in ("raw", "random-init", "grace", "hcl")})
    plan = make_plan(table, table.select(), Ledger(place / "ledger.jsonl"), read_checksums(None))
    return [slot for row in plan if row.cell.row in rows for slot in row.missing]


def runner_of(place: Path, start: Any = execute) -> Runner:
    return Runner(Ledger(place / "ledger.jsonl"), place / "runs", None, place / "tables", start)


def task_of(place: Path, slot: Slot) -> Task:
    places = (str(place / "ledger.jsonl"), str(place / "runs"), None, str(place / "tables"))
    return Task(slot.cell.name, slot.run.seed, slot.run.data, slot.run.fast, *places)


def ignore(share: float, what: str) -> None:
    """Report to nobody."""


def test_only_what_is_missing_is_run(place: Path) -> None:
    started: list[tuple[str, int]] = []

    def start(task: Task, report: Any) -> str:
        started.append((task.cell, task.seed))
        return execute(task, report)

    assert runner_of(place, start).run(slots_of(place, ["raw"])) == {}
    entry = Ledger(place / "ledger.jsonl").entries[0]
    assert {name: len(scores) for name, scores in entry.scores.items()} == {"clean": 2, "gca": 2, "bgrl": 2}
    assert entry.seconds.keys() == {"train", "clean", "gca", "bgrl"}
    assert (entry.epochs, entry.dim, entry.seed) == (0, 32, 0)
    assert entry.data == slots_of(place, ["grace"])[0].run.data
    assert runner_of(place, start).run(slots_of(place, ["raw", "grace"])) == {}
    assert started == [("tiny/csbm/raw", 0), ("tiny/csbm/grace", 0), ("tiny/csbm/grace", 1)]
    assert slots_of(place, ["raw", "grace"]) == []


def test_a_slot_that_another_process_has_finished_meanwhile_is_left(place: Path) -> None:
    slots = slots_of(place, ["raw"])
    runner_of(place).run(slots)
    runner_of(place, lambda task, report: pytest.fail("twice")).run(slots)
    assert len(Ledger(place / "ledger.jsonl").entries) == 1


@pytest.mark.parametrize("where", ["epoch 3", "probe (bgrl)"])
def test_an_interrupted_run_goes_on_and_ends_the_same(where: str, place: Path) -> None:
    task = task_of(place, slots_of(place, ["grace"])[0])

    def stop(share: float, what: str) -> None:
        if what.startswith(where):
            raise Stop

    with pytest.raises(Stop):
        execute(task, stop)
    assert Ledger(place / "ledger.jsonl").entries == []
    epochs: list[str] = []
    assert execute(task, lambda share, what: epochs.append(what)) == DONE
    trained = [what for what in epochs if what.startswith("epoch")]
    assert len(trained) == (1 if where == "epoch 3" else 0), "from the checkpoint of epoch 3, or none"
    resumed = Ledger(place / "ledger.jsonl").entries[0]
    undisturbed = replace(task, ledger=str(place / "other.jsonl"), out=str(place / "other"))
    execute(undisturbed, ignore)
    assert resumed.scores == Ledger(place / "other.jsonl").entries[0].scores


def test_a_miner_goes_on_from_the_epochs_that_its_base_has_trained(place: Path) -> None:
    cells: dict[str, dict[str, Any]] = {
        "grace": {"settings": {**TINY, "miner.name": "none"}},
        "hcl": {"settings": {**TINY, "miner.name": "progcl-weight", "miner.start_epoch": 3}, "base": "grace"},
        "elsewhere": {"settings": {**TINY, "miner.name": "hcl"}, "base": "grace"},
        "absent": {"settings": {**TINY, "miner.name": "ring", "train.lr": 0.1}, "base": "grace"},
    }
    table = write_tables(place / "shared", cells)
    plan = make_plan(table, table.select(), Ledger(place / "ledger.jsonl"), read_checksums(None))
    tasks = {row.cell.row: replace(task_of(place, row.slots[0]), tables=str(place / "shared")) for row in plan}
    stages = {row: task.first_stage for row, task in tasks.items()}
    assert stages == {"grace": stages["hcl"], "hcl": stages["grace"], "elsewhere": None, "absent": None}
    assert execute(tasks["grace"], ignore) == DONE
    reports: list[str] = []
    assert execute(tasks["hcl"], lambda share, what: reports.append(what)) == DONE
    assert [what.split(",")[0] for what in reports if what.startswith("epoch")] == ["epoch 3 of 4", "epoch 4 of 4"]
    execute(replace(tasks["hcl"], ledger=str(place / "other.jsonl"), out=str(place / "other")), ignore)
    shared, alone = Ledger(place / "ledger.jsonl").entries[-1], Ledger(place / "other.jsonl").entries[-1]
    assert shared.scores == alone.scores
    assert shared.epochs == alone.epochs == 4


def test_a_claimed_run_is_left_to_its_process_until_it_ends(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = slots_of(place, ["raw"])[0]
    task = task_of(place, slot)
    folder = place / "runs" / f"tiny-csbm-raw-0-{slot.run.id}"
    folder.mkdir(parents=True)
    lock = FileLock(folder / "claim.lock")
    lock.acquire()
    assert execute(task, ignore) == CLAIMED
    assert Ledger(place / "ledger.jsonl").entries == []
    monkeypatch.setattr(time, "sleep", lambda seconds: lock.release())  # the other one is killed while this one waits
    assert runner_of(place).run([slot]) == {}
    assert len(Ledger(place / "ledger.jsonl").entries) == 1


def test_a_failed_run_is_reported_and_the_others_go_on(place: Path) -> None:
    def start(task: Task, report: Any) -> str:
        return "failed: the loss of epoch 1 is nan" if task.seed == 0 else execute(task, report)

    failed = runner_of(place, start).run(slots_of(place, ["grace"]))
    assert failed == {"tiny/csbm/grace, seed 0": "failed: the loss of epoch 1 is nan"}
    assert [entry.seed for entry in Ledger(place / "ledger.jsonl").entries] == [1]


def test_the_bar_is_over_all_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[float] = []

    class Bar:
        n = 0.0

        def __init__(self, show: bool, total: float, **options: Any) -> None:
            self.total = total

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *error: object) -> None:
            assert self.n == pytest.approx(self.total)

        def set_description_str(self, text: str, refresh: bool) -> None:
            assert "runs left: tiny/csbm/" in text

        def update(self, step: float) -> None:
            self.n += step
            shown.append(self.n / self.total)

    monkeypatch.setattr(module, "bar", Bar)
    runner_of(place).run(slots_of(place, ["raw", "grace"]))
    assert shown == sorted(shown)
    assert shown[-1] == pytest.approx(1)


def start_process(task: Task) -> subprocess.Popen[str]:
    """The process that `execute_in_process` starts."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen([sys.executable, "-m", "progcl.experiments.runner"], **pipes, env=environment)
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(task)))
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.kill(seconds=15)
def test_a_killed_run_is_finished_by_one_of_two_processes(tmp_path: Path) -> None:
    """The first process is killed with SIGKILL while it trains; two others then begin the same run at once."""
    settings = {**TINY, "miner.name": "none", "train.epochs": 200, "train.checkpoint_every": 5}
    table = write_tables(tmp_path / "tables", {"grace": {"settings": settings}})
    (row,) = make_plan(table, table.select(), Ledger(tmp_path / "ledger.jsonl"), read_checksums(None))
    task = task_of(tmp_path, row.slots[0])
    first = start_process(task)
    while not list(tmp_path.glob("runs/*/run/checkpoint.safetensors")):
        assert first.poll() is None, "ended before it could be killed"
        time.sleep(0.02)
    first.kill()
    first.communicate()
    assert Ledger(tmp_path / "ledger.jsonl").entries == []
    both = [start_process(task), start_process(task)]
    messages = [json.loads(process.communicate()[0].splitlines()[-1])["message"] for process in both]
    assert set(messages) in ({DONE}, {DONE, CLAIMED})
    assert len(Ledger(tmp_path / "ledger.jsonl").entries) == 1
    (folder,) = tmp_path.glob("runs/*/run")
    assert [line["epoch"] for line in read_log(folder)] == list(range(1, 201))


def test_the_other_process_reports_and_ends_with_this_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(place, slots_of(place, ["raw"])[0])
    lines: list[str] = []
    monkeypatch.setattr(sys, "stdin", StringIO(json.dumps(asdict(task))))
    monkeypatch.setattr("builtins.print", lambda text, flush: lines.append(text))
    module.main()
    assert json.loads(lines[0]) == {"share": 0.0, "what": "begins"}
    assert json.loads(lines[-1]) == {"message": DONE}

    def closed(text: str, flush: bool) -> None:
        raise BrokenPipeError

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("builtins.print", closed)
    monkeypatch.setattr(os, "_exit", leave)
    task = replace(task, ledger=str(place / "other.jsonl"), out=str(place / "other"))
    monkeypatch.setattr(sys, "stdin", StringIO(json.dumps(asdict(task))))
    with pytest.raises(SystemExit, match="130"):
        module.main()
    assert Ledger(place / "other.jsonl").entries == []


def test_an_error_of_the_run_is_its_message(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(task: Task, report: Any) -> str:
        raise InputError("the loss of epoch 1 is nan", "try a smaller --train.lr")

    task, lines = task_of(place, slots_of(place, ["raw"])[0]), []
    monkeypatch.setattr(module, "execute", fail)
    monkeypatch.setattr(sys, "stdin", StringIO(json.dumps(asdict(task))))
    monkeypatch.setattr("builtins.print", lambda text, flush: lines.append(text))
    module.main()
    assert json.loads(lines[-1]) == {"message": "failed: the loss of epoch 1 is nan"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('print(\'{"share": 0.5, "what": "epoch 2"}\'); print(\'{"message": "done"}\')', "done"),
        ("import sys; sys.exit(3)", "ended with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with code -9: out of memory?"),
    ],
)
def test_what_is_heard_of_another_process(
    code: str, message: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place / "program"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stdin.read()\n{code}\n")
    program.chmod(0o755)
    task, heard = task_of(place, slots_of(place, ["raw"])[0]), []
    monkeypatch.setattr(sys, "executable", str(program))
    assert execute_in_process(task, lambda share, what: heard.append((share, what))) == message
    assert heard == ([(0.5, "epoch 2")] if message == "done" else [])
