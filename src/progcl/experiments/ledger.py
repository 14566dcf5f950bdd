"""The ledger: a JSON line for each run, appended under a lock, found again by settings, data, code and seed.

An entry with other settings, another graph or another version of the code is another entry: it is shown as stale where
no better one is there, and is never used in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from progcl.config import Config, to_dict
from progcl.config.load import DEFAULTS, SECTIONS, TABLES, options_type
from progcl.errors import InputError
from progcl.experiments.versions import code_version

# What changes neither embeddings nor splits; the seed is kept beside the settings
NOT_SETTINGS = {
    *("train.seed", "train.checkpoint_every", "loss.block_size", "loss.memory"),
    *("miner.others", "probe.protocol", "probe.limit", "probe.compare"),
}
Line = dict[str, Any]


def read_lines(path: Path) -> list[Line]:
    """The entries of a file of JSON lines; empty if there is none. A last line without its end was never complete."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append an entry, whole or not at all, also if other processes append at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"), path.open("a+b") as file:
        file.truncate(_end_of_last_line(path.read_bytes()))  # what a killed process left behind
        file.write((json.dumps(line) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _end_of_last_line(content: bytes) -> int:
    return content.rfind(b"\n") + 1


@dataclass(frozen=True)
class Run:
    """What a run is known by.

    Attributes:
        cell: the cell that asks for it
        config: its settings
        data: checksum of its graph; None if that is not known, so that any will do
        fast: whether it is a short version
    """

    cell: str
    config: Config
    data: int | None
    fast: bool = False

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.train.seed

    @property
    def code(self) -> str:
        """The version of the code that it depends on."""
        return code_version(self.config)

    @property
    def id(self) -> str:
        """A short name, equal only for the same settings, graph, code and seed."""
        return _hash([hash_settings(to_dict(self.config)), self.data, self.code, self.seed])[:12]


@dataclass(frozen=True)
class Entry:
    """A finished run.

    Attributes:
        cell: the cell that asked for it, as `table2/photo/gca`
        seed: of the run
        hash: of the settings
        config: all settings
        data: checksum of the graph
        code: version of the code
        scores: test accuracies of every split in percent, by protocol
        seconds: of training, and of the probe by protocol
        epochs: that were trained
        peak_mb: largest resident memory of training
        fast: whether it is a short version
        dim: width of the embedding
        versions: of the packages
        facts: what the method had to say, such as the fitted mixture
    """

    cell: str
    seed: int
    hash: str
    config: Line
    data: int
    code: str
    scores: dict[str, list[float]]
    seconds: dict[str, float]
    epochs: int
    peak_mb: float | None
    fast: bool = False
    dim: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    facts: Line = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """The entry for a run, if there is one, and what differs if it is stale."""

    entry: Entry | None = None
    differs: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether the entry may be used."""
        return self.entry is not None and not self.differs


class Ledger:
    """The entries of a file; `reload` reads what other processes have added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reload()

    def reload(self) -> None:
        """Read the file again.

        Raises:
            InputError: a line that is no entry
        """
        try:
            self.entries = [Entry(**line) for line in read_lines(self.path)]
        except (TypeError, json.JSONDecodeError) as error:
            raise InputError(f"`{self.path}` is no ledger: {error}", "name another with --ledger") from None

    def append(self, entry: Entry) -> None:
        """Add an entry."""
        append_line(self.path, asdict(entry))
        self.entries.append(entry)

    def find(self, run: Run) -> Found:
        """The newest entry of the same settings, graph, code and seed; else the newest stale one of the same cell."""
        settings = hash_settings(to_dict(run.config))
        stale = Found()
        for entry in reversed(self.entries):
            if entry.seed != run.seed or entry.config["data"]["name"] != run.config.data.name:
                continue
            same = {
                "settings": hash_settings(entry.config) == settings,
                "data": run.data in (None, entry.data),
                "code": entry.code == run.code,
            }
            differs = tuple(name for name, is_same in same.items() if not is_same)
            if not differs:
                return Found(entry)
            if stale.entry is None and (entry.cell, entry.fast) == (run.cell, run.fast):
                stale = Found(entry, differs)
        return stale

    def newest_checksum(self, config: Config) -> int | None:
        """Checksum of the graph of the newest run with this section `data`."""
        section = to_dict(config)["data"]
        same = (entry.data for entry in reversed(self.entries) if _complete(entry.config)["data"] == section)
        return next(same, None)


def hash_settings(config: Line) -> str:
    """Hash of settings; keys that were added since the entry was written have their default.

    A new option leaves old entries valid, as long as its default does what was done before; a changed default does not.
    """
    return _cached_hash(json.dumps(config, sort_keys=True))


@cache
def _cached_hash(config: str) -> str:
    flat = {
        f"{section}.{key}": value
        for section, values in _complete(json.loads(config)).items()
        for key, value in values.items()
    }
    return _hash({key: value for key, value in flat.items() if key not in NOT_SETTINGS})


def _complete(config: Line) -> dict[str, Line]:
    return {section: {**_defaults(section, config.get(section, {})), **config.get(section, {})} for section in SECTIONS}


def _defaults(section: str, values: Line) -> Line:
    """Default values of a section; of methods and miners by their name, none if that is gone."""
    if section not in TABLES:
        default = getattr(DEFAULTS, section)
    else:
        try:
            default = options_type(section, values["name"])(name=values["name"])
        except InputError:
            return {}
    plain: Line = json.loads(json.dumps(asdict(default)))
    return plain


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
