"""Small runs that many tests share, their folders, and runs that are interrupted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from progcl import Config, fit, load_config
from progcl.checksums import read_json, read_json_lines
from progcl.result import Result
from progcl.training.trainer import Record

SMALL: dict[str, Any] = {
    "data.nodes": 150,
    "data.degree": 20,
    "data.homophily": 0.95,
    "data.signal": 3,
    "train.epochs": 12,
    "train.checkpoint_every": 5,
    "miner.start_epoch": 6,
    "miner.hardest": 10,
    "miner.synthetic": 10,
    "encoder.hidden": 16,
    "probe.splits": 2,
}
BATCHES: dict[str, Any] = {"batch__size": 40, "batch__fanouts": [4, 3], "encoder__name": "sage", "train__lr": 0.005}


def small(**changes: Any) -> Config:
    """A small run on a synthetic graph; `train__epochs=3` changes `train.epochs`."""
    overrides = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    return load_config("csbm", overrides, strict=False)


class Interrupt(Exception):
    """Stops a run from its callback."""


def fit_interrupted(config: Config, folder: Path, *epochs: int, **options: Any) -> Result:
    """Run in a folder, stop after each of the given epochs, resume each time, and run to the end."""

    def interrupt(record: Record) -> None:
        if record.epoch == epochs[stops]:
            raise Interrupt

    for stops in range(len(epochs)):
        with pytest.raises(Interrupt):
            fit(config, out=folder, resume=stops > 0, on_epoch=interrupt, **options)
    return fit(config, out=folder, resume=True, **options)


def assert_same_run(first: Path, second: Path) -> None:
    """Two folders hold the same results and the same bits; only measured times may differ."""
    assert read_result(first) == read_result(second)
    assert np.array_equal(read_embeddings(first), read_embeddings(second))
    logs = [[(line["epoch"], line["loss"]) for line in read_log(folder)] for folder in (first, second)]
    assert logs[0] == logs[1]


def read_result(folder: Path) -> dict[str, Any]:
    """result.json without measured times."""
    result = read_json(folder / "result.json")
    assert set(result.pop("seconds")) == {"train", "probe"}
    return result


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The epochs in log.jsonl."""
    return read_json_lines(folder / "log.jsonl")


def read_embeddings(folder: Path) -> Any:
    """The vectors in embeddings.npz."""
    with np.load(folder / "embeddings.npz") as file:
        return file["embeddings"]


def equal_states(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Whether two state dictionaries hold the same names and bits."""
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())
