"""MVGRL: tell nodes from corrupted nodes by a summary of the other view, the views being a graph and its diffusion."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from progcl.config.methods import MvgrlOptions
from progcl.graph.diffusion import top_ppr_edges
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method


class Mvgrl(Method):
    """Deep Graph Infomax across two views, each with an encoder of its own: the graph, and its PageRank diffusion.

    J = -mean_i [log D(h_i, s') + log D(h'_i, s) + log(1 - D(h̃_i, s')) + log(1 - D(h̃'_i, s))] / 4,

    h and h' being the nodes of the graph and of its diffusion, h̃ and h̃' the same with permuted features, s = σ(mean_i
    h_i) and s' the summaries of the views, and D(h, s) = σ(hᵀ W s + b). Heads between encoder and discriminator, which
    the paper has, are left out, as its authors leave them out for nodes.

    The diffusion has the largest entries of every node. A step sums over `sample` nodes, drawn anew, with messages from
    all their neighbors; the authors draw four blocks of 2,000 consecutive nodes, without the edges between blocks.

    Hassani, Khasahmadi: Contrastive Multi-View Representation Learning on Graphs (2020).
    """

    Options = MvgrlOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        hidden, init = context.config.encoder.hidden, context.generator("init")
        self.encoder = context.encoder()
        self.diffusion_encoder = context.encoder()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden, hidden), generator=init)[0])
        self.bias = nn.Parameter(torch.zeros(()))
        self.diffused: Graph | None = self.diffuse(context.graph)

    def loss(self, batch: Batch) -> Tensor:
        """Binary cross entropy of nodes and corrupted nodes, by the summary of the other view."""
        assert isinstance(batch, Graph), "the diffusion is that of the whole graph"
        assert self.diffused is not None
        graphs = self.sample(batch, self.diffused)
        views = self.half_hop(View(graphs[0])), View(graphs[1])  # the diffusion has weights, and so no slow nodes
        permutation = batch.shuffled(self.context.generator("corruption")).permutation  # the same for both views
        encoders = self.encoder, self.diffusion_encoder
        h1, h2 = (encoder(view) for encoder, view in zip(encoders, views, strict=True))
        corrupted = (replace(view, permutation=permutation) for view in views)
        c1, c2 = (encoder(view) for encoder, view in zip(encoders, corrupted, strict=True))
        return cross_view_infomax(h1, h2, c1, c2, self.weight, self.bias)

    def sample(self, *graphs: Graph) -> tuple[Graph, ...]:
        """The graphs restricted to the nodes of a step, the same in all."""
        nodes = graphs[0].num_nodes
        if self.options.sample >= nodes:
            return graphs
        order = torch.randperm(nodes, generator=self.context.generator("sample"))
        seeds = order[: self.options.sample].sort().values
        return tuple(graph.restrict(seeds, shard=(0, 1)) for graph in graphs)

    def diffuse(self, graph: Graph) -> Graph:
        """The graph with the diffusion's edges in place of its own."""
        options = self.options
        return graph.with_edges(*top_ppr_edges(graph.data, options.teleport, options.strongest, self.context.progress))

    def embed(self, graph: GraphInput) -> Tensor:
        """Sum of both encoders' outputs [N, hidden]; the diffusion of another graph than that of training is made."""
        assert isinstance(graph, Graph), "the diffusion is that of the whole graph"
        diffused = self.diffused if graph is self.context.graph else self.diffuse(graph)
        assert diffused is not None
        embeddings: Tensor = self.encoder(View(graph)) + self.diffusion_encoder(View(diffused))
        return embeddings

    def release(self) -> None:
        """Drop the training graph and its diffusion."""
        super().release()
        self.diffused = None


def cross_view_infomax(h1: Tensor, h2: Tensor, c1: Tensor, c2: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Mean binary cross entropy of D(h, s) = σ(hᵀ W s + b), with s the summary of the view that h is not from.

    Args:
        h1: nodes of view 1, [n, d]
        h2: of view 2
        c1: corrupted nodes of view 1, [n, d]
        c2: of view 2
        weight: W, [d, d]
        bias: b, a number
    """
    losses = []
    for nodes, corrupted, other in ((h1, c1, h2), (h2, c2, h1)):
        direction = weight @ other.mean(dim=0).sigmoid()
        losses += [softplus(-(nodes @ direction + bias)).mean(), softplus(corrupted @ direction + bias).mean()]
    return torch.stack(losses).mean()
