"""Grid search for the settings of `progcl embed` on graphs with no more features than its SVD keeps.

By ProGCL-weight's gain over the untrained encoder, averaged over three graphs of rendered digits (all nodes, since no
table reports them), the tuning fifth of digits, and that of Cora with structural features. The first setting is the one
for graphs with many features.

    python benchmarks/narrow_settings.py
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from embed_settings import load_graphs, make_tuning_splits, train
from ledger import append_entry, read_ledger
from rendered_digits import render_digits
from torch_geometric.data import Data
from tqdm import tqdm

from progcl.data.labels import labels_of
from progcl.data.splits import Split, make_splits
from progcl.data.structure import structural_features
from progcl.evaluation.probe import probe_clean

LEDGER = Path(__file__).parents[1] / "results" / "narrow-settings.jsonl"
RENDERED_GRAPHS, SPLITS = 3, 10
UNTRAINED: dict[str, Any] = {"steps": 0}
SETTINGS: list[dict[str, Any]] = [
    {"steps": 200, "method.walk": 0, "method.drop_features": [0.4, 0.4], "train.lr": 5e-5},
    *(
        {"steps": 200, "method.walk": walk, "method.drop_features": [0.0, 0.0], "train.lr": rate}
        for walk, rate in product([1, 2, 4], [5e-5, 1e-4, 2e-4])
    ),
]


def main() -> None:
    """Run the candidates that are not in the ledger, then print the gains, the best first."""
    data = load_tuning_graphs()
    for point in tqdm([UNTRAINED, *SETTINGS]):
        if point not in [entry["settings"] for entry in read_ledger(LEDGER)]:
            scores = {name: evaluate(point, graph, splits) for name, (graph, splits) in data.items()}
            append_entry(LEDGER, {"settings": point, "scores": scores})
    (baseline,) = (entry["scores"] for entry in read_ledger(LEDGER) if entry["settings"] == UNTRAINED)
    gains = [
        ({name: round(accuracy - baseline[name], 2) for name, accuracy in entry["scores"].items()}, entry["settings"])
        for entry in read_ledger(LEDGER)
        if entry["settings"] != UNTRAINED
    ]
    for gain, point in sorted(gains, key=lambda pair: -sum(pair[0].values())):
        print(f"{np.mean(list(gain.values())):+.2f}", gain, point)


def load_tuning_graphs() -> dict[str, tuple[Data, list[Split]]]:
    """Graphs with few features, and the splits to probe on."""
    graphs = load_graphs()
    digits, cora = graphs["digits"], graphs["cora"]
    bare = Data(x=structural_features(cora.edge_index, int(cora.num_nodes)), edge_index=cora.edge_index, y=cora.y)
    rendered = {f"drawn {seed}": render_digits(seed) for seed in range(RENDERED_GRAPHS)}
    return {
        **{name: (graph, make_splits(graph, SPLITS)) for name, graph in rendered.items()},
        "digits": (digits, make_tuning_splits(digits)),
        "cora without features": (bare, make_tuning_splits(bare)),
    }


def evaluate(point: dict[str, Any], data: Data, splits: list[Split]) -> float:
    """Accuracy in percent after training with these settings."""
    return round(100 * float(np.mean(probe_clean(train(point, data).embed(), labels_of(data), splits))), 3)


if __name__ == "__main__":
    main()
