"""Graphs of Reddit's size and of a million nodes: steps per second and peak memory, each in a process of its own.

    python benchmarks/large_graphs.py [FOLDER]     for the memory-mapped features, 1.1 GB

Random graphs (csbm) with memory-mapped features; encoder, batches and fan-outs of the preset `reddit-fast`. Writes
results/bench/large_graphs.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from progcl.bench.measure import align_columns, write_result
from progcl.config.load import load_config
from progcl.data.datasets import load_dataset
from progcl.training.trainer import Trainer

RESULTS = Path(__file__).parents[1] / "results" / "bench"
SETTINGS = {"data.inductive": False, "data.normalize": True, "probe.nodes": "all", "miner.start_epoch": 2}
GRAPHS: dict[str, dict[str, Any]] = {
    "Reddit's size": {
        "data.nodes": 232_965,
        "data.degree": 99.6,
        "data.features": 602,
        "data.classes": 41,
        "batch.steps": 50,
        "train.epochs": 4,
    },
    "a million nodes": {
        "data.nodes": 1_000_000,
        "data.degree": 20.0,
        "data.features": 128,
        "data.classes": 40,
        "batch.steps": 50,
        "train.epochs": 2,
        "miner.start_epoch": 1,
    },
}


def main() -> None:
    """Measure each graph, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
        return
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else scratch)
        for name in GRAPHS:
            command = [sys.executable, __file__, "--one", name, str(folder)]
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            results[name] = json.loads(line)
    write_result(RESULTS, "large_graphs", {"preset": "reddit-fast", **SETTINGS, "graphs": GRAPHS}, results)
    head = ["", *next(iter(results.values()))]
    print(align_columns(head, [[name, *(f"{value:,}" for value in facts.values())] for name, facts in results.items()]))


def measure(name: str, folder: Path) -> dict[str, float]:
    """Train until some steps after the fit of the mixture, then embed all nodes."""
    features = folder / f"{name.replace(' ', '-')}.npy"
    changes = {"data.name": "csbm", "data.mapped": str(features), "probe.protocol": "none"}
    config = load_config("reddit-fast", {**SETTINGS, **changes, **GRAPHS[name]})
    load_dataset("csbm", normalize=False, **config.data.options())  # writes the features
    start = time.perf_counter()
    data = load_dataset("csbm", normalize=config.data.normalize, **config.data.options())
    training = Trainer(config, data, progress=True)
    load_seconds = time.perf_counter() - start
    records = list(training.run(config.train.epochs))
    start = time.perf_counter()
    embeddings = training.embed()
    embed_seconds = time.perf_counter() - start
    assert embeddings.isfinite().all()
    assert config.batch.steps is not None
    return {
        "nodes": int(data.num_nodes),
        "directed edges": data.edge_index.size(1),
        "s to load": round(load_seconds, 1),
        "steps": config.batch.steps * len(records),
        "steps/s": round(config.batch.steps / records[-1].seconds, 2),
        "s to embed all": round(embed_seconds, 1),
        "peak RSS, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
