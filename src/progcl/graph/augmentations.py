"""What views differ in: rates at which edges and feature columns are dropped (GCA), edges that are added (MERIT)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.graph.centrality import CENTRALITIES
from progcl.graph.views import Graph
from progcl.registry import pick

CAP = 0.7  # nothing is dropped with a higher probability, however unimportant (GCA)


def random_edges(graph: Graph, share: float, generator: torch.Generator) -> Tensor:
    """Edges between two nodes drawn at random, as many as `share` of the graph's, [2, M]; some may be there already."""
    number, nodes = round(share * graph.edges), graph.nodes
    source = torch.randint(0, nodes, (number,), generator=generator)
    other = torch.randint(1, max(nodes, 2), (number,), generator=generator)
    return torch.stack([source, (source + other) % nodes])


def edge_unimportance(data: Data, centrality: str) -> Tensor:
    """GCA's weight of each edge, [E], 1 on average: the less central its sink, the higher."""
    central = pick(CENTRALITIES, centrality, "centrality")(data, 200)
    return _unimportance(central.double().log()[data.edge_index[1]])


def feature_unimportance(data: Data, centrality: str) -> Tensor:
    """GCA's weight of each column, [F], 1 on average: the less it is used by central nodes, the higher.

    Use is presence for sparse features (most entries 0), and magnitude for dense ones.
    """
    central = pick(CENTRALITIES, centrality, "centrality")(data, 10)
    present = data.x != 0
    use = present if present.float().mean() < 0.5 else data.x.abs()
    return _unimportance((use.T.double() @ central.double()).log())


def adaptive_rates(unimportance: Tensor, rate: float) -> Tensor:
    """Probabilities to drop: `rate` on average, but for the cap."""
    return (rate * unimportance).clamp_max(CAP)


def _unimportance(score: Tensor) -> Tensor:
    """(max-s)/(max-mean) of logarithms, or 1 where all are alike; log 0 counts as the lowest of the others."""
    finite = score[score.isfinite()]
    if not len(finite) or finite.max() - finite.mean() < 1e-6:
        return torch.ones_like(score).float()
    score = score.clamp_min(finite.min())
    return ((score.max() - score) / (score.max() - score.mean())).float()
