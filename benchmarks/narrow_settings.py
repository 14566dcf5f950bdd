"""Choose the settings of `progcl embed` for graphs with no more features than it reduces them to.

By ProGCL-weight's gain on the untrained encoder, in the mean over three graphs of drawn digits (all nodes: no table is
made of them), the tuning fifth of digits, and that of Cora with features made of its edges. The first setting is the
one for graphs with many features.

    python benchmarks/narrow_settings.py
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from drawn import drawn_digits
from embed_settings import graphs, trained, tuning_splits
from ledger import add, entries
from progcl.data.structural_features import structural_features
from torch_geometric.data import Data
from tqdm import tqdm

from progcl.data.labels import labels_of
from progcl.data.splits import Split, make_splits
from progcl.evaluation.probe import clean

LEDGER = Path(__file__).parents[1] / "results" / "narrow-settings.jsonl"
DRAWN, SPLITS = 3, 10
UNTRAINED: dict[str, Any] = {"steps": 0}
SETTINGS: list[dict[str, Any]] = [
    {"steps": 200, "method.walk": 0, "method.drop_features": [0.4, 0.4], "train.lr": 5e-5},
    *(
        {"steps": 200, "method.walk": walk, "method.drop_features": [0.0, 0.0], "train.lr": rate}
        for walk, rate in product([1, 2, 4], [5e-5, 1e-4, 2e-4])
    ),
]


def main() -> None:
    """Run what is not in the ledger yet, then print the gains, the best first."""
    data = chosen_on()
    for point in tqdm([UNTRAINED, *SETTINGS]):
        if point not in [entry["settings"] for entry in entries(LEDGER)]:
            scores = {name: score(point, graph, splits) for name, (graph, splits) in data.items()}
            add(LEDGER, {"settings": point, "scores": scores})
    (least,) = (entry["scores"] for entry in entries(LEDGER) if entry["settings"] == UNTRAINED)
    gains = [
        ({name: round(found - least[name], 2) for name, found in entry["scores"].items()}, entry["settings"])
        for entry in entries(LEDGER)
        if entry["settings"] != UNTRAINED
    ]
    for gain, point in sorted(gains, key=lambda each: -sum(each[0].values())):
        print(f"{np.mean(list(gain.values())):+.2f}", gain, point)


def chosen_on() -> dict[str, tuple[Data, list[Split]]]:
    """Graphs with few features, and the splits to score on."""
    found = graphs()
    digits, cora = found["digits"], found["cora"]
    bare = Data(x=structural_features(cora.edge_index, int(cora.num_nodes)), edge_index=cora.edge_index, y=cora.y)
    drawn = {f"drawn {seed}": drawn_digits(seed) for seed in range(DRAWN)}
    return {
        **{name: (graph, make_splits(graph, SPLITS)) for name, graph in drawn.items()},
        "digits": (digits, tuning_splits(digits)),
        "cora without features": (bare, tuning_splits(bare)),
    }


def score(point: dict[str, Any], data: Data, splits: list[Split]) -> float:
    """Accuracy in percent after a run with these settings."""
    return round(100 * float(np.mean(clean(trained(point, data).embed(), labels_of(data), splits))), 3)


if __name__ == "__main__":
    main()
