"""`progcl embed` without options on a drawn graph of a million nodes, 10 M edges and 128 features: time and memory.

    python benchmarks/million.py [--nodes 1000000] [--classes 20] [--budget 5m] [--folder /tmp/million]

The file is made first; timed is the whole command, report included, in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from progcl.data.synthetic import csbm

DEGREE, FEATURES, HOMOPHILY, SIGNAL = 20, 128, 0.7, 1.5


def main() -> None:
    """Make the graph, embed it, and print seconds and gigabytes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--budget", default=None)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/million"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    graph = options.folder / f"graph-{options.nodes}-{options.classes}.npz"
    if not graph.exists():
        save_graph(graph, options.nodes, options.classes)
    command = [sys.executable, "-m", "progcl", "embed", str(graph), "--out", str(options.folder / "run"), "--force"]
    command += ["--budget", options.budget] if options.budget else []
    start = time.perf_counter()
    subprocess.run(command, check=True)
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time, {used.ru_maxrss / 1e6:.1f} GB")


def save_graph(path: Path, nodes: int, classes: int) -> None:
    """Edges in one direction, features and labels in an .npz."""
    data = csbm(nodes, classes, DEGREE, HOMOPHILY, FEATURES, SIGNAL)
    edges = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    np.savez(path, edge_index=edges.numpy(), x=data.x.numpy(), y=data.y.numpy())


if __name__ == "__main__":
    main()
