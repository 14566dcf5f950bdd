"""Choose the settings of `progcl embed` by ProGCL-weight's accuracy on a fifth of the nodes of four graphs at once.

The table of `benchmarks/embed_table.py` is made on the other four fifths, whose labels are not used here. The settings
tried are drawn at random from the product of the lists below, all of them equally probable; the best mean over the
graphs is taken. So that the choice serves the table, the classifiers learn from as many nodes as there.

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
TRIED = 30
LEARNED, VALIDATED, SPLITS = 0.4, 0.1, 5  # shares of the fifth
CHOICES: dict[str, list[Any]] = {
    "steps": [100, 200, 400],
    "encoder.hops": [2, 3, 4],
    "encoder.activation": ["relu", "elu"],
    "loss.tau": [0.2, 0.4, 0.8],
    "train.lr": [0.0003, 0.001, 0.002],
    "method.drop_features": [[0.4, 0.4], [0.6, 0.6], [0.8, 0.8]],
    "miner.prior": [0.05, 0.15],
}


def graphs() -> dict[str, Data]:
    """The four graphs; Cora is read from a file, for PyG's reader wants the original ones."""
    cora = next(place / "cora" / "cora.npz" for place in roots() if (place / "cora" / "cora.npz").exists())
    return {"cora": normalized(own_graph(str(cora))), **{name: load(name) for name in ("photo", "facebook", "digits")}}


def main() -> None:
    """Run what is not in the ledger yet, then print the best settings first."""
    draw = random.Random(0)
    settings = [{name: draw.choice(values) for name, values in CHOICES.items()} for _ in range(TRIED)]
    done, data = entries(LEDGER), graphs()
    for point in tqdm([point for point in settings if point not in [entry["settings"] for entry in done]]):
        scores = {name: tried(point, graph) for name, graph in data.items()}
        done.append({"settings": point, "mean": round(float(np.mean(list(scores.values()))), 3), "scores": scores})
        add(LEDGER, done[-1])
    for entry in sorted(done, key=lambda entry: -entry["mean"])[:10]:
        print(entry)


def tried(point: dict[str, Any], data: Data) -> float:
    """What classifiers on the tuning nodes make of a run with these settings."""
    size = by_size(int(data.num_nodes), point["steps"])
    plain = {name: value for name, value in point.items() if name != "steps"}
    result = fit(load_config("embed", {**size, **plain, "probe.protocol": "none"}), data=data)
    labels = labels_of(data)
    nodes = choose_nodes(len(labels), "tuning")
    ends = int(LEARNED * len(nodes)), int((LEARNED + VALIDATED) * len(nodes))
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    splits = [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]
    return round(100 * float(np.mean(clean(result.embeddings, labels, splits))), 3)


if __name__ == "__main__":
    main()
