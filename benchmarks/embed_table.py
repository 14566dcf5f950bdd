"""`progcl embed` with default options against its baselines on four graphs: the table of docs/graph.md.

    python benchmarks/embed_table.py [GRAPH ...]    run what is missing in results/embed.jsonl, then print the table
    python benchmarks/embed_table.py --table        print the table

Scores are of protocol `clean`, 20 splits, on the four fifths of the nodes that settings were not chosen on. GRACE is
its GCN with the settings published for Cora, 200 epochs, on all graphs; on graphs of more than 8,192 nodes it contrasts
2,048 anchors per step.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from embed_settings import load_graphs
from ledger import format_markdown, read_ledger, run_missing
from torch import Tensor
from torch_geometric.data import Data

from progcl import load_config
from progcl.config.schema import Config
from progcl.embed import choose_settings
from progcl.evaluation.probe import linear_probe
from progcl.methods.features import hop_features, propagated, raw
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "embed.jsonl"
SEEDS = (0, 1, 2)
GRAPHS = ("cora", "photo", "facebook", "digits")
MAX_WHOLE_NODES, ANCHORS = 8192, 2048
WITHOUT_SEED = {
    "raw features": raw,
    "Â²·SVD256": propagated,
    "[F, ÂF, Â²F, Â³F], F = SVD256": hop_features,
    "[F, ÂF, Â²F, Â⁴F, Â⁸F], F = SVD256": partial(hop_features, hops=(0, 1, 2, 4, 8)),
}
TRAINED: dict[str, dict[str, Any]] = {
    "untrained encoder": {},
    "GRACE": {"miner.name": "none"},
    "embed, no mining": {"miner.name": "none"},
    "embed": {},
    "embed --with-features": {"encoder.with_features": True},
}


def main() -> None:
    """Run what is missing, and print the table."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(arguments[1], arguments[2], int(arguments[3]))))
        return
    if arguments[:1] != ["--table"]:
        names = arguments or GRAPHS
        done = {(entry["graph"], entry["row"], str(entry["seed"])) for entry in read_ledger(LEDGER)}
        wanted = [(name, row, str(seed)) for seed in SEEDS for name in names for row in TRAINED]
        wanted = [(name, row, "0") for name in names for row in WITHOUT_SEED] + wanted
        run_missing(__file__, (cell for cell in wanted if cell not in done), LEDGER)
    print(format_markdown((*WITHOUT_SEED, *TRAINED), GRAPHS, list_accuracies))


def run(name: str, row: str, seed: int) -> dict[str, Any]:
    """Run one cell of the table."""
    data = load_graphs()[name]
    if row in WITHOUT_SEED:
        vectors, seconds = WITHOUT_SEED[row](data), 0.0
    else:
        vectors, seconds = train(data, row, seed)
    score = linear_probe(vectors, data, "clean", nodes="rest")
    facts = {"graph": name, "row": row, "seed": seed, "seconds": round(seconds, 1)}
    return {**facts, "mean": score.mean, "accuracies": score.accuracies}


def train(data: Data, row: str, seed: int) -> tuple[Tensor, float]:
    """Embeddings [N, d], and the seconds of training."""
    training = Trainer(make_config(row, data, seed), data)
    if row != "untrained encoder":
        list(training.run(training.config.train.epochs))
    return training.embed(), training.seconds


def make_config(row: str, data: Data, seed: int) -> Config:
    """The configuration of a row: that of `progcl embed` with the row's changes; GRACE has its own."""
    changes = {**TRAINED[row], "train.seed": seed, "probe.protocol": "none"}
    if row == "GRACE":
        return load_config(
            "grace-cora", {**changes, "train.anchors": ANCHORS if int(data.num_nodes) > MAX_WHOLE_NODES else None}
        )
    return load_config("embed", choose_settings(data, changes))


def list_accuracies(row: str, name: str) -> list[float]:
    """Mean accuracy over the splits, of each seed."""
    return [entry["mean"] for entry in read_ledger(LEDGER) if (entry["graph"], entry["row"]) == (name, row)]


if __name__ == "__main__":
    main()
