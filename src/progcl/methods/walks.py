"""DeepWalk and node2vec: vectors of nodes that are near each other on random walks, without an encoder."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, normalize, softplus
from torch.optim import Optimizer, SparseAdam

from progcl.config.walks import DeepWalkFeaturesOptions, DeepWalkOptions, Node2VecOptions
from progcl.errors import InputError
from progcl.graph.hop_features import project, svd_directions
from progcl.graph.loader import GraphInput
from progcl.graph.walks import RandomWalker, WalkBatch, WalkLoader
from progcl.methods.base import Context, Method
from progcl.seeding import derive_seed

NOISE_PER_WALK = 64  # drawn nodes, which all nodes of a walk share: their similarities are one matrix product
NODES_PER_STEP = 8192  # at most, counted along the walks
MIN_STEPS = 32  # of an epoch, so that small graphs are trained as well


class DeepWalk(Method):
    """Skip-gram with negative sampling on random walks: every node predicts those near it on a walk.

    J = Σ_ij c_ij [-log σ(u_i·v_j) - k mean_n log σ(-u_i·v_n)] / Σ_ij c_ij, over places i ≠ j of a walk up to w apart.
    u are the embeddings, v other vectors of the same nodes, n noise in proportion to degree^(3/4), shared by a walk.
    In a weighted graph, steps follow the weights, and the sum of a node's weights takes the place of its degree.
    c_ij = (w + 1 - d_ij) / w, with distance d_ij, is the probability that a window, drawn from 1 to w, reaches from i
    to j.

    An epoch is one walk from every node. The learning rate falls to 0 linearly. There is no weight decay.

    Perozzi, Al-Rfou, Skiena: DeepWalk: Online Learning of Social Representations (2014), with the loss of Mikolov,
    Sutskever, Chen, Corrado, Dean: Distributed Representations of Words and Phrases and their Compositionality (2013)
    in place of its hierarchical softmax.
    """

    Options: type[DeepWalkOptions] = DeepWalkOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        nodes, hidden = int(context.data.num_nodes), context.config.encoder.hidden
        uniform = torch.rand(nodes, hidden, generator=context.generator("init"))
        self.vectors = nn.Parameter((uniform - 0.5) / hidden)
        self.context_vectors = nn.Parameter(torch.zeros(nodes, hidden))
        options, batch = self.options, context.config.batch
        size = batch.size or max(1, min(NODES_PER_STEP // options.walk_length, nodes // MIN_STEPS))
        self.loader = WalkLoader(self.walker(), options.walk_length, NOISE_PER_WALK, size, batch.steps)
        self.register_buffer("pair_weight", window_weights(options.walk_length, options.window), persistent=False)
        self.pair_weight: Tensor

    def walker(self) -> RandomWalker:
        """Walks of first order."""
        data = self.context.data
        weight = data.get("edge_weight")
        return RandomWalker(data.edge_index, int(data.num_nodes), seed=self.walk_seed, edge_weight=weight)

    @property
    def walk_seed(self) -> int:
        """Of all walks of the run."""
        return derive_seed(self.context.config.train.seed, "walks")

    def optimizer(self) -> Optimizer:
        """Adam of the rows that a step reads."""
        optimizer = SparseAdam(self.trained_parameters(), self.context.config.train.lr)
        for parameter in self.trained_parameters():  # its own initial state counts steps in an int: no checkpoint can
            moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[parameter] = {"step": torch.tensor(0.0), **moments}
        return optimizer

    def lr_factor(self, progress: float) -> float:
        """Linear decay to 0."""
        return 1 - progress

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        return self.loader.steps

    def batches(self, epoch: int) -> Iterator[WalkBatch]:  # type: ignore[override]
        """Walks, in place of the loader's batches."""
        return self.loader.batches(epoch)

    def loss(self, batch: WalkBatch) -> Tensor:  # type: ignore[override]
        """Skip-gram with negative sampling."""
        length = batch.walks.size(1)
        u = _select_rows(self.vectors, batch.walks)
        v = _select_rows(self.context_vectors, torch.cat([batch.walks, batch.noise], dim=1))
        return skip_gram(u, v[:, :length], v[:, length:], self.pair_weight, self.options.negatives)

    def embed(self, graph: GraphInput) -> Tensor:
        """The vectors u [N, hidden]; raises `InputError` for a graph of another size."""
        if graph.num_nodes != len(self.vectors):
            raise InputError(f"{len(self.vectors)} vectors do not belong to a graph of {graph.num_nodes} nodes")
        return self.vectors


class Node2Vec(DeepWalk):
    """DeepWalk with walks of second order, which stay near their start or leave it, by p and q.

    Grover, Leskovec: node2vec: Scalable Feature Learning for Networks (2016).
    """

    Options = Node2VecOptions

    def walker(self) -> RandomWalker:
        """Walks of second order."""
        data, options = self.context.data, self.options
        weight = data.get("edge_weight")
        return RandomWalker(data.edge_index, int(data.num_nodes), options.p, options.q, self.walk_seed, weight)


class DeepWalkFeatures(DeepWalk):
    """DeepWalk's vectors beside the features, each with unit rows.

    The baseline "DeepWalk + features" of Veličković, Fedus, Hamilton, Liò, Bengio, Hjelm: Deep Graph Infomax (2019).
    """

    Options = DeepWalkFeaturesOptions

    def embed(self, graph: GraphInput) -> Tensor:
        """[u ; features] [N, hidden + F], features wider than `encoder.rank` being reduced to that by an SVD."""
        x, vectors = self.context.data.x, super().embed(graph)
        features = project(x, svd_directions(x, self.context.config.encoder.rank)).to(vectors.device)
        return torch.cat([normalize(vectors, dim=1), normalize(features, dim=1)], dim=1)


def skip_gram(u: Tensor, v: Tensor, noise: Tensor, weight: Tensor, negatives: float) -> Tensor:
    """Weighted mean of -log σ(u_i·v_j) - k mean_n log σ(-u_i·v_n) over pairs of places in the same walk.

    Args:
        u: [walks, length, d]
        v: [walks, length, d]
        noise: vectors v of noise, [walks, m, d]
        weight: of pairs of places, [length, length]
        negatives: k
    """
    positive = softplus(-(u @ v.mT)).mul(weight).sum()
    negative = softplus(u @ noise.mT).mean(dim=2).mul(weight.sum(dim=1)).sum()
    return (positive + negatives * negative) / (weight.sum() * len(u))


def window_weights(length: int, window: int) -> Tensor:
    """(window + 1 - distance) / window for two places of a walk up to `window` apart, else 0, [length, length]."""
    place = torch.arange(length)
    distance = (place[:, None] - place).abs()
    weight = (window + 1 - distance).clamp_min(0) / window
    return weight.fill_diagonal_(0)


def _select_rows(table: Tensor, nodes: Tensor) -> Tensor:
    """Rows [..., d] of a table, whose gradient is sparse and names every row once."""
    rows, position = nodes.unique(return_inverse=True)
    return embedding(rows, table, sparse=True)[position]
