"""Numbers that tell whether a part of the package still behaves as it did: losses and embeddings on a tiny graph.

python -m progcl.experiments.behavior     compare, raise the version of what changed, write behavior.json
"""

from __future__ import annotations

import json
from typing import Any

import torch

from progcl.config import load_config
from progcl.config.methods import METHODS
from progcl.config.miners import MINER_ENTRIES
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import PROTOCOLS, linear_probe
from progcl.experiments.versions import VERSIONS, load_versions
from progcl.nn.encoders import ENCODERS
from progcl.training.files import write_text
from progcl.training.trainer import Trainer

TOLERANCE = 1e-3  # relative; processors and versions of torch round differently
TINY: dict[str, Any] = {
    **{"encoder.hidden": 16, "encoder.projection": 16, "encoder.rank": 16, "hops.dim": 16, "method.dim": 8},
    **{"method.rank": 8, "method.walk_length": 8, "train.epochs": 3, "train.lr": 0.01, "probe.protocol": "none"},
    "probe.splits": 20,  # networks that are trained with labels
    **{"miner.hardest": 10, "miner.synthetic": 10, "miner.with_anchor": 4},
}
GRAPH: dict[str, Any] = {"nodes": 150, "degree": 20, "homophily": 0.95, "signal": 3.0}  # a mixture is fitted there
HOP_TABLE = {"encoder.hops": [0, 1], "method.drop_edges": [0.0, 0.0]}
MINED = {"train.epochs": 4, "train.lr": 0.001, "miner.start_epoch": 2, "encoder.hidden": 64, "encoder.projection": 64}
NOT_ON_GRAPHS = ("simclr",)  # reads images
BATCHES = {"batch.size": 40, "batch.fanouts": [4, 3]}
# Gradients of MERIT's biases before a normalization are rounding errors, which Adam scales up to whole steps.
SLOW = {"merit": {"train.lr": 0.0001}}
FURTHER = {"neighbors": [{"method.objective": "sigmoid"}]}  # options that change what a method is


def list_cases() -> dict[str, list[dict[str, Any]]]:
    """Runs for each part, as changes of a tiny run of GRACE."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for name, entry in METHODS.items():
        if name in NOT_ON_GRAPHS:
            continue
        alone = {"method.name": name, "miner.name": "none", **SLOW.get(name, {})}
        batched = [{**alone, **BATCHES}] if "batches" in entry.options.supports else []
        inductive = [{**alone, "data.inductive": True}] if "inductive" in entry.options.supports else []
        further = [{**alone, **changes} for changes in FURTHER.get(name, [])]
        cases[f"method {name}"] = [alone, *batched, *inductive, *further]
    for name in ENCODERS:
        reads_hops = HOP_TABLE if name in ("svd", "hops") else {}
        cases[f"encoder {name}"] = [{"encoder.name": name, "miner.name": "none", **reads_hops}]
    for name in MINER_ENTRIES:
        cases[f"miner {name}"] = [{"miner.name": name, **MINED}, {"miner.name": name, **MINED, "train.anchors": 60}]
    return cases


def measure(part: str) -> list[float]:
    """The numbers of a part, on one thread, as sums depend on their order; those of `probe` are accuracies."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(part)
    finally:
        torch.set_num_threads(threads)


def _measure(part: str) -> list[float]:
    if part == "probe":
        data = csbm(**GRAPH)
        means = [linear_probe(data.x, data, name, splits=1).mean for name in PROTOCOLS]
        return [round(mean, 3) for mean in means]
    return [round(number, 6) for changes in list_cases()[part] for number in _run(changes)]


def differs(part: str, numbers: list[float]) -> bool:
    """Whether numbers are not those of the part's version."""
    known: list[float] = load_versions().get(part, {"numbers": []})["numbers"]
    return len(known) != len(numbers) or any(
        abs(one - other) > TOLERANCE * max(abs(one), 1e-2) for one, other in zip(known, numbers, strict=True)
    )


def update() -> list[str]:
    """Raise the versions of parts that changed, and return their names."""
    parts = {part: measure(part) for part in (*list_cases(), "probe")}
    changed = [part for part, numbers in parts.items() if differs(part, numbers)]
    known = load_versions()
    content = {
        part: {"version": known.get(part, {"version": 0})["version"] + 1, "numbers": numbers}
        if part in changed
        else known[part]
        for part, numbers in parts.items()
    }
    lines = ",\n".join(f"  {json.dumps(part)}: {json.dumps(values)}" for part, values in content.items())
    write_text(VERSIONS, f"{{\n{lines}\n}}\n")
    load_versions.cache_clear()
    return changed


def _run(changes: dict[str, Any]) -> list[float]:
    """Losses of the epochs, and two moments of the embedding that no rotation changes."""
    config = load_config("csbm", {**TINY, **changes}, strict=False)
    trainer = Trainer(config, csbm(**GRAPH))
    losses = [record.loss for record in trainer.run(config.train.epochs)]
    vectors = torch.nn.functional.normalize(trainer.embed().double(), dim=1)
    cosines = vectors @ vectors.T
    return [*losses, float(cosines.mean()), float(cosines.std())]


if __name__ == "__main__":
    for part in update():
        print(f"{part}: version {load_versions()[part]['version']}")
