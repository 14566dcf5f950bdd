"""How well an embedding predicts links that were kept from everything: the score of graphs without labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.checksums import read_json
from progcl.config.schema import Config
from progcl.evaluation.scores import describe_run
from progcl.evaluation.scoring import baselines
from progcl.graph.negatives import NonEdges
from progcl.training.choice import link_auc, rank_targets
from progcl.training.files import write_json

MAX_PAIRS = 100_000  # held-out links, and as many pairs without a link, for the AUC
MIN_RANKED, MAX_RANKED = 500, 10_000  # held-out links whose ends are ranked, for the MRR
MAX_SIMILARITIES = 2**26  # computed for that, unless MIN_RANKED needs more: some seconds


@dataclass(frozen=True)
class LinkScore:
    """How well held-out links are told from pairs of nodes without a link, by cosine.

    Attributes:
        auc: probability that a held-out link has a larger cosine than two random nodes without a link; ties count half
        mrr: mean of 1 / rank of one end of a link, seen from the other: among all nodes but itself and those it is
            linked to otherwise, held out or not; equal cosines share their mean rank
        links: number of held-out links
        ranked: how many of them the MRR is the mean of, each in both directions
    """

    auc: float
    mrr: float
    links: int
    ranked: int

    def __str__(self) -> str:
        return f"AUC {self.auc:.4f}, MRR {self.mrr:.4f}"


def score_heldout(vectors: Tensor, data: Data) -> LinkScore | None:
    """Score embeddings by the links that `hold_out_links` has kept from a graph; None if it has not."""
    if data.get("heldout") is None:
        return None
    return score_links(vectors, data.heldout.cpu(), data.edge_index.cpu())


def compare_links(
    config: Config, data: Data, own: LinkScore, embeddings: Tensor, facts: dict[str, Any]
) -> dict[str, LinkScore]:
    """A run's own score, and those that its embeddings [N, D] have to beat, which need no training."""
    beside = baselines(config, data, embeddings, facts)
    scores = {name: score_heldout(make(), data) for name, make in beside.items()}
    return {describe_run(config, facts): own, **{name: score for name, score in scores.items() if score}}


def save_link_scores(scores: dict[str, LinkScore], run: Path) -> None:
    """Write a comparison to `links.json` in a run folder."""
    write_json(run / "links.json", {name: asdict(score) for name, score in scores.items()})


def load_link_scores(run: Path) -> dict[str, LinkScore]:
    """Read the comparison in a run folder, or the run's own score; empty without held-out links."""
    path, result = run / "links.json", run / "result.json"
    own = read_json(result).get("links")
    rows = read_json(path) if path.exists() else {"this run": own} if own else {}
    return {name: LinkScore(**row) for name, row in rows.items()}


def format_link_table(scores: dict[str, LinkScore]) -> str:
    """Format scores as aligned text, one row each."""
    first = next(iter(scores.values()))
    width = max(map(len, scores))
    ranked = "" if first.ranked == first.links else f", MRR of {first.ranked:,} of them"
    rows = (f"  {name:<{width}}  {score.auc:.4f}  {score.mrr:.4f}" for name, score in scores.items())
    head = f"{first.links:,} links that were kept from everything{ranked}"
    return "\n".join([head, f"  {'':<{width}}  AUC     MRR", *rows])


def score_links(vectors: NDArray[np.float32] | Tensor, heldout: Tensor, edges: Tensor, seed: int = 0) -> LinkScore:
    """Score embeddings [N, d] by links [2, H] that were kept from everything they were computed from.

    Args:
        vectors: embeddings of all nodes
        heldout: one direction of each link, as `hold_out_links` has it
        edges: all other edges [2, E], in one direction or both
        seed: of the pairs without a link, and of the links that are used on large graphs
    """
    rows, known = torch.as_tensor(vectors).float(), torch.cat([edges, edges.flip(0), heldout, heldout.flip(0)], dim=1)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(heldout.size(1), generator=generator)
    chosen = heldout[:, order[:MAX_PAIRS]]
    others = NonEdges(known, len(rows)).sample(chosen.size(1), generator)
    number = min(MAX_RANKED, max(MIN_RANKED, MAX_SIMILARITIES // (2 * len(rows))))
    both = torch.cat([heldout[:, order[:number]], heldout[:, order[:number]].flip(0)], dim=1)
    ranks = rank_targets(normalize(rows, dim=1), both, known)
    return LinkScore(
        link_auc(rows, chosen, others), float(ranks.reciprocal().mean()), heldout.size(1), both.size(1) // 2
    )
