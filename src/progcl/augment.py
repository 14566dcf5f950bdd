"""Views of a graph: drop edges and feature columns, alike for all (GRACE) or by importance (GCA)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.centrality import CENTRALITIES
from progcl.errors import pick

CAP = 0.7  # nothing is dropped with a higher probability, however unimportant (GCA)


def view(data: Data, edge_rates: float | Tensor, feature_rates: float | Tensor, generator: torch.Generator) -> Data:
    """A copy without the edges and feature columns that chance took; rates are one number, or one per edge or column.

    The two directions of an edge are dropped independently; a column is dropped for all nodes at once.
    """
    keep_edges = torch.rand(data.edge_index.size(1), generator=generator) >= edge_rates
    keep_columns = torch.rand(data.x.size(1), generator=generator) >= feature_rates
    return Data(x=data.x * keep_columns, edge_index=data.edge_index[:, keep_edges])


def adaptive_edge_rates(data: Data, rate: float, centrality: str) -> Tensor:
    """GCA's probability to drop each edge, [E]: the less central its sink, the higher; `rate` on average."""
    central = pick(CENTRALITIES, centrality, "centrality")(data, 200)
    return _unimportance(central.log()[data.edge_index[1]], rate)


def adaptive_feature_rates(data: Data, rate: float, centrality: str) -> Tensor:
    """GCA's probability to drop each column, [F]: the less it is used by central nodes, the higher.

    Presence counts for sparse features (all values ≥ 0), magnitude for dense ones.
    """
    central = pick(CENTRALITIES, centrality, "centrality")(data, 10)
    use = (data.x != 0).float() if (data.x >= 0).all() else data.x.abs()
    return _unimportance((use.T @ central).log(), rate)


def _unimportance(score: Tensor, rate: float) -> Tensor:
    """min(rate · (max-s)/(max-mean), 0.7); a score of log 0 counts as the lowest of the others."""
    finite = score[score.isfinite()]
    if not len(finite) or finite.max() == finite.mean():
        return torch.full_like(score, min(rate, CAP))
    score = score.clamp_min(finite.min())
    weight = (score.max() - score) / (score.max() - score.mean())
    return (weight * rate).clamp_max(CAP)
