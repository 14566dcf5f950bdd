"""How much learned vectors should count in an embedding, judged without labels: by links that training did not see."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize
from torch_geometric.data import Data

from progcl.data.edges import select_edges
from progcl.graph.hop_features import HopFeatures, project

MIN_HELDOUT, MAX_PAIRS = 20, 20_000  # edges to judge by
FEW_LINKS = 300  # below which what is chosen depends on the seed (docs/recipes.md)
NEAREST, MAX_RANKED = 10, 200  # nodes nearest to a link's source by features, and links that are looked up there
MAX_SIMILARITIES = 2**24  # held at once
PAIRS_PER_CHUNK = 4096  # whose vectors are held at once
SEED = 0  # of the pairs without a link
MIN_WEIGHT = 0.05  # below which learned vectors are left out
FROM_FEATURES = 0.5  # share of links among the nearest above which a graph is one of nearest neighbors
LINKS_MATTER = 0.52  # AUC below which linked nodes are no more alike than others
LINKS_OPPOSE = 0.42  # AUC of hops below which linked nodes are so unlike that hops tell classes apart

Blocks = Literal["learned", "untrained", "own"]


@dataclass(frozen=True)
class Choice:
    """How well three kinds of vectors tell held-out links from random pairs, and what follows.

    Attributes:
        learned: area under the ROC curve (AUC) of the learned vectors' cosines, before any smoothing
        features: of features of several hops, propagated without the held-out links
        own: of a node's own features
        nearest: share of held-out links that lead to one of the ten nodes nearest by own features
        varies: whether own features differ from node to node
        directed: whether hops go along the edges and against them; then they are never left out
        links: number of held-out links
    """

    learned: float
    features: float
    own: float
    nearest: float = 0.0
    varies: bool = True
    directed: bool = False
    links: int = 0

    @classmethod
    def judge(cls, learned: Tensor, data: Data, heldout: Tensor, features: HopFeatures) -> Choice:
        """Compare learned vectors [N, d] with features without training by held-out edges [2, E]."""
        seen = without_edges(data, heldout)
        links, others, weight = sample_pairs(heldout, len(learned), weights_of(data, heldout))
        first = link_auc(learned, links, others, weight, learned.mean(dim=0))
        nodes, place = torch.cat([links, others], dim=1).unique(return_inverse=True)
        rows, mean = features.gather(seen, nodes.to(learned.device))  # of few nodes, as those of all are large
        linked, random = place.split([links.size(1), others.size(1)], dim=1)
        second = link_auc(rows, linked, random, weight, mean)
        own = project(data.x, features.directions).to(learned.device)
        third = link_auc(own, links, others, weight, own.mean(dim=0))
        varies = bool((own.amax(dim=0) - own.amin(dim=0)).max() > 1e-6)
        nearest = nearest_hits(own, heldout, seen.edge_index) if varies else 0.0
        return cls(first, second, third, nearest, varies, features.directed, heldout.size(1))

    @property
    def weight(self) -> float:
        """Length of the learned vectors in the embedding, from 0 to 1.

        Learned vectors see no links when they embed. They are good if, from features alone, they predict links as well
        as features do that were smoothed over all other links: the weight is the squared ratio of the log-odds of
        both AUCs. It is 0 in a graph of nearest neighbors, where links follow from the features and teach nothing.
        """
        if self.nearest >= FROM_FEATURES or self.features <= 0.5:
            return 0.0
        weight = min(1.0, max(0.0, log_odds(self.learned) / log_odds(self.features))) ** 2
        return weight if weight >= MIN_WEIGHT else 0.0

    @property
    def blocks(self) -> Blocks:
        """`learned` and all others; those that need no training; or a node's own features alone."""
        tells_nothing = max(self.features, self.own) < LINKS_MATTER and not self._opposes
        if tells_nothing and self.varies and not self.directed:
            return "own"
        return "learned" if self.weight else "untrained"

    @property
    def _opposes(self) -> bool:
        """Whether links connect unlike nodes, and hops say so better than own features do, by two standard errors.

        The error is that of the AUC of vectors that tell nothing, of n links and n other pairs: √(1 / 6n).
        """
        error = math.sqrt(1 / (6 * min(self.links, MAX_PAIRS))) if self.links else 0.0
        return self.features <= LINKS_OPPOSE and self.features < self.own - 2 * error

    def facts(self) -> dict[str, Any]:
        """In plain numbers, for results and logs."""
        areas = {"learned": self.learned, "features": self.features, "own": self.own}
        weight = self.weight if self.blocks == "learned" else 0.0
        facts: dict[str, Any] = {"blocks": self.blocks, "weight": round(weight, 4), "nearest": round(self.nearest, 4)}
        return {**facts, "auc": {name: round(value, 4) for name, value in areas.items()}, "links": self.links}


def describe_choice(facts: dict[str, Any]) -> str:
    """A sentence on what was chosen, and why."""
    learned, features, own = (facts["auc"][name] for name in ("learned", "features", "own"))
    from_features = f"{facts['nearest']:.0%} of links lead to one of a node's {NEAREST} nearest by features"
    why_not = "the features are too weak to learn from"
    if facts["nearest"] >= FROM_FEATURES:
        why_not = f"links follow from the features, {from_features}"
    elif features <= LINKS_OPPOSE:
        why_not = "links connect unlike nodes, which features of several hops tell apart"
    reasons = {
        "learned": f"learned vectors count {facts['weight']:.2f} times as much as features of several hops: the better"
        " they predict links from a node's own features, the more",
        "untrained": f"training did not earn its place and is left out: {why_not}",
        "own": "links do not connect similar nodes: the embedding is a node's own features",
    }
    areas = f"learned {learned:.3f}, features of several hops {features:.3f}, own features {own:.3f}"
    chosen = f"{reasons[facts['blocks']]} (AUC of links that training did not see: {areas})"
    if facts.get("links", FEW_LINKS) >= FEW_LINKS:
        return chosen
    return f"{chosen}; {facts['links']} links are few to judge by: compare with --output.blocks learned, untrained, own"


