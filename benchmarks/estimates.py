"""Estimates of `progcl embed` beside what it takes: seconds of CPU time, peak of memory, size of the run folder.

python benchmarks/estimates.py [GRAPH.npz ...]    by default cora, photo and cs; without scoring
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from progcl.config.load import load_config
from progcl.data.datasets import load_dataset
from progcl.embed import choose_config, embed, load_graph
from progcl.estimate import estimate

GRAPHS = ("cora", "photo", "cs")
NO_PROBE = {"probe.protocol": "none"}


def main(graphs: list[str]) -> None:
    """Print a line for each graph, each measured in a process of its own."""
    print("graph: estimated / measured seconds, GB of memory, MB on disk")
    for graph in graphs or GRAPHS:
        command = [sys.executable, __file__, "--measure", graph]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        pairs = (f"{one:,.1f} / {other:,.1f} ({one / other:.2f})" for one, other in found)
        print(f"{graph}: {', '.join(pairs)}")


def measure(graph: str) -> list[tuple[float, float]]:
    """Estimate and measurement of time, memory and disk."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(graph), Path(folder, "run")
        if not path.exists():
            data = load_dataset(graph, normalize=False)
            path = Path(folder, f"{graph}.npz")
            np.savez(path, edge_index=data.edge_index.numpy(), x=data.x.numpy(), y=data.y.numpy())
        start = time.process_time()
        data = load_graph(load_config("embed", {"data.graph": str(path)}))
        needs = estimate(choose_config(data, NO_PROBE), data, pace=1.0)
        embed(str(path), out, overrides=NO_PROBE, progress=False)
        seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        written = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    begun = needs.total - needs.seconds["start"]
    return [(begun, seconds), (needs.memory / 1e9, peak / 1e9), (needs.disk / 1e6, written / 1e6)]


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure(sys.argv[-1])))
    else:
        main(sys.argv[1:])
