"""Accuracy and training time of the presets `photo` (all nodes contrasted in every step) and `photo-fast`, three seeds.

    python benchmarks/time_to_accuracy.py            run what is missing, then time both presets by turns
    python benchmarks/time_to_accuracy.py --table    print the accuracies so far

Each run is a line of JSON in results/time-to-accuracy.jsonl. A stopped run resumes from its checkpoint under
runs/time-to-accuracy. Its own seconds depend on what else the machine does; so epochs of both presets are timed by
turns, before E and after it, and multiplied by their number. Epoch E itself, one of many, is left out.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ledger import format_markdown, read_ledger, run_missing
from tqdm import tqdm

from progcl import fit, load_config
from progcl.bench.measure import time_by_turns, write_result
from progcl.config.load import to_dict
from progcl.data.datasets import load_data
from progcl.training import checkpoint
from progcl.training.trainer import Trainer

ROOT = Path(__file__).parents[1]
LEDGER, RUNS = ROOT / "results" / "time-to-accuracy.jsonl", ROOT / "runs" / "time-to-accuracy"
EXACT, FAST = PRESETS = ("photo", "photo-fast")
SEEDS = (0, 1, 2)
REPEATS = 10


def main() -> None:
    """Run what is missing, time both presets, and print the accuracies."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(arguments[1], int(arguments[2]))))
        return
    if arguments[:1] != ["--table"]:
        done = {(entry["preset"], str(entry["seed"])) for entry in read_ledger(LEDGER)}
        wanted = [(preset, str(seed)) for seed in SEEDS for preset in PRESETS]
        run_missing(__file__, (pair for pair in wanted if pair not in done), LEDGER)
        seconds = time_presets()
        write_result(ROOT / "results" / "bench", "time-to-accuracy", {"repeats": REPEATS}, seconds)
        print(f"{FAST} takes 1/{seconds[EXACT] / seconds[FAST]:.1f} of the time of {EXACT}")
    print(format_markdown(["accuracy"], PRESETS, lambda _, preset: list_accuracies(preset)))


def run(preset: str, seed: int) -> dict[str, Any]:
    """Train one run to its end, or resume it."""
    config = load_config(preset, {"train.seed": seed, "probe.splits": 20, "probe.limit": None})
    folder = run_folder(preset, seed)
    result = fit(config, out=folder, resume=(folder / "config.yaml").exists(), progress=True)
    assert result.score is not None
    facts = {"preset": preset, "seed": seed, "accuracies": result.score.accuracies, "mean": result.score.mean}
    return {**facts, "seconds": round(result.seconds["train"]), "config": to_dict(config)}


def run_folder(preset: str, seed: int) -> Path:
    """The folder of a run."""
    return RUNS / f"{preset}-{seed}"


def time_presets() -> dict[str, float]:
    """Seconds of all epochs of each preset, estimated from epochs of new runs (before E) and finished ones (after)."""
    configs = {preset: load_config(preset) for preset in PRESETS}
    sides = {}
    for preset, config in configs.items():
        data = load_data(config.data)
        fresh, finished = Trainer(config, data), Trainer(config, data)
        finished.restore(checkpoint.load(run_folder(preset, SEEDS[0]) / "checkpoint.safetensors"))
        for name, training in (("before", fresh), ("after", finished)):
            sides[f"{preset} {name}"] = partial(next, training.run(sys.maxsize))
    with tqdm(total=len(sides) * (REPEATS + 1), desc="by turns", unit="epoch") as progress:
        median = time_by_turns(sides, REPEATS, progress)
    return {
        preset: (start - 1) * median[f"{preset} before"] + (config.train.epochs - start) * median[f"{preset} after"]
        for preset, config in configs.items()
        for start in [to_dict(config)["miner"]["start_epoch"]]
    }


def list_accuracies(preset: str) -> list[float]:
    """Mean accuracy over the splits, of each seed."""
    return [entry["mean"] for entry in read_ledger(LEDGER) if entry["preset"] == preset]


if __name__ == "__main__":
    main()
