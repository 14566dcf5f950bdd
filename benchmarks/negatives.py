"""Accuracy and time of every miner on every base method, on Amazon-Photo with one seed.

    python benchmarks/negatives.py [METHOD ...]     run what is missing
    python benchmarks/negatives.py --time           time epochs of each, by turns, on an idle machine
    python benchmarks/negatives.py --table          print the table

Each run is a line of JSON in results/negatives.jsonl: settings, seed, score of every split, seconds, memory. Runs in
the ledger are not repeated. Their seconds depend on what else the machine does: the table has those of `--time`, in
results/negatives-seconds.json.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from pathlib import Path
from typing import Any

from ledger import read_ledger, run_missing
from tqdm import tqdm

from progcl import fit
from progcl.config.load import load_config, to_dict
from progcl.config.methods import METHODS
from progcl.config.schema import Config
from progcl.data.datasets import load_dataset
from progcl.miners import MINERS
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "negatives.jsonl"
SECONDS = LEDGER.with_name("negatives-seconds.json")
SHORT = {"train.epochs": 500, "miner.start_epoch": 80, "probe.protocol": "clean"}
SMALL = {"train.anchors": 2048, "miner.hardest": 250, "miner.synthetic": 250}
ROUNDS = 5
NAMES = [*MINERS, "ring-middle"]  # miners as they are by default, and a variant
MINED = [name for name, entry in METHODS.items() if "miner" in entry.options.supports]


def main() -> None:
    """Run what is missing, or time epochs, and print the table."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(*arguments[1:])))
        return
    if arguments[:1] == ["--time"]:
        SECONDS.write_text(json.dumps(time_epochs(), indent=2) + "\n")
    elif arguments[:1] != ["--table"]:
        done = {_key(entry) for entry in read_ledger(LEDGER)}
        wanted = [(method, miner) for method in arguments or MINED for miner in NAMES]
        run_missing(__file__, (pair for pair in wanted if pair not in done), LEDGER)
    print(format_rows(read_ledger(LEDGER)))


def time_epochs() -> dict[str, float]:
    """Median seconds of an epoch after E, all pairs of method and miner by turns."""
    data = load_dataset("photo")
    runs = {}
    for method in MINED:
        for miner in NAMES:
            config = make_config(method, miner, {**SMALL, "miner.start_epoch": 2})
            runs[f"{method}, {miner}"] = Trainer(config, data).run(ROUNDS + 2)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(ROUNDS + 2), unit="round"):
        for name, epochs in runs.items():
            seconds[name].append(next(epochs).seconds)
    return {name: statistics.median(times[2:]) for name, times in seconds.items()}


def make_config(method: str, miner: str, changes: dict[str, Any]) -> Config:
    """The preset `photo` with a method, a miner and those of the changes that the miner has an option for."""
    name = miner.removesuffix("-middle")
    changes = changes | ({"miner.keep": "middle"} if name != miner else {})
    table = {"probe.splits": 20, "probe.limit": None}
    return load_config("photo", {**table, **changes, "method.name": method, "miner.name": name}, strict=False)


def run(method: str, miner: str) -> dict[str, Any]:
    """One run of the preset `photo`, cut to 500 epochs and 2,048 anchors; E scales with them."""
    config = make_config(method, miner, {**SHORT, **SMALL})
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


def format_rows(rows: list[dict[str, Any]]) -> str:
    """Markdown table of accuracy and seconds per epoch: a row per miner, two columns per method."""
    seconds = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    row_of = {_key(row): row for row in rows}
    head = "| miner | " + " | ".join(f"{name} | s/epoch" for name in MINED) + " |"
    lines = [head, "|---" * (2 * len(MINED) + 1) + "|"]
    for miner in NAMES:
        cells = [_format_cell(row_of.get((method, miner)), seconds.get(f"{method}, {miner}")) for method in MINED]
        lines.append(f"| `{miner}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    """Method and miner of an entry; the first runs of Ring name quantiles only."""
    method, miner = entry["config"]["method"], entry["config"]["miner"]
    is_middle = miner["name"] == "ring" and (miner.get("keep") == "middle" or miner["low"] == 0.1)
    return method["name"], miner["name"] + "-middle" * is_middle


def _format_cell(row: dict[str, Any] | None, seconds: float | None) -> str:
    accuracy = f"{row['mean']:.2f} ± {row['std']:.2f}" if row else ""
    return f"{accuracy} | {f'{seconds:.2f}' if seconds else ''}"


if __name__ == "__main__":
    main()
