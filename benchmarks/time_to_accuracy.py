"""Photo with all nodes contrasted in every epoch, against `photo-fast`: what three seeds of each reach, and how long.

    python benchmarks/time_to_accuracy.py            run what is missing, then time both by turns
    python benchmarks/time_to_accuracy.py --table    what the runs so far have reached

A line of JSON for each run in results/time-to-accuracy.jsonl. A run that was stopped goes on from its checkpoint under
runs/time-to-accuracy. Its own seconds depend on what else the machine did; what counts is the time of epochs of both
presets by turns, before E and after it, times how many there are. Epoch E itself is left out: it is one of many.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ledger import entries, run_each, table
from tqdm import tqdm

from progcl import fit, load_config
from progcl.bench.measure import by_turns, write
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
    """Run what is missing, and compare."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(arguments[1], int(arguments[2]))))
        return
    if arguments[:1] != ["--table"]:
        done = {(entry["preset"], str(entry["seed"])) for entry in entries(LEDGER)}
        wanted = [(preset, str(seed)) for seed in SEEDS for preset in PRESETS]
        run_each(__file__, (each for each in wanted if each not in done), LEDGER)
        seconds = times()
        write(ROOT / "benchmarks" / "results", "time-to-accuracy", {"repeats": REPEATS}, seconds)
        print(f"{FAST} takes 1/{seconds[EXACT] / seconds[FAST]:.1f} of the time of {EXACT}")
    print(table(["accuracy"], PRESETS, lambda _, preset: accuracies(preset)))


def run(preset: str, seed: int) -> dict[str, Any]:
    """One run to its end."""
    config = load_config(preset, {"train.seed": seed})
    folder = place(preset, seed)
    result = fit(config, out=folder, resume=(folder / "config.yaml").exists(), progress=True)
    assert result.score is not None
    facts = {"preset": preset, "seed": seed, "accuracies": result.score.accuracies, "mean": result.score.mean}
    return {**facts, "seconds": round(result.seconds["train"]), "config": to_dict(config)}


def place(preset: str, seed: int) -> Path:
    """The folder of a run."""
    return RUNS / f"{preset}-{seed}"


def times() -> dict[str, float]:
    """Seconds that all epochs of each preset take, by epochs of fresh runs and by some more of finished ones."""
    configs = {preset: load_config(preset) for preset in PRESETS}
    sides = {}
    for preset, config in configs.items():
        data = load_data(config.data)
        fresh, finished = Trainer(config, data), Trainer(config, data)
        finished.restore(checkpoint.load(place(preset, SEEDS[0]) / "checkpoint.safetensors"))
        for name, training in (("before", fresh), ("after", finished)):
            sides[f"{preset} {name}"] = partial(next, training.run(sys.maxsize))
    with tqdm(total=len(sides) * (REPEATS + 1), desc="by turns", unit="epoch") as progress:
        taken = by_turns(sides, REPEATS, progress)
    return {
        preset: (config.miner.start_epoch - 1) * taken[f"{preset} before"]
        + (config.train.epochs - config.miner.start_epoch) * taken[f"{preset} after"]
        for preset, config in configs.items()
    }


def accuracies(preset: str) -> list[float]:
    """Of every seed, the mean over its splits."""
    return [entry["mean"] for entry in entries(LEDGER) if entry["preset"] == preset]


if __name__ == "__main__":
    main()
