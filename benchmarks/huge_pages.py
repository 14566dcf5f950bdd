"""Whether torch's huge pages speed up training: the preset `photo` with and without them, in alternating processes.

    python benchmarks/huge_pages.py

Writes results/bench/huge-pages.json: seconds of the first epoch, of epoch E, and medians before and after it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

from progcl import fit, load_config

RESULT = Path(__file__).parents[1] / "results" / "bench" / "huge-pages.json"
ROUNDS, START_EPOCH, EPOCHS = 3, 7, 16
VARIABLE = "THP_MEM_ALLOC_ENABLE"


def main() -> None:
    """Time all sides by turns, and print medians over the rounds."""
    if len(sys.argv) > 1:
        print(json.dumps(time_epochs(sys.argv[1])))
        return
    sides = [(miner, on) for miner in ("progcl-weight", "progcl-mix") for on in (False, True)]
    measured: dict[str, list[dict[str, float]]] = {}
    for miner, on in tqdm([side for _ in range(ROUNDS) for side in sides], unit="run"):
        environment = os.environ | {VARIABLE: str(int(on))}
        command = [sys.executable, __file__, miner]
        line = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
        measured.setdefault(f"{miner}, huge pages {'on' if on else 'off'}", []).append(json.loads(line))
    RESULT.write_text(json.dumps(measured, indent=2) + "\n")
    for side, runs in measured.items():
        medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        print(f"{side:32}", "  ".join(f"{name} {value:.2f} s" for name, value in medians.items()))


def time_epochs(miner: str) -> dict[str, float]:
    """Seconds of some epochs around E."""
    changes = {"miner.name": miner, "miner.start_epoch": START_EPOCH, "train.epochs": EPOCHS, "probe.protocol": "none"}
    seconds: list[float] = []
    fit(load_config("photo", changes), on_epoch=lambda record: seconds.append(record.seconds))
    return {
        "first": seconds[0],
        "before": statistics.median(seconds[1 : START_EPOCH - 1]),
        "at E": seconds[START_EPOCH - 1],
        "after": statistics.median(seconds[START_EPOCH:]),
        "all": sum(seconds),
    }


if __name__ == "__main__":
    main()
