"""Runs what a plan misses: each run in a process of its own, claimed by a lock, resumed where one was killed.

python -m progcl.experiments.runner    one run, as JSON on stdin; progress as JSON lines on stdout
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import progcl
from progcl.config import to_dict
from progcl.data.datasets import load_data
from progcl.errors import InputError
from progcl.evaluation.probe import linear_probe
from progcl.experiments.ledger import Entry, Ledger, Run, hash_settings
from progcl.experiments.plan import Slot, estimate_seconds
from progcl.experiments.tables import PROTOCOLS, TABLES, Cell, load_tables
from progcl.progress import bar
from progcl.result import Result
from progcl.run import FirstStage, fit
from progcl.training import checkpoint, files
from progcl.training.trainer import Record, peak_mb

DONE, CLAIMED = "done", "claimed"
POLL_SECONDS = 2.0
UNKNOWN_SECONDS = 600.0  # part of the bar of a run whose time is not known
TRAIN_SHARE = 0.9  # of a run's part of the bar
Report = Callable[[float, str], object]  # share of a run that is done, and what it does


@dataclass(frozen=True)
class Task:
    """One run, in words that another process understands.

    Attributes:
        cell: `table2/photo/gca`
        data: checksum of the graph that the plan has read
        ledger: file of the ledger
        out: folder of run folders
        tables: folder of the tables
    """

    cell: str
    seed: int
    data: int | None
    fast: bool
    ledger: str
    out: str
    data_root: str | None = None
    tables: str = str(TABLES)

    @property
    def run(self) -> Run:
        """What the run is known by."""
        return self._run_of(self._cells[self._row])

    @property
    def first_stage(self) -> FirstStage | None:
        """The epochs that a base and its miners have in common, which are idle until then; None if there are none."""
        base = self._cells[self._cells[self._row].base or self._row]
        config = self._run_of(base).config
        family = [self._run_of(cell).config for cell in self._cells.values() if cell is base or cell.base == base.row]
        idle = [each.miner.idle_epochs for each in family if replace(each, miner=config.miner) == config]
        epochs = min(filter(None, idle), default=math.inf)
        own = self.run.config
        if epochs > min(own.miner.idle_epochs, own.train.epochs) or replace(own, miner=config.miner) != config:
            return None
        return FirstStage(Path(self.out) / f"first-stage-{self._run_of(base).id}-{epochs}.safetensors", int(epochs))

    @property
    def _row(self) -> str:
        return self.cell.split("/")[2]

    @cached_property
    def _cells(self) -> Mapping[str, Cell]:
        table, data, _ = self.cell.split("/")
        return load_tables(Path(self.tables))[table].columns[data].cells

    def _run_of(self, cell: Cell) -> Run:
        return Run(cell.name, cell.config(self.seed, self.fast), self.data, self.fast)


@dataclass(frozen=True)
class Runner:
    """Runs slots of a plan; several runners, in several processes, share the work.

    Attributes:
        ledger: where entries go
        out: folder of run folders
        start: what makes a run: `execute_in_process` isolates it, so that its peak of memory is its own
    """

    ledger: Ledger
    out: Path
    data_root: str | None = None
    tables: Path = TABLES
    start: Callable[[Task, Report], str] | None = None

    def run(self, slots: Iterable[Slot], progress: bool = False) -> dict[str, str]:
        """Run everything that the ledger does not have; messages of runs that failed, by name."""
        left, failed = list(slots), {}
        weights = {id(slot): estimate_seconds(slot.run, self.ledger) or UNKNOWN_SECONDS for slot in left}
        with bar(
            progress, total=sum(weights.values()), bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
        ) as shown:
            while left:
                moved = False
                for slot in list(left):
                    message = self._run_slot(slot, shown, weights[id(slot)], f"{len(left)} runs left")
                    if message != CLAIMED:
                        left.remove(slot)
                        moved = True
                    if message not in (DONE, CLAIMED):
                        failed[f"{slot.cell.name}, seed {slot.run.seed}"] = message
                if not moved:  # others are at work on the rest
                    time.sleep(POLL_SECONDS)
        return failed

    def _run_slot(self, slot: Slot, shown: Any, weight: float, rest: str) -> str:
        self.ledger.reload()
        before = shown.n

        def report(share: float, what: str) -> None:
            shown.set_description_str(f"{rest}: {slot.cell.name} seed {slot.run.seed}, {what}", refresh=False)
            shown.update(before + share * weight - shown.n)

        if self.ledger.find(slot.run).is_current:
            report(1.0, "done")
            return DONE
        run = slot.run
        places = (str(self.ledger.path), str(self.out), self.data_root, str(self.tables))
        task = Task(slot.cell.name, run.seed, run.data, run.fast, *places)
        message = (self.start or execute_in_process)(task, report)
        if message != CLAIMED:
            report(1.0, "done")
        return message


def execute_in_process(task: Task, report: Report) -> str:
    """`execute` in a process of its own; if this one is killed, that one ends at its next word."""
    source = str(Path(progcl.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "progcl.experiments.runner"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, env={**os.environ, "PYTHONPATH": path}) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(asdict(task)))
        child.stdin.close()
        message = ""
        for line in child.stdout:
            answer = json.loads(line)
            message = answer.get("message", "")
            if not message:
                report(answer["share"], answer["what"])
    return message or f"ended with code {child.returncode}" + (": out of memory?" if child.returncode == -9 else "")


def execute(task: Task, report: Report) -> str:
    """Train, probe under every protocol, and add the entry; `claimed` if another process is at it.

    The claim is a lock on a file, which ends with the process that holds it: nothing of a killed run is in the way, and
    the next one resumes from its checkpoint.
    """
    run, ledger = task.run, Ledger(Path(task.ledger))
    folder = Path(task.out) / f"{task.cell.replace('/', '-')}-{task.seed}-{run.id}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "claim.lock", timeout=0):
            ledger.reload()
            if not ledger.find(run).is_current:
                ledger.append(_make_entry(task, folder, report))
    except Timeout:
        return CLAIMED
    return DONE


def _make_entry(task: Task, folder: Path, report: Report) -> Entry:
    run, data_root = task.run, task.data_root
    start, epochs = time.perf_counter(), run.config.train.epochs

    def on_epoch(record: Record) -> None:
        report(TRAIN_SHARE * record.epoch / epochs, f"epoch {record.epoch} of {epochs}, loss {record.loss:.4f}")

    report(0.0, "begins")
    config = run.config
    if config.method.needs_labels:  # scored by its own predictions, once for each split
        config = replace(config, probe=replace(config.probe, protocol="clean"))
    stage = task.first_stage
    result = fit(config, out=folder / "run", resume=True, data_root=data_root, first_stage=stage, on_epoch=on_epoch)
    peak, train = peak_mb(), result.seconds["train"] or time.perf_counter() - start
    values = checkpoint.load(folder / "run" / "checkpoint.safetensors")[1]
    peaks = [peak, *(record["peak_mb"] for record in values["records"])]
    scores, seconds = _score(run, result, folder / "scores.json", data_root, report)
    stored = json.loads((folder / "run" / "result.json").read_text())
    return Entry(
        cell=run.cell,
        seed=run.seed,
        hash=hash_settings(to_dict(run.config)),
        config=to_dict(run.config),
        data=values["graph"],
        code=run.code,
        scores=scores,
        seconds={"train": round(train, 2), **seconds},
        epochs=len(result.losses),
        peak_mb=max((each for each in peaks if each is not None), default=None),
        fast=run.fast,
        dim=result.embeddings.size(1),
        versions=stored["versions"],
        facts=stored["facts"],
    )


def _score(
    run: Run, result: Result, path: Path, data_root: str | None, report: Report
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Accuracies of every split by protocol, and the seconds of each; what a killed process has scored is kept."""
    if result.score is not None:
        return {result.score.protocol: _round(result.score.accuracies)}, {}
    data = load_data(run.config.data, data_root)
    done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for index, protocol in enumerate(PROTOCOLS):
        report(TRAIN_SHARE + (1 - TRAIN_SHARE) * index / len(PROTOCOLS), f"probe ({protocol})")
        if protocol not in done:
            start, options = time.perf_counter(), {**run.config.probe.options(), "protocol": protocol}
            accuracies = _round(linear_probe(result.embeddings, data, **options).accuracies)
            done[protocol] = {"accuracies": accuracies, "seconds": round(time.perf_counter() - start, 2)}
            files.write_text(path, json.dumps(done))
    scores = {name: each["accuracies"] for name, each in done.items()}
    return scores, {name: each["seconds"] for name, each in done.items()}


def _round(accuracies: Iterable[float]) -> list[float]:
    return [round(each, 4) for each in accuracies]


def main() -> None:
    """Execute the task on stdin; an error the user can act on is the message."""
    task, last = Task(**json.loads(sys.stdin.read())), 0.0

    def report(share: float, what: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            print(json.dumps({"share": share, "what": what}), flush=True)

    try:
        message = execute(task, report)
    except InputError as error:
        message = f"failed: {error.args[0]}"
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)  # the process that asked has ended, and says so itself
    print(json.dumps({"message": message}), flush=True)


if __name__ == "__main__":
    main()
