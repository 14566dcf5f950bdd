"""Estimated and measured peaks of resident memory: `progcl train` and `progcl embed` on graphs of several sizes.

    python benchmarks/memory.py [--only train] [--nodes 5000 20000 50000]

Every run is a process of its own with a limit (--memory). Training takes two epochs, of which the second has weights by
the mixture; the graph is a contextual block model of 32 features and mean degree 10, one core, one split of the probe.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from progcl.config import Config, load_config
from progcl.data.synthetic import csbm
from progcl.embed import settings_by_size
from progcl.memory import format_size, parse_size
from progcl.training.memory import GraphSize, estimate_memory

LIMITS = {  # of each size: one that is refused, some that fit
    "train": {5000: ["500MB", "800MB", "1.2GB"], 20000: ["500MB", "1GB", "2GB"], 50000: ["500MB", "1GB", "2GB"]},
    "embed": {5000: ["600MB", "1GB", "2GB"], 20000: ["1GB", "2.2GB", "4GB"], 50000: ["2GB", "4GB"]},
}
TRAINING = {"train.epochs": 2, "miner.start_epoch": 1, "probe.splits": 1}


def main() -> None:
    """Print a row for every limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=LIMITS)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000, 20000, 50000])
    options = parser.parse_args()
    print("| command | nodes | estimate | limit | measured peak | of the limit |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for command, limits in LIMITS.items():
            for nodes in options.nodes if options.only in (None, command) else []:
                estimate = format_size(max(estimate_memory(*describe(command, nodes)).values()))
                for limit in limits[nodes]:
                    peak = measure(command, nodes, limit, Path(folder))
                    outcome = (
                        ("refused", "") if peak is None else (format_size(peak), f"{peak / parse_size(limit):.0%}")
                    )
                    print(f"| {command} | {nodes:,} | {estimate} | {limit} | {' | '.join(outcome)} |", flush=True)


def describe(command: str, nodes: int) -> tuple[Config, GraphSize]:
    """Configuration and size of the graph, as the command has them."""
    settings = {"data.nodes": nodes, **TRAINING} if command == "train" else settings_by_size(nodes)
    return load_config("csbm" if command == "train" else "embed", settings), GraphSize(nodes, 10 * nodes, 32)


def measure(command: str, nodes: int, limit: str, folder: Path) -> float | None:
    """Peak of a process in bytes; None if it is refused before it starts to train."""
    if command == "train":
        arguments = ["csbm", *(f"--{key}={value}" for key, value in {"data.nodes": nodes, **TRAINING}.items())]
    else:
        data, file = csbm(nodes), folder / f"g{nodes}.npz"
        np.savez(file, edge_index=data.edge_index.numpy(), x=data.x.numpy(), y=data.y.numpy())
        arguments = [str(file), "--probe.splits=1"]
    command_line = [
        sys.executable,
        "-m",
        "progcl",
        command,
        *arguments,
        "--memory",
        limit,
        "--out",
        str(folder / "run"),
        "--force",
    ]
    with (folder / "stderr").open("w+") as errors:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read()
    if process.returncode == 2 and re.search("of memory are needed", text):
        return None
    if process.returncode:
        sys.exit(text)
    return usage.ru_maxrss * 1024.0


if __name__ == "__main__":
    main()
