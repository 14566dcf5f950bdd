"""Inductive embedding: miners in batches on Facebook pages and Coauthor-Physics, against baselines, on unseen nodes.

    python benchmarks/inductive.py [DATA ...]      run what is missing
    python benchmarks/inductive.py --table         print the table

Each run is a line of JSON in results/inductive.jsonl: settings, seed, micro-F1 on the test nodes, seconds, memory. Runs
in the ledger are not repeated. The split is always the same 60, 20 and 20 % of the nodes, `heldout_split` of
progcl.data.splits; the probe is `clean` on it. `supervised` is the same encoder with a linear layer, trained on the
labels of the training nodes, with the epoch chosen on the validation nodes. `propagated` features use all nodes and
edges.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from ledger import format_markdown, read_ledger, run_missing
from tqdm import tqdm

from progcl import fit
from progcl.config.load import load_config, to_dict
from progcl.data.datasets import load_data
from progcl.data.splits import heldout_split
from progcl.evaluation.probe import linear_probe
from progcl.graph.sampled import SampledGraph, SampledView
from progcl.methods.features import propagated, raw
from progcl.miners import PROPOSED
from progcl.nn.heads import glorot_linear
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "inductive.jsonl"
DATA = ("facebook", "physics")
ROWS = ("raw", "propagated", "untrained", *PROPOSED, "supervised")
SEEDS = (0, 1, 2)
WITHOUT_SEED = ("raw", "propagated")


def main() -> None:
    """Run what is missing, and print the table."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run(arguments[1], arguments[2], int(arguments[3]))))
        return
    if arguments[:1] != ["--table"]:
        done = {(entry["data"], entry["row"], str(entry["seed"])) for entry in read_ledger(LEDGER)}
        wanted = [(data, row, str(seed)) for seed in SEEDS for data in arguments or DATA for row in ROWS]
        run_missing(__file__, (cell for cell in wanted if cell not in done and not is_redundant(*cell)), LEDGER)
    print(format_markdown(ROWS, DATA, list_scores))


def is_redundant(data: str, row: str, seed: str) -> bool:
    """Whether the row does not depend on the seed, and has run with the first one."""
    return row in WITHOUT_SEED and seed != str(SEEDS[0])


def run(name: str, row: str, seed: int) -> dict[str, Any]:
    """Run one row of the table."""
    miner = row if row in PROPOSED else "none"
    config = load_config(name, {"train.seed": seed, "miner.name": miner, "probe.limit": None})
    start = time.perf_counter()
    mixture = None
    if row in PROPOSED:
        result = fit(config, progress=True)
        assert result.score is not None
        score, mixture = result.score.mean, result.mixture
    elif row == "supervised":
        score = train_supervised(Trainer(config, load_data(config.data)))
    else:
        data = load_data(config.data)
        training_free = {"raw": raw, "propagated": propagated}
        embeddings = training_free[row](data) if row in training_free else Trainer(config, data).embed()
        score = linear_probe(embeddings, data, **config.probe.options()).mean
    return {
        "data": name,
        "row": row,
        "seed": seed,
        "micro_f1": score,
        "mixture": mixture,
        "seconds": round(time.perf_counter() - start, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "config": to_dict(config),
    }


def train_supervised(training: Trainer) -> float:
    """Test micro-F1 in percent of the encoder with a linear layer, at the best epoch on the validation nodes."""
    data, config = training.data, training.config
    encoder, graph = training.method.get_submodule("encoder"), training.graph
    head = glorot_linear(config.encoder.hidden, int(data.y.max()) + 1, training.context.generator("init"))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, config.train.lr, weight_decay=config.train.weight_decay)
    _, validation, test = heldout_split(data)
    whole = training.loader.graph(training.data)
    assert isinstance(graph, SampledGraph)
    assert isinstance(whole, SampledGraph)
    best = (-1.0, 0.0)
    for epoch in tqdm(range(1, config.train.epochs + 1), desc="supervised"):
        for batch in graph.batches(epoch):
            loss = torch.nn.functional.cross_entropy(head(encoder(SampledView(batch))), data.y[batch.seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            correct = head(whole.embed(encoder)).argmax(dim=1) == data.y
        best = max(best, tuple(100 * float(correct[nodes].float().mean()) for nodes in (validation, test)))
    return best[1]


def list_scores(row: str, data: str) -> list[float]:
    """Micro-F1 on the test nodes, of each seed."""
    return [entry["micro_f1"] for entry in read_ledger(LEDGER) if (entry["data"], entry["row"]) == (data, row)]


if __name__ == "__main__":
    main()
