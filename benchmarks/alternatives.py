"""`progcl embed` without options against other tools: accuracy, links, CPU seconds, peak memory (docs/graph.md).

    python benchmarks/alternatives.py [GRAPH ...] [--tools A,B]    run what is missing in results/alternatives.jsonl
    python benchmarks/alternatives.py --table                      print

Each pair of graph and tool is embedded twice in a process of its own: whole, for the accuracy (protocol `clean`, 20
splits, on nodes that no setting of `progcl embed` was chosen on), seconds and memory; and without a tenth of its edges,
which the cosines of the vectors then tell from pairs that are not linked (AUC). Nothing is tuned: tools have the
settings that their authors publish.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed_table import GRAPHS, embed_untrained, make_config
from graphs import load_graph
from ledger import read_ledger, run_missing
from scipy.sparse import csr_matrix, diags
from sklearn.preprocessing import normalize, scale
from sklearn.random_projection import GaussianRandomProjection
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_scipy_sparse_matrix

from progcl import load_config
from progcl.data.holdout import hold_out_links
from progcl.data.prepare import prepare
from progcl.evaluation.links import score_links
from progcl.evaluation.probe import linear_probe
from progcl.graph.walks import RandomWalker
from progcl.training.trainer import Trainer, peak_mb

LEDGER = Path(__file__).parents[1] / "results" / "alternatives.jsonl"
NAMES = [name for name in GRAPHS if name != "physics"]
WALKS, WALK_LENGTH, WINDOW, SIZE = 10, 80, 10, 128  # of node2vec, as its authors set them
FASTRP_WEIGHTS, FASTRP_ALPHA, FASTRP_SIZE = (1.0, 1.0, 7.81, 45.28), -0.628, 512  # of its authors' example


def embed(data: Data, changes: dict[str, Any] | None = None) -> Tensor:
    """`progcl embed`, which computes features from the edges where there are none."""
    data = prepare(data)
    trainer = Trainer(make_config(data, changes or {}, seed=0), data)
    list(trainer.run(trainer.config.train.epochs))
    return trainer.embed()


def embed_by_infonce(data: Data) -> Tensor:
    """The same with `--method.objective infonce`."""
    return embed(data, {"method.objective": "infonce"})


def node2vec(data: Data) -> Tensor:
    """Grover, Leskovec: node2vec (2016), p = q = 1: gensim's skip-gram on our walks."""
    from gensim.models import Word2Vec  # type: ignore[import-untyped]

    nodes = int(data.num_nodes)
    walker = RandomWalker(data.edge_index, nodes)
    walks = [walker.walk(torch.arange(nodes), WALK_LENGTH, epoch) for epoch in range(WALKS)]
    sentences = [[str(node) for node in walk] for walk in torch.cat(walks).tolist()]
    options: dict[str, Any] = {"vector_size": SIZE, "window": WINDOW, "min_count": 0, "sg": 1, "workers": 1, "seed": 0}
    vectors = Word2Vec(sentences, **options, epochs=1).wv
    return torch.from_numpy(np.stack([vectors[str(node)] for node in range(nodes)]))


def cleora(data: Data) -> Tensor:
    """Rychalska et al.: Cleora (2021), by `pycleora` with its defaults; it takes no features."""
    from pycleora import SparseMatrix
    from pycleora import embed as embed_cleora

    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist()
    lines = (f"{one} {other}" for one, other in zip(source, target, strict=True))
    graph = SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    found = embed_cleora(graph, num_workers=1)
    vectors = torch.zeros(int(data.num_nodes), found.shape[1])  # nodes without edges have none
    vectors[torch.tensor([int(node) for node in graph.entity_ids])] = torch.from_numpy(found.astype(np.float32))
    return vectors


