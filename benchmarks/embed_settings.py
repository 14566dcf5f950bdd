"""The settings of `progcl embed`, changed one at a time, on a fifth of the nodes of four graphs.

The table of `benchmarks/embed_table.py` is reported on the other four fifths, whose labels are not used here, and on
graphs that are not used here.

    python benchmarks/embed_settings.py [SEED ...]    run what is missing in results/embed-settings.jsonl, and print
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from graphs import TUNING, load_graph, make_tuning_splits
from ledger import append_entry, read_ledger
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import load_config
from progcl.data.labels import labels_of
from progcl.embed import choose_settings, settings_by_size
from progcl.evaluation.probe import probe_clean
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "embed-settings.jsonl"
CHANGES: list[dict[str, Any]] = [
    {},
    {"steps": 0},
    {"steps": 200},
    {"steps": 800},
    {"encoder.dropout": 0.4},
    {"loss.tau": 0.5},
    {"method.drop_positives": 0.0},
    {"method.steps": 2},
    {"output.smooth": [0]},
    {"output.smooth": [0, 1, 2]},
    {"output.structure": 0},
]


def main() -> None:
    """Run what is missing, then print mean accuracies by change, and their difference from the settings in use."""
    seeds = [int(seed) for seed in sys.argv[1:]] or [0, 1]
    done = [(entry["graph"], entry["change"], entry["seed"]) for entry in read_ledger(LEDGER)]
    missing = [(name, change, seed) for seed in seeds for name in TUNING for change in CHANGES]
    for name, change, seed in tqdm([each for each in missing if each not in done]):
        data = load_graph(name)
        accuracies = evaluate(change, data, seed)
        append_entry(LEDGER, {"graph": name, "change": change, "seed": seed, "accuracies": accuracies})
    for change in CHANGES:
        cells = [compare(name, change) for name in TUNING]
        print(
            f"{cells and np.mean([cell[1] for cell in cells]):+.2f}  {change}",
            *(f"{a:.2f} ({d:+.2f})" for a, d in cells),
        )


def evaluate(change: dict[str, Any], data: Data, seed: int) -> list[float]:
    """Accuracies in percent on the tuning nodes."""
    options = {key: value for key, value in change.items() if key != "steps"}
    steps = {"steps": change["steps"]} if change.get("steps") else {}
    overrides = {**settings_by_size(int(data.num_nodes), **steps), **options, "train.seed": seed}
    trainer = Trainer(load_config("embed", {**choose_settings(data, overrides), "probe.protocol": "none"}), data)
    if change.get("steps") != 0:
        list(trainer.run(trainer.config.train.epochs))
    accuracies = probe_clean(trainer.embed(), labels_of(data), make_tuning_splits(data))
    return [round(100 * accuracy, 3) for accuracy in accuracies]


def compare(name: str, change: dict[str, Any]) -> tuple[float, float]:
    """Mean accuracy on a graph, and its difference from the settings in use, over the same seeds and splits."""
    entries = [entry for entry in read_ledger(LEDGER) if entry["graph"] == name]
    base = {entry["seed"]: np.mean(entry["accuracies"]) for entry in entries if entry["change"] == {}}
    own = {entry["seed"]: np.mean(entry["accuracies"]) for entry in entries if entry["change"] == change}
    shared = sorted(base.keys() & own.keys())
    return float(np.mean([own[s] for s in shared])), float(np.mean([own[s] - base[s] for s in shared]))


if __name__ == "__main__":
    main()
