"""Which blocks an embedding should have, judged without labels: by links that training did not see."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch_geometric.data import Data

from progcl.config.output import HopsConfig
from progcl.graph.hop_features import HopFeatures, project

MAX_PAIRS = 20_000
MAX_RANK = 256  # of the features that the learned vectors are compared with
SEED = 0  # of the pairs without a link
MAX_ERROR_RATIO = 1.5  # of vectors that see no links to features that were smoothed over all other links
LINKS_MATTER = 0.52  # below this, linked nodes are no more alike than others

Blocks = Literal["learned", "untrained", "own"]


@dataclass(frozen=True)
class Choice:
    """How well three kinds of vectors tell held-out links from random pairs, and what follows.

    Each is the area under the ROC curve of cosines.

    Attributes:
        learned: of the learned vectors, before any smoothing
        features: of features of several hops, propagated without the held-out links
        own: of a node's own features
    """

    learned: float
    features: float
    own: float

    @classmethod
    def judge(cls, learned: Tensor, data: Data, heldout: Tensor, config: HopsConfig) -> Choice:
        """Compare learned vectors [N, d] with features without training by held-out edges [2, E]."""
        seen = data.clone()
        seen.edge_index = remove_edges(data.edge_index, heldout, int(data.num_nodes))
        hops = replace(config, rank=min(MAX_RANK, config.rank or MAX_RANK))
        features = HopFeatures.fit(seen, hops)
        own = project(data.x, features.directions).to(learned.device)
        vectors = (learned - learned.mean(dim=0), features.transform(seen), own)
        return cls(*(link_auc(each, heldout) for each in vectors))

    @property
    def blocks(self) -> Blocks:
        """`learned` and all others; those that need no training; or a node's own features alone.

        Learned vectors see no links when they embed. They are good if, from features alone, they predict links nearly
        as well as features do that were smoothed over all other links; and better than the features that they were
        learned from, which they cannot in a graph of nearest neighbors, where links follow from the features.
        """
        if max(self.features, self.own) < LINKS_MATTER:
            return "own"
        is_good = 1 - self.learned <= MAX_ERROR_RATIO * (1 - self.features)
        return "learned" if is_good and self.learned > self.own else "untrained"

    def facts(self) -> dict[str, Any]:
        """In plain numbers, for results and logs."""
        return {"blocks": self.blocks, "auc": {name: round(value, 4) for name, value in asdict(self).items()}}


def describe_choice(facts: dict[str, Any]) -> str:
    """A sentence on what was chosen, and why."""
    reasons = {
        "learned": "training earned its place",
        "untrained": "training did not earn its place, so the embedding is made without it",
        "own": "links do not connect similar nodes, so the embedding is made of a node's own features alone",
    }
    learned, features, own = (facts["auc"][name] for name in ("learned", "features", "own"))
    areas = f"{learned:.3f} by learned vectors, {features:.3f} by features of several hops, {own:.3f} by own features"
    return f"{reasons[facts['blocks']]} (links kept from training are told from random pairs with AUC {areas})"


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
