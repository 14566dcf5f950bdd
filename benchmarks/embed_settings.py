"""Grid search for the settings of `progcl embed`, by ProGCL-weight's accuracy on a fifth of the nodes of four graphs.

The table of `benchmarks/embed_table.py` is reported on the other four fifths, whose labels are not used here.
Candidates are the product of the lists below, and the settings for few features (narrow_settings.py). Of those that fit
a mixture and beat the untrained encoder on every graph, the best mean over the graphs is chosen. The classifiers are
trained on as many nodes as in the table.

    python benchmarks/embed_settings.py
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from ledger import append_entry, read_ledger
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import load_config
from progcl.data.datasets import load_dataset, roots
from progcl.data.labels import labels_of
from progcl.data.splits import Split, select_nodes
from progcl.embed import NARROW, STEPS, settings_by_size, start_epoch
from progcl.evaluation.probe import probe_clean
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "embed-settings.jsonl"
TRAIN_SHARE, VALIDATION_SHARE, SPLITS = 0.4, 0.1, 20  # shares of the fifth
CHOICES: dict[str, list[Any]] = {
    "steps": [50, 100, 200],
    "loss.tau": [0.4, 1.0],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6]],
}


def load_graphs() -> dict[str, Data]:
    """The four graphs; Cora is read from an .npz file, because PyG's reader needs the original raw files."""
    cora = next(place / "cora" / "cora.npz" for place in roots() if (place / "cora" / "cora.npz").exists())
    return {
        "cora": load_dataset("file", graph=str(cora)),
        **{name: load_dataset(name) for name in ("photo", "facebook", "digits")},
    }


def main() -> None:
    """Run the candidates that are not in the ledger, then print the eligible ones, the best first."""
    untrained: dict[str, Any] = {"steps": 0}
    settings = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
    settings.append({"steps": STEPS, **NARROW})
    data = load_graphs()
    for point in tqdm([untrained, *settings]):
        if point not in [entry["settings"] for entry in read_ledger(LEDGER)]:
            runs = {name: evaluate(point, graph) for name, graph in data.items()}
            scores = {name: accuracy for name, (accuracy, _) in runs.items()}
            mined = all(has_mixture for _, has_mixture in runs.values())
            mean = round(float(np.mean(list(scores.values()))), 3)
            append_entry(LEDGER, {"settings": point, "mean": mean, "scores": scores, "mined": mined})
    done = read_ledger(LEDGER)
    (baseline,) = (entry["scores"] for entry in done if entry["settings"] == untrained)
    eligible = [
        entry for entry in done if entry["mined"] and all(entry["scores"][name] > baseline[name] for name in baseline)
    ]
    print(f"{len(eligible)} of {len(done) - 1} fit a mixture and beat the untrained encoder on every graph")
    for entry in sorted(eligible, key=lambda entry: -entry["mean"]):
        print(entry)


def evaluate(point: dict[str, Any], data: Data) -> tuple[float, bool]:
    """Accuracy on the tuning nodes after training with these settings, and whether a mixture was fitted."""
    training = train(point, data)
    mean = 100 * float(np.mean(probe_clean(training.embed(), labels_of(data), make_tuning_splits(data))))
    mixture = training.method.facts().get("mixture")
    return round(mean, 3), mixture is not None and not mixture["degenerate"]


def train(point: dict[str, Any], data: Data) -> Trainer:
    """Train with these settings."""
    size = settings_by_size(int(data.num_nodes), point["steps"])
    size["miner.start_epoch"] = start_epoch(size["train.epochs"])
    changes = {name: value for name, value in point.items() if name != "steps"}
    training = Trainer(load_config("embed", {**size, **changes, "probe.protocol": "none"}), data)
    if point["steps"]:
        list(training.run(training.config.train.epochs))
    return training


def make_tuning_splits(data: Data) -> list[Split]:
    """Random splits of the nodes that settings are chosen on."""
    nodes = select_nodes(int(data.num_nodes), "tuning")
    ends = int(TRAIN_SHARE * len(nodes)), int((TRAIN_SHARE + VALIDATION_SHARE) * len(nodes))
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    return [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]


if __name__ == "__main__":
    main()
