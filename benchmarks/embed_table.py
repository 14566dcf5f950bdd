"""`progcl embed` with no options, beside what it has to beat, on four graphs: the table of docs/graph.md.

    python benchmarks/embed_table.py [GRAPH ...]    what is missing in results/embed.jsonl, then the table
    python benchmarks/embed_table.py --table        the table alone

Scores are of protocol `clean`, 20 splits, on the four fifths of the nodes that settings were not chosen on. GRACE is
its GCN with the settings that were published for Cora, 200 epochs, on all graphs; of more than 8,192 nodes, 2,048 are
contrasted at a time.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from embed_settings import graphs
from ledger import entries, run_each, table
from torch import Tensor
from torch_geometric.data import Data

from progcl import load_config
from progcl.config.schema import Config
from progcl.embed import suited_to
from progcl.evaluation.probe import linear_probe
from progcl.methods.features import hop_features, propagated, raw
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "embed.jsonl"
SEEDS = (0, 1, 2)
GRAPHS = ("cora", "photo", "facebook", "digits")
LARGE, ANCHORS = 8192, 2048


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
        done = {(entry["graph"], entry["row"], str(entry["seed"])) for entry in entries(LEDGER)}
        wanted = [(name, row, str(seed)) for seed in SEEDS for name in names for row in TRAINED]
        wanted = [(name, row, "0") for name in names for row in WITHOUT_SEED] + wanted
        run_each(__file__, (each for each in wanted if each not in done), LEDGER)
    print(table((*WITHOUT_SEED, *TRAINED), GRAPHS, accuracies))


def run(name: str, row: str, seed: int) -> dict[str, Any]:
    """One cell of the table."""
    data = graphs()[name]
    if row in WITHOUT_SEED:
        vectors, seconds = WITHOUT_SEED[row](data), 0.0
    else:
        vectors, seconds = trained(data, row, seed)
    score = linear_probe(vectors, data, "clean", nodes="rest")
    facts = {"graph": name, "row": row, "seed": seed, "seconds": round(seconds, 1)}
    return {**facts, "mean": score.mean, "accuracies": score.accuracies}


def trained(data: Data, row: str, seed: int) -> tuple[Tensor, float]:
    """Embeddings, and the seconds of training."""
    training = Trainer(settings(row, data, seed), data)
    if row != "untrained encoder":
        list(training.run(training.config.train.epochs))
    return training.embed(), training.seconds


def settings(row: str, data: Data, seed: int) -> Config:
    """Those of a row: of `progcl embed` with no options, changed as the row says; GRACE has its own."""
    changes = {**TRAINED[row], "train.seed": seed, "probe.protocol": "none"}
    if row == "GRACE":
        return load_config("grace-cora", {**changes, "train.anchors": ANCHORS if int(data.num_nodes) > LARGE else None})
    return load_config("embed", {**suited_to(data, load_config("embed").encoder), **changes})


def accuracies(row: str, name: str) -> list[float]:
    """Of every seed, the mean over its splits."""
    return [entry["mean"] for entry in entries(LEDGER) if (entry["graph"], entry["row"]) == (name, row)]


if __name__ == "__main__":
    main()
