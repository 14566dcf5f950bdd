"""Nodes that join a graph later: how well a classifier of the old nodes' vectors predicts them.

A fifth of the nodes is hidden with all its edges, the rest is embedded as `progcl embed` does, and then the whole graph
arrives. The probe (`clean`) is fitted to old nodes, a quarter of them for validation, and scored on the hidden ones:

    transform    the model of the old graph embeds the whole one; the probe is fitted to the vectors from before
    warm start   training continues from the old weights on the whole graph, rotated onto the old vectors; the probe is
                 fitted to those from before
    anew         the whole graph is embedded from the start, the probe fitted to the new vectors of old nodes
    features     as they are

    python benchmarks/new_nodes.py [GRAPH ...]      run what is missing in results/new-nodes.jsonl, then print the table

`bare` graphs are without their features.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from ledger import format_markdown, read_ledger, run_missing
from torch import Tensor
from torch_geometric.data import Data

from progcl import ProGCL
from progcl.data.datasets import load_dataset
from progcl.data.prepare import prepare
from progcl.embed import WARM_SHARE
from progcl.evaluation.probe import linear_probe
from progcl.methods.features import raw
from progcl.training.alignment import measure_shift
from progcl.training.files import Embeddings
from progcl.training.model import Start
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "new-nodes.jsonl"
GRAPHS = ("cora", "cora bare", "photo", "photo bare")
ROWS = ("features", "transform", "warm start", "anew")
SEEDS = (0, 1, 2)
HIDDEN = 0.2


def main() -> None:
    """Run what is missing, and print tables of accuracies, of seconds, and of how far old nodes have moved."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run(sys.argv[2], int(sys.argv[3]))))
        return
    done = {(entry["graph"], str(entry["seed"])) for entry in read_ledger(LEDGER)}
    wanted = [(graph, str(seed)) for seed in SEEDS for graph in sys.argv[1:] or GRAPHS]
    run_missing(__file__, (cell for cell in wanted if cell not in done), LEDGER)
    entries = read_ledger(LEDGER)
    for what in ("accuracy", "seconds", "cosine", "neighbors"):
        print(f"\n{what}\n")
        print(format_markdown(ROWS, GRAPHS, lambda row, graph, what=what: list_values(entries, row, graph, what)))


def list_values(entries: list[dict[str, Any]], row: str, graph: str, what: str) -> list[float]:
    """A figure of each seed."""
    return [entry[what][row] for entry in entries if entry["graph"] == graph and row in entry[what]]


def run(name: str, seed: int) -> dict[str, Any]:
    """Hide nodes of a graph, embed it by all ways, and score these."""
    whole, hidden = hide(name, seed)
    old = (~hidden).nonzero().flatten()
    model = ProGCL(random_state=seed).fit(strip(whole.subgraph(old), old, name))
    before, given = torch.from_numpy(model.embedding_), strip(whole, torch.arange(len(hidden)), name)
    vectors, seconds = {}, {}
    for row, embed in {"transform": transform, "warm start": continue_training, "anew": embed_anew}.items():
        start = time.process_time()
        vectors[row] = embed(model, given, seed)
        seconds[row] = round(time.process_time() - start, 2)
    shifts = {row: measure_shift(vectors[row][old], before) for row in ("transform", "warm start")}
    for row in shifts:
        vectors[row] = vectors[row].clone()
        vectors[row][old] = torch.nn.functional.pad(before, (0, vectors[row].size(1) - before.size(1)))
    vectors |= {} if name.endswith("bare") else {"features": raw(whole)}
    accuracy = {row: linear_probe(each, whole, "clean", 1, nodes="heldout").mean for row, each in vectors.items()}
    moved = {key: {row: shift[key] for row, shift in shifts.items()} for key in ("cosine", "neighbors")}
    return {"graph": name, "seed": seed, "accuracy": accuracy, "seconds": seconds, **moved}


def hide(name: str, seed: int) -> tuple[Data, Tensor]:
    """The whole graph with masks for the probe, and which nodes are hidden [N]."""
    data = load_dataset(name.split()[0], normalize=False)
    nodes = int(data.num_nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    hidden, validation = order[: round(HIDDEN * nodes)], order[round(HIDDEN * nodes) : round(0.4 * nodes)]
    masks = torch.zeros(3, nodes, dtype=torch.bool)
    masks[1, validation], masks[2, hidden] = True, True
    masks[0] = ~(masks[1] | masks[2])
    data.train_mask, data.val_mask, data.test_mask = masks
    return data, masks[2]


def strip(data: Data, names: Tensor, name: str) -> Data:
    """Edges and names, and features unless the graph is a bare one."""
    features = {} if name.endswith("bare") else {"x": data.x}
    return Data(
        edge_index=data.edge_index, num_nodes=data.num_nodes, ids=[str(each) for each in names.tolist()], **features
    )


def transform(model: ProGCL, data: Data, seed: int) -> Tensor:
    """By the model of the old graph."""
    return torch.from_numpy(model.transform(data))


def continue_training(model: ProGCL, data: Data, seed: int) -> Tensor:
    """As `progcl embed --from` does."""
    earlier = Start(model.model_, Embeddings(model.embedding_, list(model.ids_)))
    config = model.model_.config
    config = replace(config, train=replace(config.train, epochs=max(4, round(WARM_SHARE * config.train.epochs))))
    is_trained = earlier.model.is_trained
    trainer = Trainer(config, earlier.model.schema.prepare(data) if is_trained else prepare(data), start=earlier)
    list(trainer.run(config.train.epochs))
    return trainer.embed()


def embed_anew(model: ProGCL, data: Data, seed: int) -> Tensor:
    """All nodes from the start."""
    return torch.from_numpy(ProGCL(random_state=seed).fit(data).embedding_)


if __name__ == "__main__":
    main()
