"""Nodes that training never saw: miners in batches on Facebook pages and Coauthor-Physics, and what they have to beat.

    python benchmarks/inductive.py [DATA ...]      run what is missing
    python benchmarks/inductive.py --table         print the table

One line of JSON for each run in results/inductive.jsonl: settings, seed, micro-F1 on the test nodes, seconds, memory. A
run that is there already is not repeated. The split is always the same 60, 20 and 20 % of the nodes, `held_out` of
progcl.data; the probe is `clean` on it. `supervised` is the same encoder with a linear layer, trained on the labels of
the training nodes, the epoch chosen on the validation nodes. `propagated` features see all nodes and edges.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from ledger import entries, run_each, table
from tqdm import tqdm

from progcl import fit
from progcl.config.load import load_config, to_dict
from progcl.data.datasets import load_data
from progcl.data.splits import held_out
from progcl.evaluation.probe import linear_probe
from progcl.graph.sampled import SampledGraph, SampledView
from progcl.methods.features import propagated, raw
from progcl.miners import PROPOSED
from progcl.nn.heads import glorot
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
        done = {(entry["data"], entry["row"], str(entry["seed"])) for entry in entries(LEDGER)}
        wanted = [(data, row, str(seed)) for seed in SEEDS for data in arguments or DATA for row in ROWS]
        run_each(__file__, (each for each in wanted if each not in done and not needless(*each)), LEDGER)
    print(table(ROWS, DATA, scores))


def needless(data: str, row: str, seed: str) -> bool:
    """Whether another seed would change nothing."""
    return row in WITHOUT_SEED and seed != str(SEEDS[0])


def run(name: str, row: str, seed: int) -> dict[str, Any]:
    """One row of the table."""
    miner = row if row in PROPOSED else "none"
    config = load_config(name, {"train.seed": seed, "miner.name": miner})
    start = time.perf_counter()
    mixture = None
    if row in PROPOSED:
        result = fit(config, progress=True)
        assert result.score is not None
        score, mixture = result.score.mean, result.mixture
    elif row == "supervised":
        score = supervised(Trainer(config, loaded(config)))
    else:
        data = loaded(config)
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


def loaded(config: Any) -> Any:
    """The configured graph."""
    return load_data(config.data)


def supervised(training: Trainer) -> float:
    """Test micro-F1 in percent of the encoder with a linear layer, at the epoch that is best on validation nodes."""
    data, config = training.data, training.config
    encoder, graph = training.method.encoder, training.graph
    head = glorot(config.encoder.hidden, int(data.y.max()) + 1, training.generators["init"])
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, config.train.lr, weight_decay=config.train.weight_decay)
    _, validation, test = held_out(data)
    whole = training.lens.graph(training.data)
    assert isinstance(graph, SampledGraph)
    assert isinstance(whole, SampledGraph)
    best = (-1.0, 0.0)
    for epoch in tqdm(range(1, config.train.epochs + 1), desc="supervised"):
        for part in graph.batches(epoch):
            loss = torch.nn.functional.cross_entropy(head(encoder(SampledView(part))), data.y[part.seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = head(whole.embed(encoder)).argmax(dim=1) == data.y
        seen, unseen = (100 * float(right[nodes].float().mean()) for nodes in (validation, test))
        best = max(best, (seen, unseen))
    return best[1]


def scores(row: str, data: str) -> list[float]:
    """Micro-F1 on test nodes of every seed."""
    return [entry["micro_f1"] for entry in entries(LEDGER) if (entry["data"], entry["row"]) == (data, row)]


if __name__ == "__main__":
    main()
