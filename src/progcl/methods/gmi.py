"""GMI: what an embedding tells of its node's features, of the neighbors' features, and of the edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from progcl.config.baselines import GmiOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.negatives import NonEdges
from progcl.graph.sparse import SparseMatrix, propagate
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method


class Gmi(Method):
    """Maximize the mutual information of embeddings H with features X, with neighbors' features, and with edges.

    J = α JSD(H, X) + β JSD(PReLU(Ā X W₁), H) + γ R

    JSD(A, B) = mean_i sp(-D(aᵢ, bᵢ)) + mean_{i, j ≠ i} sp(D(aᵢ, bⱼ)),   D(a, b) = σ(aᵀ Θ b + c),   sp(t) = log(1 + eᵗ)

    Ā is the mean over a node's neighbors, W₁ the first layer's weights, and j is drawn anew in each step. R is the
    authors' weighted cross entropy of A + I and σ(H Hᵀ), N x N numbers, of which ones and zeros are drawn instead:

    R = 2 mean_{(i,j): 1} sp(-hᵢᵀhⱼ) + (N² - 2e) / (N² - e) mean_{(i,j): 0} sp(hᵢᵀhⱼ),   e half the number of ones

    Peng, Huang, Luo, Zheng, Rong, Xu, Huang: Graph Representation Learning via Graphical Mutual Information
    Maximization (2020), with the mean over neighbors.
    """

    Options = GmiOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        graph, hidden = context.graph, context.config.encoder.hidden
        self.encoder = context.encoder()
        self.activation = nn.PReLU()
        self.feature_weight = self._bilinear(graph.num_features, hidden)
        self.neighbor_weight = self._bilinear(hidden, len(self._first_weight()))
        self.bias = nn.Parameter(torch.zeros(2))
        self.neighbor_mean = mean_over_neighbors(graph)
        loops = torch.arange(graph.num_nodes, device=graph.device).expand(2, -1)
        edges = context.data.edge_index
        self.ones = torch.cat([edges[:, edges[0] != edges[1]], loops], dim=1)
        self.zeros = NonEdges(edges, graph.num_nodes)

    def loss(self, batch: Batch) -> Tensor:
        """The three terms with their weights."""
        assert isinstance(batch, Graph), "edges of the whole graph are drawn from"
        view, options = View(batch), self.options
        h = self.encoder(self.half_hop(view))
        neighbors = self.activation(propagate(view.transform(self._first_weight().T), self.neighbor_mean))
        features = self.information(h, view.transform(self.feature_weight), self.bias[0])
        neighborhood = self.information(neighbors, h @ self.neighbor_weight, self.bias[1])
        loss: Tensor = options.features * features + options.neighbors * neighborhood
        loss += options.edges * self.reconstruction(h)
        return loss

    def information(self, anchors: Tensor, others: Tensor, bias: Tensor) -> Tensor:
        """JSD of rows [N, d] with rows Θb [N, d]: those of the same node against those of other nodes."""
        nodes = torch.arange(len(anchors), device=anchors.device)
        loss = softplus(-_discriminate(anchors, others, bias)).mean()
        for _ in range(self.options.negatives):
            shift = torch.randint(1, len(nodes), nodes.shape, generator=self.context.generator("negatives"))
            drawn = (nodes + shift.to(nodes.device)) % len(nodes)  # never the node itself
            loss = loss + softplus(_discriminate(anchors, others[drawn], bias)).mean() / self.options.negatives
        return loss

    def reconstruction(self, h: Tensor) -> Tensor:
        """R of embeddings h [N, d], from at most `pairs` ones and as many zeros."""
        generator, number = self.context.generator("pairs"), self.ones.size(1)
        ones = self.ones
        if number > self.options.pairs:
            ones = ones[:, torch.randint(number, (self.options.pairs,), generator=generator).to(ones.device)]
        zeros = self.zeros.sample(ones.size(1), generator)
        weight = (len(h) ** 2 - number) / (len(h) ** 2 - number / 2)
        return 2 * softplus(-_inner(h, ones)).mean() + weight * softplus(_inner(h, zeros)).mean()

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden]."""
        return graph.embed(self.encoder, self.context.progress)

    def release(self) -> None:
        """Drop the training graph and its edges."""
        super().release()
        del self.neighbor_mean, self.ones, self.zeros

    def _first_weight(self) -> Tensor:
        """Weights of the first layer for the neighbors' features [width, F]."""
        layer = self.encoder.layers[0]
        assert isinstance(layer, nn.Linear)
        return layer.weight[:, : self.feature_weight.size(0)]  # what follows in `sage` are those of the node itself

    def _bilinear(self, rows: int, columns: int) -> nn.Parameter:
        """Θ [rows, columns], with Glorot's initial values for a bilinear layer."""
        weight = nn.init.xavier_uniform_(torch.empty(1, rows, columns), generator=self.context.generator("init"))
        return nn.Parameter(weight[0])


def mean_over_neighbors(graph: Graph) -> SparseMatrix:
    """D⁻¹ A [N, N] without self-loops."""
    edges = graph.data.edge_index
    edges = edges[:, edges[0] != edges[1]]
    weight = torch.bincount(edges[1], minlength=graph.num_nodes).float().reciprocal()
    return View(graph.with_edges(edges, weight[edges[1]])).symmetric


def _discriminate(anchors: Tensor, others: Tensor, bias: Tensor) -> Tensor:
    """D [N]."""
    return ((anchors * others).sum(dim=1) + bias).sigmoid()


def _inner(h: Tensor, pairs: Tensor) -> Tensor:
    """Inner products [P] of pairs [2, P]."""
    return (h[pairs[0]] * h[pairs[1]]).sum(dim=1)
