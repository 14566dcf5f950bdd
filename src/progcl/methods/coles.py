"""COLES: a linear map of smoothed features that draws neighbors together and random pairs apart, by two traces."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.baselines import ColesOptions
from progcl.data.edges import sum_weights
from progcl.graph.hop_features import normalized_adjacency
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.sparse import SparseMatrix, propagate, scale_features
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method
from progcl.nn.heads import INITS


class Coles(Method):
    """Contrastive Laplacian eigenmaps of one linear layer on features that are smoothed once.

    J = (λ tr(Hᵀ A⁻ H) - tr(Hᵀ A⁺ H)) / N,   H = S W + b,   S = mean_{k ≤ K} Â^k X

    A⁺ is the adjacency D^-½ A D^-½ without self-loops, with the weights of edges if there are any, A⁻ that of a random
    graph, drawn anew in each step.

    Zhu, Sun, Koniusz: Contrastive Laplacian Eigenmaps (2021); S is that of Zhu, Koniusz: Simple Spectral Graph
    Convolution (2021).
    """

    Options = ColesOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        shape, graph = context.config.encoder, context.graph
        self.linear = INITS[shape.init](graph.num_features, shape.hidden, context.generator("init"))
        self.smoothed: Tensor | None = smooth(graph.data, self.options.hops)
        self.positive = loopless_adjacency(graph, context.data.edge_index, context.data.get("edge_weight"))

    def loss(self, batch: Batch) -> Tensor:
        """The two traces."""
        assert isinstance(batch, Graph), "both traces are those of the whole graph"
        negative = loopless_adjacency(batch, self.random_graph(batch.num_nodes).to(batch.device))
        h = self.linear(self.smoothed)
        loss: Tensor = self.options.negative_weight * trace(h, negative) - trace(h, self.positive)
        return loss / len(h)

    def random_graph(self, num_nodes: int) -> Tensor:
        """Edges in both directions between every node and `negatives` others, drawn uniformly."""
        source = torch.arange(num_nodes).repeat_interleave(self.options.negatives)
        target = torch.randint(num_nodes, source.shape, generator=self.context.generator("negatives"))
        return torch.cat([torch.stack([source, target]), torch.stack([target, source])], dim=1)

    def embed(self, graph: GraphInput) -> Tensor:
        """H [N, hidden]."""
        known = self.smoothed is not None and graph is self.context.graph
        h: Tensor = self.linear(self.smoothed if known else smooth(graph.data, self.options.hops))
        return h

    def release(self) -> None:
        """Drop the training graph with its smoothed features."""
        super().release()
        self.smoothed = None
        del self.positive


def smooth(data: Data, hops: int) -> Tensor:
    """mean_{k ≤ hops} Â^k X [N, F], with the normalized adjacency Â of the graph with self-loops."""
    x = scale_features(data).to(data.edge_index.device)
    adjacency = normalized_adjacency(data, len(x))
    total = x.clone()
    for _ in range(hops):
        x = propagate(x, adjacency)
        total += x
    return total.div_(hops + 1)


def loopless_adjacency(graph: Graph, edges: Tensor, weight: Tensor | None = None) -> SparseMatrix:
    """D^-½ A D^-½ [N, N] of symmetric edges [2, E], without self-loops; repeated edges count as often as they occur."""
    mask = edges[0] != edges[1]
    row, column = edges = edges[:, mask]
    if weight is None:
        scale = torch.bincount(row, minlength=graph.num_nodes).float().rsqrt()
        return View(graph.with_edges(edges, scale[row] * scale[column])).symmetric
    scale = sum_weights(row, weight[mask], graph.num_nodes).rsqrt()
    return View(graph.with_edges(edges, weight[mask] * (scale[row] * scale[column]))).symmetric


def trace(h: Tensor, adjacency: SparseMatrix) -> Tensor:
    """tr(Hᵀ A H), from one sparse product."""
    return (h * propagate(h, adjacency)).sum()
