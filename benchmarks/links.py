"""How well `progcl embed` predicts links that were kept from it, by what score of a pair; and clusters: docs/graph.md.

    python benchmarks/links.py [GRAPH ...]     run what is missing in results/links.jsonl, then print the tables
    python benchmarks/links.py --table         print them

A tenth of the edges is held out before anything is computed. A pair is scored by the cosine of its vectors: of all
blocks, of centered ones, of one kind of block alone.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphs import load_graph
from ledger import append_entry, read_ledger
from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import find_clusters, fit, hold_out_links, load_config
from progcl.data.prepare import prepare
from progcl.embed import choose_settings
from progcl.evaluation.clusters import compare_with_labels
from progcl.evaluation.links import score_heldout
from progcl.graph.hop_features import HopFeatures
from progcl.methods.features import raw

LEDGER = Path(__file__).parents[1] / "results" / "links.jsonl"
GRAPHS = ("cora", "photo", "facebook", "digits", "cora without features", "facebook without features")
ROWS = {
    "raw": "features as they are",
    "hops": "features of five hops",
    "embed": "embed",
    "centered": "embed, centered",
    "learned": "its learned vectors alone",
    "walk vectors": "its walk vectors alone",
}


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = [name for name in sys.argv[1:] if name != "--table"] or GRAPHS
    done = {entry["graph"] for entry in read_ledger(LEDGER)}
    for name in tqdm([] if "--table" in sys.argv else [name for name in asked if name not in done]):
        append_entry(LEDGER, run(name))
    entries = {entry["graph"]: entry for entry in read_ledger(LEDGER)}
    shown = [name for name in GRAPHS if name in entries]
    print("| AUC, MRR | " + " | ".join(shown) + " |\n" + "|-" * (len(shown) + 1) + "|")
    for row, title in ROWS.items():
        cells = (entries[name]["links"].get(row) for name in shown)
        print(
            f"| {title} | "
            + " | ".join(f"{each['auc']:.3f}, {each['mrr']:.3f}" if each else "" for each in cells)
            + " |"
        )
    print("\n| | " + " | ".join(shown) + " |\n" + "|-" * (len(shown) + 1) + "|")
    for key in ("classes", "clusters", "silhouette", "NMI", "ARI"):
        cells = (entries[name]["clusters"][key] for name in shown)
        print(
            f"| {key} | " + " | ".join(f"{each:.2f}" if isinstance(each, float) else str(each) for each in cells) + " |"
        )


def run(name: str) -> dict[str, Any]:
    """Hold out links, embed, and score."""
    data = load_graph(name.removesuffix(" without features"))
    if name.endswith(" without features"):
        data = Data(edge_index=data.edge_index, y=data.y, num_nodes=data.num_nodes)
    data = prepare(hold_out_links(data))
    config = load_config("embed", {"data.graph": name, **choose_settings(data, {"probe.protocol": "none"})})
    result = fit(config, data=data)
    start = time.process_time()
    scores = {row: score_heldout(vectors, data) for row, vectors in rows(result.embeddings, result.facts, data).items()}
    seconds = (time.process_time() - start) / len(scores)
    clusters = find_clusters(result.embeddings.numpy())
    facts = {"classes": int(data.y.max()) + 1, "clusters": clusters.count, "silhouette": clusters.silhouette}
    return {
        "graph": name,
        "links": {row: asdict(score) for row, score in scores.items() if score},
        "seconds of a score": seconds,
        "clusters": {**facts, **compare_with_labels(clusters, data)},
    }


def rows(vectors: Tensor, facts: dict[str, Any], data: Data) -> dict[str, Tensor]:
    """What is compared: features, the embedding, and kinds of its blocks."""
    config, blocks = load_config("embed"), facts["blocks"]
    every = {"raw": raw(data), "hops": HopFeatures.fit(data, config.hops).transform(data), "embed": vectors}
    every["centered"] = vectors - vectors.mean(dim=0)
    if "learned" in blocks:
        every["learned"] = vectors[:, : 2 * config.encoder.hidden]
    if "walk vectors" in blocks:
        every["walk vectors"] = vectors[:, -config.output.structure :]
    return every


if __name__ == "__main__":
    main()
