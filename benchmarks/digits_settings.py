"""Choose the settings of the preset `digits` by ProGCL-weight's accuracy on a fifth of the nodes.

The preset's table is reported on the other four fifths, whose labels are not used here. The settings tried are drawn at
random from the product of the lists below, all of them equally probable; the best is taken.

    python benchmarks/digits_settings.py
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tqdm import tqdm

from progcl import fit, load_config

LEDGER = Path(__file__).parent / "results" / "digits-settings.jsonl"
TRIED = 96
FIXED = {"probe.nodes": "tuning", "probe.protocol": "clean", "probe.compare": False}
CHOICES: dict[str, list[Any]] = {
    "encoder.hidden": [32, 64, 128, 256],
    "encoder.activation": ["relu", "prelu"],
    "loss.tau": [0.2, 0.4, 0.8],
    "train.lr": [0.001, 0.003, 0.01],
    "train.epochs": [60, 120, 180],
    "method.drop_edges": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]],
    "method.drop_features": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]],
    "miner.start_epoch": [15, 30, 50],
    "miner.prior": [0.05, 0.1, 0.2],
}


def main() -> None:
    """Run what is not in the ledger yet, then print the best settings first."""
    draw = random.Random(0)
    settings = [{name: draw.choice(values) for name, values in CHOICES.items()} for _ in range(TRIED)]
    done = [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    for point in tqdm(settings[len(done) :], initial=len(done), total=TRIED):
        width = {"encoder.projection": point["encoder.hidden"]}
        result = fit(load_config("digits", {**FIXED, **point, **width}))
        assert result.score is not None
        mined = result.mixture is not None and not result.mixture["degenerate"]
        done.append({"settings": point, "mean": round(result.score.mean, 3), "mined": mined})
        with LEDGER.open("a") as ledger:
            ledger.write(json.dumps(done[-1]) + "\n")
    for entry in sorted(done, key=lambda entry: -entry["mean"])[:10]:
        print(entry)


if __name__ == "__main__":
    main()
