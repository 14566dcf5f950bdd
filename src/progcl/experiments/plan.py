"""What a table needs: the state of every row, the runs that are missing, and how long they will take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from progcl.config import Config, to_dict
from progcl.errors import InputError
from progcl.experiments.ledger import Found, Ledger, Run
from progcl.experiments.tables import Cell, Table

EPOCH_SECONDS = Path(__file__).with_name("epoch_seconds.json")  # written by benchmarks/epoch_seconds.py
# Of one split, for each node and column of the embedding, on one core (benchmarks/epoch_seconds.py)
PROBE_SECONDS = {"clean": 6.3e-8, "gca": 5.8e-7, "bgrl": 3.9e-7}


@dataclass(frozen=True)
class Slot:
    """One run that a cell wants, and what the ledger has of it."""

    cell: Cell
    run: Run
    found: Found


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table on one data set: its runs, or why there can be none."""

    cell: Cell
    slots: tuple[Slot, ...] = ()
    obstacle: str = ""

    @property
    def missing(self) -> list[Slot]:
        """Runs that the ledger does not have."""
        return [slot for slot in self.slots if not slot.found.is_current]

    @property
    def stale(self) -> list[Slot]:
        """Missing runs of which the ledger has another version."""
        return [slot for slot in self.missing if slot.found.entry is not None]

    @property
    def state(self) -> str:
        """In words: done, 1 of 3 seeds, not run, stale (code), or the obstacle."""
        done = len(self.slots) - len(self.missing)
        if self.obstacle:
            return self.obstacle
        if not self.missing:
            return "done"
        differs = sorted({name for slot in self.stale for name in slot.found.differs})
        stale = f"stale ({', '.join(differs)})" if self.stale else ""
        return ", ".join(filter(None, [f"{done} of {len(self.slots)} seeds" if done else "", stale])) or "not run"


Checksum = Callable[[Config], int | None]  # of a configuration's graph; raises InputError if it is not here


def make_plan(
    table: Table,
    cells: Iterable[Cell],
    ledger: Ledger,
    checksum: Checksum,
    seeds: int | None = None,
    fast: bool = False,
) -> list[PlannedRow]:
    """The state of every cell; `seeds` replaces the number of seeds of each cell that has any."""
    return [_plan_row(table, cell, ledger, checksum, seeds, fast) for cell in cells]


def _plan_row(
    table: Table, cell: Cell, ledger: Ledger, checksum: Checksum, seeds: int | None, fast: bool
) -> PlannedRow:
    try:
        config = cell.config(fast=fast)
    except InputError as error:
        return PlannedRow(cell, obstacle=f"not available: {error.args[0]}")
    try:
        data = checksum(config)
    except InputError as error:
        return PlannedRow(cell, obstacle=str(error.args[0]))
    number = (seeds or cell.seeds) if table.rows[cell.row].seeds else 1
    runs = [Run(cell.name, cell.config(seed, fast), data, fast) for seed in range(number)]
    return PlannedRow(cell, tuple(Slot(cell, run, ledger.find(run)) for run in runs))


def read_checksums(data_root: str | None) -> Checksum:
    """Checksums of the graphs themselves, each read once."""
    from progcl.data.datasets import is_here, load_data
    from progcl.data.prepare import fingerprint

    @cache
    def read(section: str) -> int | InputError:
        try:
            return fingerprint(load_data(configs[section].data, data_root))
        except InputError as error:
            name = configs[section].data.name
            return error if is_here(name, data_root) else InputError("data not available here", error.hint)

    configs: dict[str, Config] = {}

    def checksum(config: Config) -> int:
        section = json.dumps(to_dict(config)["data"])
        configs[section] = config
        found = read(section)
        if isinstance(found, InputError):
            raise found
        return found

    return checksum


def recall_checksums(ledger: Ledger) -> Checksum:
    """Checksums of the newest entries, where no graph is read."""
    return ledger.newest_checksum


def estimate_seconds(run: Run, ledger: Ledger) -> float | None:
    """Seconds that a run will take on one core: as long as others of its cell did, or by measured epochs."""
    done = [entry for entry in ledger.entries if entry.cell == run.cell and entry.fast == run.fast]
    if done:
        return median(sum(entry.seconds.values()) for entry in done)
    per_epoch = load_epoch_seconds().get(run.cell)
    if per_epoch is None:
        return None
    return per_epoch * run.config.train.epochs + _probe_seconds(run.config)


def _probe_seconds(config: Config) -> float:
    from progcl.data.datasets import PUBLISHED

    published = PUBLISHED.get(config.data.name)
    nodes = published.counts.nodes if published else config.data.nodes or 2000
    method: Any = config.method
    widths = {"raw": published.counts.features if published else None, "hops": config.hops.dim}
    own = getattr(method, "rank", None) or getattr(method, "dim", None) or config.encoder.hidden
    width: int = widths.get(method.name) or own
    splits = 1 if config.probe.nodes == "heldout" else config.probe.splits
    return sum(PROBE_SECONDS.values()) * nodes * width * splits


@cache
def load_epoch_seconds() -> dict[str, float]:
    """Measured seconds of an epoch by cell; 0 for what is not trained."""
    seconds: dict[str, float] = json.loads(EPOCH_SECONDS.read_text()) if EPOCH_SECONDS.exists() else {}
    return seconds
