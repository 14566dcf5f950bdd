"""Which blocks an embedding should have, judged without labels: by links that training did not see."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch_geometric.data import Data

from progcl.graph.hop_features import HopFeatures, project

MIN_HELDOUT, MAX_PAIRS = 50, 20_000  # edges to judge by
SEED = 0  # of the pairs without a link
MIN_LOG_ODDS = 0.8  # of the learned vectors' AUC, as a share of those of features smoothed over all other links
MIN_GAIN = 0.01  # in AUC, of the learned vectors over the features that they were learned from
LINKS_MATTER = 0.52  # AUC below which linked nodes are no more alike than others
LINKS_OPPOSE = 0.42  # below this, they are so unlike that hops tell much

Blocks = Literal["learned", "untrained", "own"]


@dataclass(frozen=True)
class Choice:
    """How well three kinds of vectors tell held-out links from random pairs, and what follows.

    Each is the area under the ROC curve of cosines.

    Attributes:
        learned: of the learned vectors, before any smoothing
        features: of features of several hops, propagated without the held-out links
        own: of a node's own features
        varies: whether these differ from node to node
    """

    learned: float
    features: float
    own: float
    varies: bool = True

    @classmethod
    def judge(cls, learned: Tensor, data: Data, heldout: Tensor, features: HopFeatures) -> Choice:
        """Compare learned vectors [N, d] with features without training by held-out edges [2, E]."""
        seen = copy.copy(data)  # features are shared
        seen.edge_index = remove_edges(data.edge_index, heldout, int(data.num_nodes))
        own = project(data.x, features.directions).to(learned.device)
        stacked = features.transform(seen)
        first, second, third = (link_auc(each - each.mean(dim=0), heldout) for each in (learned, stacked, own))
        return cls(first, second, third, varies=bool((own.amax(dim=0) - own.amin(dim=0)).max() > 1e-6))

    @property
    def blocks(self) -> Blocks:
        """`learned` and all others; those that need no training; or a node's own features alone.

        Learned vectors see no links when they embed. They are good if, from features alone, they predict links nearly
        as well as features do that were smoothed over all other links; and better than the features that they were
        learned from, which they cannot in a graph of nearest neighbors, where links follow from the features.
        """
        if max(self.features, self.own) < LINKS_MATTER and self.features > LINKS_OPPOSE and self.varies:
            return "own"
        is_good = log_odds(self.learned) >= MIN_LOG_ODDS * log_odds(self.features)
        return "learned" if is_good and self.learned >= self.own + MIN_GAIN else "untrained"

    def facts(self) -> dict[str, Any]:
        """In plain numbers, for results and logs."""
        areas = {"learned": self.learned, "features": self.features, "own": self.own}
        return {"blocks": self.blocks, "auc": {name: round(value, 4) for name, value in areas.items()}}


def describe_choice(facts: dict[str, Any]) -> str:
    """A sentence on what was chosen, and why."""
    learned, features, own = (facts["auc"][name] for name in ("learned", "features", "own"))
    reasons = {
        "learned": "learned vectors are part of the embedding, as they predict links from features alone",
        "untrained": "training did not earn its place and is left out: "
        + (
            "the features are too weak to learn from" if learned >= own + MIN_GAIN else "links follow from the features"
        ),
        "own": "links do not connect similar nodes: the embedding is a node's own features",
    }
    areas = f"learned {learned:.3f}, features of several hops {features:.3f}, own features {own:.3f}"
    return f"{reasons[facts['blocks']]} (AUC of links that training did not see: {areas})"


def log_odds(auc: float) -> float:
    """log(AUC / (1 - AUC)): 0 for chance; counts gains near 1/2 and errors near 1 alike."""
    clipped = min(max(auc, 1e-6), 1 - 1e-6)
    return math.log(clipped / (1 - clipped))


def link_auc(vectors: Tensor, links: Tensor) -> float:
    """Area under the ROC curve of cosines: links [2, E] against as many random pairs of nodes."""
    generator = torch.Generator().manual_seed(SEED)
    chosen = links.cpu()[:, torch.randperm(links.size(1), generator=generator)[:MAX_PAIRS]]
    others = torch.randint(len(vectors), tuple(chosen.shape), generator=generator)
    pairs = torch.cat([chosen, others], dim=1).to(vectors.device)
    cosines = cosine_similarity(vectors[pairs[0]], vectors[pairs[1]], dim=1).cpu()
    return float(roc_auc_score([True] * chosen.size(1) + [False] * others.size(1), cosines.numpy()))


def remove_edges(edges: Tensor, removed: Tensor, nodes: int) -> Tensor:
    """The edges [2, E] without some of them, in both directions."""
    both = torch.cat([removed, removed.flip(0)], dim=1)
    keys, gone = (pairs[0] * nodes + pairs[1] for pairs in (edges, both))
    return edges[:, ~torch.isin(keys, gone)]
