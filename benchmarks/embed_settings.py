"""Choose the settings of `progcl embed` by ProGCL-weight's accuracy on a fifth of the nodes of four graphs at once.

The table of `benchmarks/embed_table.py` is made on the other four fifths, whose labels are not used here. The settings
tried are drawn at random from the product of the lists below, in three rounds; the best mean over the graphs is taken.
So that the choice serves the table, the classifiers learn from as many nodes as there.

    python benchmarks/embed_settings.py
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from ledger import add, entries
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import fit, load_config
from progcl.data import load, normalized, roots
from progcl.embed import by_size
from progcl.intake import own_graph
from progcl.probe import Split, choose_nodes, clean, labels_of

LEDGER = Path(__file__).parents[1] / "results" / "embed-settings.jsonl"
LEARNED, VALIDATED, SPLITS = 0.4, 0.1, 5  # shares of the fifth
FIRST: dict[str, list[Any]] = {
    "steps": [100, 200, 400],
    "encoder.hops": [2, 3, 4],
    "encoder.activation": ["relu", "elu"],
    "loss.tau": [0.2, 0.4, 0.8],
    "train.lr": [0.0003, 0.001, 0.002],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6], [0.8, 0.8]],
    "miner.prior": [0.05, 0.15],
}
SECOND: dict[str, list[Any]] = {  # around the best of the first, with more directions and wider embeddings
    "steps": [100, 200],
    "encoder.hops": [4],
    "encoder.activation": ["elu"],
    "encoder.rank": [256, 512],
    "encoder.hidden": [256, 512],
    "loss.tau": [0.2, 0.4],
    "train.lr": [0.0003, 0.001],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6]],
    "miner.prior": [0.05, 0.15],
}
THIRD: dict[str, list[Any]] = {  # gentler ones, which the second round's best asked for
    "steps": [100, 200],
    "encoder.hops": [4],
    "encoder.activation": ["elu"],
    "encoder.rank": [256],
    "encoder.hidden": [512],
    "loss.tau": [0.4, 1.0],
    "train.lr": [0.0001, 0.0003],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6]],
    "miner.prior": [0.05],
}
ROUNDS = ((FIRST, 23), (SECOND, 16), (THIRD, 8))


def graphs() -> dict[str, Data]:
    """The four graphs; Cora is read from a file, for PyG's reader wants the original ones."""
    cora = next(place / "cora" / "cora.npz" for place in roots() if (place / "cora" / "cora.npz").exists())
    return {"cora": normalized(own_graph(str(cora))), **{name: load(name) for name in ("photo", "facebook", "digits")}}


def main() -> None:
    """Run what is not in the ledger yet, then print the best settings first."""
    settings = []
    for number, (choices, tried) in enumerate(ROUNDS):
        draw = random.Random(number)
        settings += [{name: draw.choice(values) for name, values in choices.items()} for _ in range(tried)]
    data = graphs()
    for point in tqdm(settings):
        if point not in [entry["settings"] for entry in entries(LEDGER)]:
            scores = {name: score(point, graph) for name, graph in data.items()}
            mean = round(float(np.mean(list(scores.values()))), 3)
            add(LEDGER, {"settings": point, "mean": mean, "scores": scores})
    done = entries(LEDGER)
    for entry in sorted(done, key=lambda entry: -entry["mean"])[:10]:
        print(entry)


def score(point: dict[str, Any], data: Data) -> float:
    """What classifiers on the tuning nodes make of a run with these settings."""
    size = by_size(int(data.num_nodes), point["steps"])
    shape = {"encoder.rank": 256, "encoder.hidden": 256, **point}
    plain = {name: value for name, value in shape.items() if name != "steps"}
    fixed = {"probe.protocol": "none", "encoder.projection": shape["encoder.hidden"]}
    result = fit(load_config("embed", {**size, **plain, **fixed}), data=data)
    labels = labels_of(data)
    nodes = choose_nodes(len(labels), "tuning")
    ends = int(LEARNED * len(nodes)), int((LEARNED + VALIDATED) * len(nodes))
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    splits = [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]
    return round(100 * float(np.mean(clean(result.embeddings, labels, splits))), 3)


if __name__ == "__main__":
    main()
