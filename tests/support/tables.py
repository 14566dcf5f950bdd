"""A table of tiny runs on a synthetic graph, and entries of a ledger that were never run."""

from pathlib import Path
from typing import Any

import yaml

from progcl.config import to_dict
from progcl.experiments.ledger import Entry, Ledger, Run, append_line, hash_settings
from progcl.experiments.tables import Cell, Table, load_tables

GRAPH = {"data.nodes": 60, "data.degree": 8, "data.signal": 2.0, "data.classes": 3}
TINY = {**GRAPH, "encoder.hidden": 8, "train.epochs": 4, "train.checkpoint_every": 1, "probe.splits": 2}
PUBLISHED = {"value": 60.0, "std": 0.5, "protocol": "gca", "source": "nowhere"}
CELLS: dict[str, dict[str, Any]] = {
    "raw": {"settings": {**TINY, "method.name": "raw"}, "published": PUBLISHED},
    "random-init": {"settings": {**TINY, "method.name": "random-init"}},
    "grace": {"settings": {**TINY, "miner.name": "none"}, "published": PUBLISHED, "seeds": 2, "remark": "silent"},
    "hcl": {"settings": {**TINY, "miner.name": "hcl"}, "base": "grace", "seeds": 2, "length": "4 of 100 epochs"},
    "absent": {"preset": "gcn-nowhere"},
    "elsewhere": {"preset": "wikics", "settings": {"method.name": "raw"}},
}
ROWS: dict[str, dict[str, Any]] = {
    "raw": {"title": "raw features", "inputs": "X", "training": False, "seeds": False},
    "random-init": {"title": "untrained", "inputs": "X, A", "training": False},
    **{name: {"title": name.upper(), "inputs": "X, A"} for name in ("grace", "hcl", "absent", "elsewhere")},
}


def write_tables(folder: Path, cells: dict[str, dict[str, Any]] = CELLS) -> Table:
    """A folder with one table of one column, in a form that another process can read."""
    (folder / "tiny").mkdir(parents=True, exist_ok=True)
    index = {"tables": {"tiny": "accuracy, tiny"}, "rows": ROWS}
    (folder / "index.yaml").write_text(yaml.safe_dump(index, sort_keys=False))
    complete = {row: {"preset": "csbm", "source": "ours", **cell} for row, cell in cells.items()}
    column = {"title": "Drawn graph", "cells": complete}
    (folder / "tiny" / "csbm.yaml").write_text(yaml.safe_dump(column, sort_keys=False))
    return load_tables(folder)["tiny"]


def append_many(path: Path, name: str, number: int) -> None:
    """Append long lines, in a process of a test."""
    for index in range(number):
        append_line(path, {"name": name, "index": index, "padding": "x" * 5000})


def make_entry(run: Run, level: float = 60.0, **changes: Any) -> Entry:
    """An entry for a run, whose splits score around a level under every protocol."""
    values: dict[str, Any] = {
        **{"cell": run.cell, "seed": run.seed, "hash": hash_settings(to_dict(run.config))},
        **{"config": to_dict(run.config), "data": run.data or 7, "code": run.code, "fast": run.fast},
        "scores": {name: [level - 1, level + 1] for name in ("clean", "gca", "bgrl")},
        **{"seconds": {"train": 100.0, "clean": 5.0}, "epochs": 4, "peak_mb": 250.0},
    }
    return Entry(**{**values, **changes})


def fill(ledger: Ledger, cell: Cell, levels: list[float], data: int = 7) -> None:
    """Enter one run of a cell for each level, with seeds from 0."""
    for seed, level in enumerate(levels):
        ledger.append(make_entry(Run(cell.name, cell.config(seed), data), level))