def log_odds(auc: float) -> float:
    """log(AUC / (1 - AUC)): 0 for chance; counts gains near 1/2 and errors near 1 alike."""
    clipped = min(max(auc, 1e-6), 1 - 1e-6)
    return math.log(clipped / (1 - clipped))


def link_auc(
    vectors: Tensor,
    links: Tensor,
    others: Tensor | None = None,
    weight: Tensor | None = None,
    center: Tensor | float = 0.0,
) -> float:
    """Area under the ROC curve of cosines: links [2, E] against other pairs of nodes, else as many random ones.

    Links may have weights [E]; other pairs count 1. Cosines are around `center` [d], such as the mean of all vectors.
    """
    if others is None:
        links, others, weight = sample_pairs(links, len(vectors), weight)
    chunks = torch.cat([links, others], dim=1).to(vectors.device).split(PAIRS_PER_CHUNK, dim=1)
    rows = ((vectors[one] - center, vectors[other] - center) for one, other in chunks)
    cosines = torch.cat([cosine_similarity(one, other, dim=1) for one, other in rows]).cpu()
    is_link = [True] * links.size(1) + [False] * others.size(1)
    shares = None if weight is None else torch.cat([weight.cpu(), torch.ones(others.size(1))]).numpy()
    return float(roc_auc_score(is_link, cosines.numpy(), sample_weight=shares))


def sample_pairs(links: Tensor, nodes: int, weight: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """At most 20,000 of the links [2, E], as many random pairs of nodes, and the weights of these links."""
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(links.size(1), generator=generator)[:MAX_PAIRS]
    links, weight = links.cpu()[:, order], None if weight is None else weight.cpu()[order]
    return links, torch.randint(nodes, tuple(links.shape), generator=generator), weight


def nearest_hits(vectors: Tensor, links: Tensor, edges: Tensor) -> float:
    """Share of links [2, E] whose target is among the ten nodes nearest to the source by cosine.

    Nodes that `edges` [2, E'] link to the source are left out of the ranking, as is itself; equal cosines count half.
    """
    chosen = _sample(links, MAX_RANKED, torch.Generator().manual_seed(SEED)).to(vectors.device)
    ranks = rank_targets(normalize(vectors, dim=1), chosen, edges)
    return float((ranks - 0.5 <= NEAREST).double().mean()) if chosen.size(1) else 0.0


def rank_targets(unit: Tensor, links: Tensor, known: Tensor) -> Tensor:
    """Rank of each link's target [n] among the nodes by cosine to its source, from 1; ties share their mean rank.

    Args:
        unit: unit rows [N, d]
        links: [2, n]
        known: edges [2, E], both directions: other nodes that they lead to from the source are left out of the ranking
    """
    ranks = []
    for source, target in (pairs.unbind() for pairs in links.split(max(1, MAX_SIMILARITIES // len(unit)), dim=1)):
        cosines = unit[source] @ unit.T  # [b, N]
        expected = cosines.gather(1, target[:, None])
        near = known[:, torch.isin(known[0], source)]
        row, edge = _matches(source, near[0])
        cosines[row, near[1, edge]] = -2.0
        cosines.scatter_(1, source[:, None], -2.0).scatter_(1, target[:, None], -2.0)
        ranks.append(1 + (cosines > expected).sum(dim=1) + (cosines == expected).sum(dim=1).double() / 2)
    return torch.cat(ranks) if ranks else torch.empty(0, dtype=torch.float64)


def _matches(wanted: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs (i, j) with wanted[i] == values[j], [m] each, in memory linear in their number."""
    ordered, order = values.sort(stable=True)
    first, last = (torch.searchsorted(ordered, wanted, right=right) for right in (False, True))
    number = last - first
    row = torch.arange(len(wanted), device=wanted.device).repeat_interleave(number)
    offset = torch.arange(len(row), device=wanted.device) - (number.cumsum(0) - number).repeat_interleave(number)
    return row, order[first.repeat_interleave(number) + offset]


def without_edges(data: Data, removed: Tensor) -> Data:
    """The graph without some of its edges [2, E], in both directions; its features are shared."""
    seen, nodes = copy.copy(data), int(data.num_nodes)
    both = torch.cat([removed, removed.flip(0)], dim=1)
    keys, gone = (pairs[0] * nodes + pairs[1] for pairs in (data.edge_index, both))
    return seen.update(select_edges(data, ~torch.isin(keys, gone)))


def weights_of(data: Data, links: Tensor) -> Tensor | None:
    """Weights [E] of some of a graph's edges, which are sorted; None without weights."""
    if data.get("edge_weight") is None:
        return None
    keys, wanted = (pairs[0] * int(data.num_nodes) + pairs[1] for pairs in (data.edge_index, links))
    weight: Tensor = data.edge_weight[torch.searchsorted(keys, wanted)]
    return weight


def _sample(links: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """At most so many of the links [2, E]."""
    return links.cpu()[:, torch.randperm(links.size(1), generator=generator)[:most]]
