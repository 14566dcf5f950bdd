"""The settings of `progcl embed`, changed one at a time, on a fifth of the nodes of four graphs.

The table of `benchmarks/embed_table.py` is reported on the other four fifths, whose labels are not used here, and on
graphs that are not used here.

    python benchmarks/embed_settings.py [SEED ...]    run what is missing in results/embed-settings.jsonl, and print
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from graphs import TUNING, load_graph, make_tuning_splits
from ledger import append_entry, read_ledger
from tqdm import tqdm

from progcl import load_config
from progcl.data.labels import labels_of
from progcl.embed import choose_settings, settings_by_size
from progcl.evaluation.probe import probe_clean
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "embed-settings.jsonl"
TRAINING: list[dict[str, Any]] = [
    {},
    {"method.objective": "infonce"},  # with the dropout, temperature and steps that fit it
    {"steps": 400},
    {"encoder.dropout": 0.2},
    {"loss.tau": 0.5},
    {"encoder.init": "glorot"},
    {"encoder.norm_last": False},
    {"method.drop_positives": 0.0},
    {"method.steps": 2},
]
OUTPUTS: list[dict[str, Any]] = [  # of the training with the settings in use
    {"output.smooth": [0]},
    {"output.smooth": [1]},
    {"output.smooth": [0, 1, 2]},
    {"hops.beside": [0, 1, 2, 4, 8]},
    {"output.features": False},
    {"output.structure": 0},
]
SPLITS = 12


def main() -> None:
    """Run what is missing, then print the mean accuracy of each change, and its difference from the settings in use."""
    seeds = [int(seed) for seed in sys.argv[1:]] or [0, 1]
    done = [(entry["graph"], entry["change"], entry["seed"]) for entry in read_ledger(LEDGER)]
    missing = [(name, change, seed) for seed in seeds for name in TUNING for change in TRAINING]
    for name, change, seed in tqdm([each for each in missing if each not in done]):
        for each, accuracies in evaluate(name, change, seed):
            append_entry(LEDGER, {"graph": name, "change": each, "seed": seed, "accuracies": accuracies})
    print(f"| change | mean gain | {' | '.join(TUNING)} |\n" + "|-" * (2 + len(TUNING)) + "|")
    for change in [*TRAINING, *OUTPUTS]:
        cells = [compare(name, change) for name in TUNING]
        text = ", ".join(f"`{key}: {value}`" for key, value in change.items()) or "none"
        gains = " | ".join(f"{mean:.2f} ({gain:+.2f})" for mean, gain in cells)
        print(f"| {text} | {np.mean([gain for _, gain in cells]):+.2f} | {gains} |")


def evaluate(name: str, change: dict[str, Any], seed: int) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Accuracies in percent on the tuning nodes with all blocks; of the settings in use, also with other outputs."""
    data = load_graph(name)
    overrides = {key: value for key, value in change.items() if key != "steps"}
    if "steps" in change:
        overrides |= settings_by_size(int(data.num_nodes), change["steps"])
    overrides |= {"train.seed": seed, "output.blocks": "learned", "probe.protocol": "none"}
    trainer = Trainer(load_config("embed", choose_settings(data, overrides)), data)
    list(trainer.run(trainer.config.train.epochs))
    splits = make_tuning_splits(data)[:SPLITS]
    for each in [change, *([] if change else OUTPUTS)]:
        if each is not change:
            trainer.config = load_config("embed", choose_settings(data, {**overrides, **each}))
        scores = probe_clean(trainer.embed(), labels_of(data), splits)
        yield each, [round(100 * score.accuracy, 3) for score in scores]


def compare(name: str, change: dict[str, Any]) -> tuple[float, float]:
    """Mean accuracy on a graph, and its difference from the settings in use, over the same seeds and splits."""
    entries = [entry for entry in read_ledger(LEDGER) if entry["graph"] == name]
    base = {entry["seed"]: np.mean(entry["accuracies"]) for entry in entries if entry["change"] == {}}
    own = {entry["seed"]: np.mean(entry["accuracies"]) for entry in entries if entry["change"] == change}
    shared = sorted(base.keys() & own.keys())
    return float(np.mean([own[s] for s in shared])), float(np.mean([own[s] - base[s] for s in shared]))


if __name__ == "__main__":
    main()