def fastrp(data: Data) -> Tensor:
    """Chen et al.: Fast and Accurate Network Embeddings via Very Sparse Random Projection (2019); without features."""
    adjacency = csr_matrix(to_scipy_sparse_matrix(data.edge_index, num_nodes=data.num_nodes))
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    step = diags(1 / np.maximum(degree, 1)) @ adjacency
    projection = GaussianRandomProjection(FASTRP_SIZE, random_state=42).fit(step).components_.T
    vectors = np.power(np.maximum(degree, 1), FASTRP_ALPHA)[:, None] * projection
    total = np.zeros_like(vectors)
    for weight in FASTRP_WEIGHTS:
        vectors = step @ vectors
        total += weight * normalize(vectors)
    return torch.from_numpy(scale(total)).float()


def dgi(data: Data) -> Tensor:
    """Veličković et al.: Deep Graph Infomax (2019) with its authors' settings for Cora."""
    trainer = Trainer(load_config("dgi-cora", {"probe.protocol": "none"}), prepare(data))
    list(trainer.run(trainer.config.train.epochs))
    return trainer.embed()


TOOLS: dict[str, Callable[[Data], Tensor]] = {
    "progcl embed": embed,
    "progcl embed, InfoNCE": embed_by_infonce,
    "features of five hops": lambda data: embed_untrained({"method.name": "hops"}, prepare(data)),
    "spectral vectors": lambda data: embed_untrained({"method.name": "spectral"}, with_any_features(data)),
    "node2vec": node2vec,
    "Cleora": cleora,
    "FastRP": fastrp,
    "DGI": dgi,
}


def run(name: str, tool: str) -> dict[str, Any]:
    """The entry of one graph and tool."""
    torch.set_num_threads(1)
    data = without_structure(load_graph(name))
    start = time.process_time()
    vectors = TOOLS[tool](data)
    seconds, peak = time.process_time() - start, peak_mb()
    score = linear_probe(vectors, data, "clean", nodes=GRAPHS[name])
    entry = {"graph": name, "tool": tool, "accuracy": score.mean, "std": score.std, "seconds": round(seconds, 1)}
    seen = hold_out_links(data)
    links = score_links(TOOLS[tool](seen), seen.heldout, seen.edge_index)
    return {**entry, "peak_mb": peak, "dimensions": vectors.size(1), "auc": round(links.auc, 4)}


def without_structure(data: Data) -> Data:
    """The graph without features that were computed from its edges: a tool that reads them has to compute them."""
    if not data.get("structural"):
        return data
    return Data(edge_index=data.edge_index, y=data.y, num_nodes=data.num_nodes)


def with_any_features(data: Data) -> Data:
    """The graph with features that nobody reads, where it has none: to compute others would count."""
    return data if data.get("x") is not None else Data(**data.to_dict(), x=torch.zeros(int(data.num_nodes), 1))


def format_tables() -> str:
    """Accuracy and link AUC; CPU seconds and memory."""
    entries = {(entry["tool"], entry["graph"]): entry for entry in read_ledger(LEDGER)}
    kinds: dict[str, Callable[[dict[str, Any]], str]] = {
        "accuracy": lambda entry: f"{entry['accuracy']:.2f}",
        "AUC of links": lambda entry: f"{entry['auc']:.3f}",
        "CPU seconds": lambda entry: f"{entry['seconds']:,.0f}",
        "peak memory, GB": lambda entry: f"{entry['peak_mb'] / 1000:.1f}",
    }
    tables, names = [], [name for name in NAMES if any(name == graph for _, graph in entries)]
    for kind, show in kinds.items():
        lines = [f"| {kind} | " + " | ".join(names) + " |", "|-" * (len(names) + 1) + "|"]
        for tool in TOOLS:
            cells = [show(entries[tool, name]) if (tool, name) in entries else "" for name in names]
            lines.append(f"| {tool} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("graphs", nargs="*")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(*options.one)))
        return
    if not options.table:
        done = {(entry["graph"], entry["tool"]) for entry in read_ledger(LEDGER)}
        wanted = [(name, tool) for name in options.graphs or NAMES for tool in options.tools.split(",")]
        run_missing(__file__, [pair for pair in wanted if pair not in done], LEDGER)
    print(format_tables())


if __name__ == "__main__":
    main()
