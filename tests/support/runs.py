"""Small runs that many tests share."""

from typing import Any

from progcl import Config, load_config

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


def small(**changes: Any) -> Config:
    return load_config("csbm", {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}})
