"""Every miner on every base method, Amazon-Photo, one seed: what a way to treat negatives gives and costs.

    python benchmarks/negatives.py [METHOD ...]     run what is missing
    python benchmarks/negatives.py --time           time epochs of each, by turns, on an idle machine
    python benchmarks/negatives.py --table          print the table

One line of JSON for each run in results/negatives.jsonl: settings, seed, score of every split, seconds, memory. A run
that is there already is not repeated. Times of runs beside others mean little: the table's are those of `--time`, in
results/negatives-seconds.json.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from pathlib import Path
from typing import Any

from ledger import entries, run_each
from tqdm import tqdm

from progcl import fit
from progcl.config.load import load_config, to_dict
from progcl.data.datasets import load_dataset
from progcl.methods import METHODS
from progcl.miners import MINERS
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "negatives.jsonl"
SECONDS = LEDGER.with_name("negatives-seconds.json")
SHORT = {"train.epochs": 500, "miner.start_epoch": 80, "probe.protocol": "clean"}
SMALL = {"train.anchors": 2048, "miner.hardest": 250, "miner.synthetic": 250}
ROUNDS = 5


def main() -> None:
    """Run what is missing, or time epochs, and print the table."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(*arguments[1:])))
        return
    if arguments[:1] == ["--time"]:
        SECONDS.write_text(json.dumps(timed(), indent=2) + "\n")
    elif arguments[:1] != ["--table"]:
        done = {(entry["config"]["method"]["name"], entry["config"]["miner"]["name"]) for entry in entries(LEDGER)}
        wanted = [(method, miner) for method in arguments or METHODS for miner in MINERS]
        run_each(__file__, (pair for pair in wanted if pair not in done), LEDGER)
    print(table(entries(LEDGER)))


def timed() -> dict[str, float]:
    """Median seconds of an epoch after E, every pair of method and miner taking turns."""
    data = load_dataset("photo")
    runs = {}
    for method in METHODS:
        for miner in MINERS:
            changes = {**SMALL, "method.name": method, "miner.name": miner, "miner.start_epoch": 2}
            runs[f"{method}, {miner}"] = Trainer(load_config("photo", changes), data).run(ROUNDS + 2)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(ROUNDS + 2), unit="round"):
        for name, epochs in runs.items():
            seconds[name].append(next(epochs).seconds)
    return {name: statistics.median(taken[2:]) for name, taken in seconds.items()}


def run(method: str, miner: str) -> dict[str, Any]:
    """One run of the preset `photo`, cut to 500 epochs and 2,048 anchors; E is at the same part of the run."""
    config = load_config("photo", {**SHORT, **SMALL, "method.name": method, "miner.name": miner})
    seconds: list[float] = []
    result = fit(config, on_epoch=lambda record: seconds.append(record.seconds), progress=True)
    assert result.score is not None
    return {
        "config": to_dict(config),
        "seed": config.train.seed,
        "protocol": result.score.protocol,
        "accuracies": result.score.accuracies,
        "mean": result.score.mean,
        "std": result.score.std,
        "seconds": sum(seconds),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "mixture": result.mixture,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Accuracy and seconds per epoch, a row a miner, a pair of columns a method."""
    seconds = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    found = {(row["config"]["method"]["name"], row["config"]["miner"]["name"]): row for row in rows}
    head = "| miner | " + " | ".join(f"{name} | s/epoch" for name in METHODS) + " |"
    lines = [head, "|---" * (2 * len(METHODS) + 1) + "|"]
    for miner in MINERS:
        cells = [_cell(found.get((method, miner)), seconds.get(f"{method}, {miner}")) for method in METHODS]
        lines.append(f"| `{miner}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None, seconds: float | None) -> str:
    accuracy = f"{row['mean']:.2f} ± {row['std']:.2f}" if row else ""
    return f"{accuracy} | {f'{seconds:.2f}' if seconds else ''}"


if __name__ == "__main__":
    main()
