"""Experiments as data: the tables of the paper, a YAML file for each table and data set, a cell for each row.

A cell has its settings (a preset and what is changed), their source, the published figure with its protocol, and
remarks where the paper is silent. Nothing here reads data or imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from progcl.config import Config, load_config
from progcl.config.load import PRESETS
from progcl.errors import InputError
from progcl.registry import pick

TABLES = Path(__file__).parent / "tables"
PROTOCOLS = ("clean", "gca", "bgrl")
SPLITS = 20  # as published, unless a cell says otherwise
FAST_EPOCHS, FAST_ANCHORS, FAST_STEPS, FAST_SPLITS = 50, 1024, 10, 5


@dataclass(frozen=True)
class Published:
    """A published figure.

    Attributes:
        value: accuracy or micro-F1 in percent
        source: where it stands
        protocol: clean, gca or bgrl; supervised for a network trained on labels; None where it is not said
        std: as published
    """

    value: float
    source: str
    protocol: str | None = None
    std: float | None = None

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.value:.2f}{spread} ({self.protocol or 'protocol not said'})"


@dataclass(frozen=True)
class Row:
    """A system that tables compare.

    Attributes:
        title: as it is printed
        inputs: what it sees: features X, edges A, labels Y
        training: False for what needs none, which every table has
        seeds: False if its embedding is the same for every seed
    """

    title: str
    inputs: str
    training: bool = True
    seeds: bool = True


@dataclass(frozen=True)
class Cell:
    """One row on one data set.

    Attributes:
        preset: where the settings start from
        source: of the settings
        settings: what differs from the preset, by dotted key
        published: the figure to compare with
        base: row of the same method without a miner, which a gain is measured over
        seeds: how many there should be
        length: how the run is shorter than the published one
        remark: where the paper is silent
        finding: why ours is far below the published figure, once that has been looked into
    """

    table: str
    data: str
    row: str
    preset: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Published | None = None
    base: str | None = None
    seeds: int = 1
    length: str = ""
    remark: str = ""
    finding: str = ""

    @property
    def name(self) -> str:
        """The cell's place: `table2/photo/gca`."""
        return f"{self.table}/{self.data}/{self.row}"

    def config(self, seed: int = 0, fast: bool = False) -> Config:
        """Settings of one run, probed elsewhere.

        Raises:
            InputError: a method or option that does not exist (yet)
        """
        config = self._config if seed == 0 else replace(self._config, train=replace(self._config.train, seed=seed))
        return shorten(config) if fast else config

    @cached_property
    def _config(self) -> Config:
        pick(PRESETS, self.preset, "preset")
        fixed = {"train.seed": 0, "probe.protocol": "none"}
        return load_config(self.preset, {"probe.splits": SPLITS, **self.settings, **fixed})


@dataclass(frozen=True)
class Column:
    """All cells of a table on one data set, by row."""

    data: str
    title: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Table:
    """A table: its title, the rows that tables may have, and its columns by data set."""

    name: str
    title: str
    rows: Mapping[str, Row]
    folder: Path

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns, in alphabetical order."""
        return {path.stem: _read_column(self, path) for path in sorted(self.folder.glob("*.yaml"))}

    def select(self, data: Iterable[str] = (), rows: Iterable[str] = ()) -> list[Cell]:
        """The cells of some data sets and rows, of all if none are named; rows without training are always there.

        Raises:
            InputError: a name that this table does not have
        """
        columns = [pick(self.columns, name, f"data set of {self.name}") for name in data] or self.columns.values()
        known = {row: row for column in self.columns.values() for row in column.cells}
        wanted = {pick(known, row, f"row of {self.name}") for row in rows} or known.keys()
        return [
            cell
            for column in columns
            for row, cell in column.cells.items()
            if row in wanted or not self.rows[row].training
        ]


def load_tables(folder: Path = TABLES) -> dict[str, Table]:
    """All tables by name, from `index.yaml` and the folder of each."""
    index = yaml.safe_load((folder / "index.yaml").read_text())
    rows = {name: Row(**row) for name, row in index["rows"].items()}
    return {name: Table(name, title, rows, folder / name) for name, title in index["tables"].items()}


def shorten(config: Config) -> Config:
    """A short version of a run, to see that it works: few epochs, anchors, steps and splits; another configuration."""
    epochs = min(FAST_EPOCHS, config.train.epochs)
    train, batch, miner = replace(config.train, epochs=epochs), config.batch, config.miner
    if "anchors" in config.method.supports and batch.size is None:
        train = replace(train, anchors=min(FAST_ANCHORS, train.anchors or FAST_ANCHORS))
    if batch.size is not None and batch.variant == "snapshot":
        batch = replace(batch, steps=min(FAST_STEPS, batch.steps or FAST_STEPS))
    start: Any = getattr(miner, "start_epoch", None)
    if start is not None:
        changes: dict[str, Any] = {"start_epoch": max(1, start * epochs // config.train.epochs)}
        miner = replace(miner, **changes)
    probe = replace(config.probe, splits=min(FAST_SPLITS, config.probe.splits))
    return replace(config, train=train, batch=batch, miner=miner, probe=probe)


def _read_column(table: Table, path: Path) -> Column:
    content = yaml.safe_load(path.read_text())
    cells = {row: _make_cell(table, path.stem, row, values) for row, values in content["cells"].items()}
    for cell in cells.values():
        if cell.base is not None:
            pick(cells, cell.base, f"base of {cell.name}")
    return Column(path.stem, content["title"], cells)


def _make_cell(table: Table, data: str, row: str, values: dict[str, Any]) -> Cell:
    pick(table.rows, row, f"row in {data}.yaml of {table.name}")
    known = {each.name for each in fields(Cell)} - {"table", "data", "row"}
    foreign = values.keys() - known
    if foreign or not {"preset", "source"} <= values.keys():
        raise InputError(
            f"`{table.name}/{data}/{row}` needs preset and source, and may have {', '.join(sorted(known))}"
        )
    figure = values.get("published")
    return Cell(table.name, data, row, **{**values, "published": Published(**figure) if figure else None})
