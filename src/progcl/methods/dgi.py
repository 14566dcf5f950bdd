"""Deep Graph Infomax: tell a graph's nodes from those of a corrupted graph by a summary of the former."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch_geometric.nn import DeepGraphInfomax

from progcl.config.methods import DgiOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method


class Dgi(Method):
    """Tell nodes from nodes with permuted features by a summary of the graph: PyG's `DeepGraphInfomax`.

    J = -mean_i log D(h_i, s) - mean_i log(1 - D(h̃_i, s)),   D(h, s) = σ(hᵀ W s),   s = σ(mean_i h_i)

    Veličković, Fedus, Hamilton, Liò, Bengio, Hjelm: Deep Graph Infomax (2019).
    """

    Options = DgiOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        hidden = context.config.encoder.hidden
        with torch.random.fork_rng(devices=[]):  # PyG's constructor draws from the global generator
            self.infomax = DeepGraphInfomax(hidden, nn.Identity(), _summarize, self._corrupt)
        self.infomax.encoder = context.encoder()
        bound = hidden**-0.5
        nn.init.uniform_(self.infomax.weight, -bound, bound, generator=context.generator("init"))

    def loss(self, batch: Batch) -> Tensor:
        """Binary cross entropy of nodes and corrupted nodes, as PyG has it."""
        assert isinstance(batch, Graph), "the summary is that of the whole graph"
        loss: Tensor = self.infomax.loss(*self.infomax(self.half_hop(View(batch))))
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden]."""
        return graph.embed(self.infomax.encoder, self.context.progress)

    def _corrupt(self, view: View) -> View:
        return replace(view, permutation=view.graph.shuffled(self.context.generator("corruption")).permutation)


def _summarize(embeddings: Tensor, *inputs: View) -> Tensor:
    return embeddings.mean(dim=0).sigmoid()
