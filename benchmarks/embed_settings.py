"""Choose the settings of `progcl embed` by ProGCL-weight's accuracy on a fifth of the nodes of four graphs at once.

The table of `benchmarks/embed_table.py` is made on the other four fifths, whose labels are not used here. The settings
tried are the product of the lists below, and those for few features (narrow_settings.py); of those that find a mixture
and are above the untrained encoder on every graph, the best mean over the graphs is taken. So that the choice serves
the table, the classifiers learn from as many nodes as there.

    python benchmarks/embed_settings.py
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from ledger import add, entries
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import load_config
from progcl.data.datasets import load_dataset, own_graph, roots
from progcl.data.labels import labels_of
from progcl.data.prepare import normalized
from progcl.data.splits import Split, select_nodes
from progcl.embed import NARROW, STEPS, by_size
from progcl.evaluation.probe import clean
from progcl.training.trainer import Trainer, mixture_facts

LEDGER = Path(__file__).parents[1] / "results" / "embed-settings.jsonl"
LEARNED, VALIDATED, SPLITS = 0.4, 0.1, 20  # shares of the fifth
CHOICES: dict[str, list[Any]] = {
    "steps": [50, 100, 200],
    "loss.tau": [0.4, 1.0],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6]],
}


def graphs() -> dict[str, Data]:
    """The four graphs; Cora is read from a file, for PyG's reader wants the original ones."""
    cora = next(place / "cora" / "cora.npz" for place in roots() if (place / "cora" / "cora.npz").exists())
    return {
        "cora": normalized(own_graph(str(cora))),
        **{name: load_dataset(name) for name in ("photo", "facebook", "digits")},
    }


def main() -> None:
    """Run what is not in the ledger yet, then print those to choose from, the best first."""
    untrained: dict[str, Any] = {"steps": 0}
    settings = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
    settings.append({"steps": STEPS, **NARROW})
    data = graphs()
    for point in tqdm([untrained, *settings]):
        if point not in [entry["settings"] for entry in entries(LEDGER)]:
            runs = {name: score(point, graph) for name, graph in data.items()}
            scores = {name: accuracy for name, (accuracy, _) in runs.items()}
            mined = all(found for _, found in runs.values())
            mean = round(float(np.mean(list(scores.values()))), 3)
            add(LEDGER, {"settings": point, "mean": mean, "scores": scores, "mined": mined})
    done = entries(LEDGER)
    (least,) = (entry["scores"] for entry in done if entry["settings"] == untrained)
    above = [entry for entry in done if entry["mined"] and all(entry["scores"][name] > least[name] for name in least)]
    print(f"{len(above)} of {len(done) - 1} find a mixture and are above the untrained encoder on every graph")
    for entry in sorted(above, key=lambda entry: -entry["mean"]):
        print(entry)


def score(point: dict[str, Any], data: Data) -> tuple[float, bool]:
    """What classifiers on the tuning nodes make of a run with these settings, and whether it found a mixture."""
    training = trained(point, data)
    mean = 100 * float(np.mean(clean(training.embed(), labels_of(data), tuning_splits(data))))
    mixture = mixture_facts(training.miner)
    return round(mean, 3), mixture is not None and not mixture["degenerate"]


def trained(point: dict[str, Any], data: Data) -> Trainer:
    """A run with these settings."""
    size = by_size(int(data.num_nodes), point["steps"])
    plain = {name: value for name, value in point.items() if name != "steps"}
    training = Trainer(load_config("embed", {**size, **plain, "probe.protocol": "none"}), data)
    if point["steps"]:
        list(training.run(training.config.train.epochs))
    return training


def tuning_splits(data: Data) -> list[Split]:
    """Of the nodes that settings are chosen on."""
    nodes = select_nodes(int(data.num_nodes), "tuning")
    ends = int(LEARNED * len(nodes)), int((LEARNED + VALIDATED) * len(nodes))
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    return [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]


if __name__ == "__main__":
    main()
