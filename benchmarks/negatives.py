"""Every miner on every base method, Amazon-Photo, one seed: what a way to treat negatives gives and costs.

    python benchmarks/negatives.py [METHOD ...]

One line of JSON for each run in results/negatives.jsonl: settings, seed, score of every split, seconds, memory. A run
that is there already is not repeated. `--table` prints the ledger as a table.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from progcl.config import load_config, to_dict
from progcl.methods import METHODS
from progcl.miners import MINERS

LEDGER = Path(__file__).parents[1] / "results" / "negatives.jsonl"
SETTINGS = {"train.epochs": 500, "miner.start_epoch": 80, "probe.protocol": "clean"}


def main() -> None:
    """Run what is missing, each run in a process of its own, so that its peak of memory is its own."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--table"]:
        print(table(entries()))
        return
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(*arguments[1:])))
        return
    done = {(entry["config"]["method"]["name"], entry["config"]["miner"]["name"]) for entry in entries()}
    wanted = [(method, miner) for method in arguments or METHODS for miner in MINERS]
    missing = [pair for pair in wanted if pair not in done]
    for method, miner in tqdm(missing, unit="run"):
        command = [sys.executable, __file__, "--one", method, miner]
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        with LEDGER.open("a") as ledger:
            ledger.write(line.splitlines()[-1] + "\n")
    print(table(entries()))


def run(method: str, miner: str) -> dict[str, Any]:
    """One run of the preset `photo-fast`, cut to 500 epochs; E is at the same part of the run."""
    from progcl import fit

    config = load_config("photo-fast", {**SETTINGS, "method.name": method, "miner.name": miner})
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
        "seconds_per_epoch": statistics.median(seconds[config.miner.start_epoch :]),
        "seconds": sum(seconds),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "mixture": result.mixture,
    }


def entries() -> list[dict[str, Any]]:
    """What the ledger holds."""
    return [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    """Accuracy and seconds per epoch, a row a miner, a pair of columns a method."""
    found = {(row["config"]["method"]["name"], row["config"]["miner"]["name"]): row for row in rows}
    head = "| miner | " + " | ".join(f"{name} | s/epoch" for name in METHODS) + " |"
    lines = [head, "|---" * (2 * len(METHODS) + 1) + "|"]
    for miner in MINERS:
        cells = [_cell(found.get((method, miner))) for method in METHODS]
        lines.append(f"| `{miner}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    return f"{row['mean']:.2f} ± {row['std']:.2f} | {row['seconds_per_epoch']:.2f}" if row else " | "


if __name__ == "__main__":
    main()
