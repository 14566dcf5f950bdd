"""Augmentations: importance-based drop rates of edges and feature columns (GCA), random extra edges (MERIT)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.graph.centrality import CENTRALITIES
from progcl.graph.views import Graph
from progcl.registry import pick

MAX_DROP_RATE = 0.7  # p_τ of GCA
EDGE_PAGERANK_STEPS, FEATURE_PAGERANK_STEPS = 200, 10  # as in GCA's code


def random_edges(graph: Graph, share: float, generator: torch.Generator) -> Tensor:
    """Random edges between different nodes, `share` times as many as the graph has, [2, M]; some may exist already."""
    number, num_nodes = round(share * graph.num_edges), graph.num_nodes
    source = torch.randint(0, num_nodes, (number,), generator=generator)
    offset = torch.randint(1, max(num_nodes, 2), (number,), generator=generator)
    return torch.stack([source, (source + offset) % num_nodes]).to(graph.device)


def edge_unimportance(data: Data, centrality: str) -> Tensor:
    """GCA's relative drop rate of each edge, [E], mean 1: the less central its target node, the higher.

    Zhu et al., Graph Contrastive Learning with Adaptive Augmentation (2021).
    """
    central = pick(CENTRALITIES, centrality, "centrality")(data, EDGE_PAGERANK_STEPS).cpu()
    log_centrality = central.double().log()[data.edge_index[1].cpu()]
    return _relative_drop_rate(log_centrality).to(data.edge_index.device)


def feature_unimportance(data: Data, centrality: str) -> Tensor:
    """GCA's relative drop rate of each column, [F], mean 1: the less central nodes use it, the higher.

    Use is presence for sparse features (most entries 0), and magnitude for dense ones.
    """
    central, x = pick(CENTRALITIES, centrality, "centrality")(data, FEATURE_PAGERANK_STEPS).cpu(), data.x.cpu()
    present = x != 0
    use = present if present.float().mean() < 0.5 else x.abs()
    return _relative_drop_rate((use.T.double() @ central.double()).log()).to(data.edge_index.device)


def adaptive_rates(unimportance: Tensor, rate: float) -> Tensor:
    """Drop probabilities min(rate · unimportance, MAX_DROP_RATE): `rate` on average, but for the cap."""
    return (rate * unimportance).clamp_max(MAX_DROP_RATE)


def _relative_drop_rate(score: Tensor) -> Tensor:
    """(max-s)/(max-mean) of log scores, 1 if all are equal; log 0 counts as the lowest finite score."""
    finite = score[score.isfinite()]
    if not len(finite) or finite.max() - finite.mean() < 1e-6:
        return torch.ones_like(score).float()
    score = score.clamp_min(finite.min())
    return ((score.max() - score) / (score.max() - score.mean())).float()
