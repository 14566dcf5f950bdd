"""Random search for the settings of the preset `digits`, by ProGCL-weight's accuracy on a fifth of the nodes.

The preset's table is reported on the other four fifths, whose labels are not used here. Candidates are drawn uniformly
from the product of the lists below. Of those within a quarter point of the best, the narrowest encoder is chosen. The
classifiers are trained on as many nodes as in the table: 144 of this fifth's 359.

    python benchmarks/digits_settings.py
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from ledger import append_entry, read_ledger
from tqdm import tqdm

from progcl import fit, load_config
from progcl.data.labels import labels_of
from progcl.data.splits import Split, select_nodes
from progcl.data.synthetic import digits
from progcl.evaluation.probe import probe_clean

LEDGER = Path(__file__).parents[1] / "results" / "digits-settings.jsonl"
TRIALS = 48
TOLERANCE = 0.25  # points of accuracy below which settings cannot be told apart on so few nodes
TRAIN_NODES, VALIDATION_NODES, SPLITS = 144, 35, 20
CHOICES: dict[str, list[Any]] = {
    "data.neighbors": [5, 10],
    "encoder.hidden": [64, 128, 256],
    "encoder.activation": ["relu", "prelu"],
    "loss.tau": [0.2, 0.4, 0.8],
    "train.lr": [0.001, 0.003, 0.01],
    "train.epochs": [120, 180, 300],
    "method.drop_edges": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]],
    "method.drop_features": [[0.0, 0.1], [0.1, 0.2], [0.3, 0.4]],
    "miner.start_epoch": [30, 60],
    "miner.prior": [0.05, 0.1, 0.2],
}


def main() -> None:
    """Run the candidates that are not in the ledger, then print the best ten and the chosen one."""
    draw = random.Random(0)
    settings = [{name: draw.choice(values) for name, values in CHOICES.items()} for _ in range(TRIALS)]
    done = read_ledger(LEDGER)
    for point in tqdm([point for point in settings if point not in [entry["settings"] for entry in done]]):
        done.append(evaluate(point))
        append_entry(LEDGER, done[-1])
    done.sort(key=lambda entry: -entry["mean"])
    for entry in done[:10]:
        print(entry)
    close = [entry for entry in done if entry["mean"] > done[0]["mean"] - TOLERANCE]
    print("chosen:", min(close, key=lambda entry: entry["settings"]["encoder.hidden"]))


def evaluate(point: dict[str, Any]) -> dict[str, Any]:
    """Train with these settings, and probe on the tuning nodes."""
    fixed = {"probe.protocol": "none", "probe.compare": False, "encoder.projection": point["encoder.hidden"]}
    result = fit(load_config("digits", {**point, **fixed}))
    labels = labels_of(digits())
    nodes = select_nodes(len(labels), "tuning")
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    ends = TRAIN_NODES, TRAIN_NODES + VALIDATION_NODES
    splits = [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]
    mean = 100 * float(np.mean([score.accuracy for score in probe_clean(result.embeddings, labels, splits)]))
    mined = result.mixture is not None and not result.mixture["degenerate"]
    return {"settings": point, "mean": round(mean, 3), "mined": mined}


if __name__ == "__main__":
    main()
