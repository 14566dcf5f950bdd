"""Loss and epoch of this checkout against another commit: both sides by turns, as ratios.

python benchmarks/against.py COMMIT [--rounds 3] [--data csbm] [--nodes 2048]

Each round runs both sides in fresh processes, in changing order: `progcl bench loss` for the loss, a short
`progcl train` for epochs before and after E. The median of the rounds counts.
Below 1 this checkout is the faster one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
START_EPOCH, EPOCHS = 4, 10
MINERS = ("none", "progcl-weight", "progcl-mix")


def main() -> None:
    """Measure, and print a line per quantity: median seconds of both sides, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="csbm", help="preset of the epochs")
    parser.add_argument("--nodes", type=int, default=2048, help="of the loss")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", other, options.commit], cwd=ROOT, check=True)
        try:
            sides = {"this": ROOT, options.commit: other}
            seconds = measure(sides, Path(folder), options.data, options.nodes, options.rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", other], cwd=ROOT, check=True)
    for name, taken in seconds.items():
        medians = {side: statistics.median(values) for side, values in taken.items()}
        ratio = medians["this"] / medians[options.commit]
        print(f"{name:<32}" + "".join(f"{side} {median:.3f} s   " for side, median in medians.items()) + f"{ratio:.3f}")


def measure(
    sides: dict[str, Path], folder: Path, data: str, nodes: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Seconds of every quantity, side and round."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        order = list(sides.items())[:: 1 if number % 2 else -1]
        for side, checkout in order:
            values = time_loss(checkout, folder, nodes)
            for miner in MINERS:
                values |= time_epochs(checkout, folder, data, miner)
            for name, value in values.items():
                seconds.setdefault(name, {each: [] for each in sides})[side].append(value)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return seconds


def time_loss(checkout: Path, folder: Path, nodes: int) -> dict[str, float]:
    """Seconds of a step of the loss with each miner."""
    run(checkout, ["bench", "loss", f"--nodes={nodes}", "--sizes=[]", "--repeats=2", f"--out={folder / 'bench'}"])
    compared = json.loads((folder / "bench" / "loss.json").read_text())["results"]["compared"]
    return {f"loss, {miner}": row["progcl"] for miner, row in compared.items()}


def time_epochs(checkout: Path, folder: Path, data: str, miner: str) -> dict[str, float]:
    """Median seconds of an epoch before and after E."""
    flags = [f"--train.epochs={EPOCHS}", f"--miner.name={miner}", "--probe.protocol=none", "--probe.compare=false"]
    flags += [] if miner == "none" else [f"--miner.start_epoch={START_EPOCH}"]
    out = folder / f"run-{checkout.name}"  # a version may refuse files that it does not know
    run(checkout, ["train", data, *flags, f"--out={out}", "--force"])
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    taken = [row["seconds"] for row in rows if "seconds" in row]
    before, after = taken[1 : START_EPOCH - 1], taken[START_EPOCH:]
    return {
        f"epoch before E, {miner}": statistics.median(before),
        f"epoch after E, {miner}": statistics.median(after),
    }


def run(checkout: Path, arguments: list[str]) -> None:
    """Run progcl from a checkout in this environment."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "progcl", *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
