"""Embeddings without any training: what a learned one has to beat."""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.methods import (
    HopsOptions,
    PropagatedOptions,
    RandomInitOptions,
    RawOptions,
    SpectralOptions,
    WalkVectorsOptions,
)
from progcl.data.structure import spectral_vectors, walk_vectors
from progcl.graph.hop_features import HopFeatures
from progcl.graph.loader import GraphInput
from progcl.graph.sparse import propagate, scale_features
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method


class Raw(Method):
    """The features as they are."""

    Options = RawOptions
    trained = False

    def embed(self, graph: GraphInput) -> Tensor:
        """X [N, F]."""
        return raw(graph.data)


class Propagated(Method):
    """Message passing over reduced features: Â^k · SVD(X).

    Wu, Souza, Zhang, Fifty, Yu, Weinberger: Simplifying Graph Convolutional Networks (2019), without its classifier.
    """

    Options = PropagatedOptions
    trained = False

    def embed(self, graph: GraphInput) -> Tensor:
        """Â^k · SVD(X) [N, rank]."""
        return propagated(graph.data, self.options.rank, self.options.hops)


class Hops(Method):
    """Features of several hops side by side, reduced by a PCA; section `hops` has the options.

    Frasca, Rossi, Eynard, Chamberlain, Bronstein, Monti: SIGN: Scalable Inception Graph Neural Networks (2020), without
    its classifier.
    """

    Options = HopsOptions
    trained = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.features = HopFeatures.fit(context.data, context.config.hops)

    def embed(self, graph: GraphInput) -> Tensor:
        """The principal components of [F, ÂF, Â²F, ...], [N, dim]."""
        return self.features.transform(graph.data)


class Spectral(Method):
    """Leading eigenvectors of random walks on the graph, without features.

    Qiu, Dong, Ma, Li, Wang, Tang: Network Embedding as Matrix Factorization (2018), without its logarithm.
    """

    Options = SpectralOptions
    trained = False

    def embed(self, graph: GraphInput) -> Tensor:
        """Eigenvectors scaled by their eigenvalues, with unit rows, [N, dim]."""
        return _embed_edges(spectral_vectors, graph, self.options.dim)


class WalkVectors(Method):
    """DeepWalk's matrix, counted on few random walks and factorized, without features and without training.

    Qiu, Dong, Ma, Li, Wang, Wang, Tang: NetSMF: Large-Scale Network Embedding as Sparse Matrix Factorization (2019),
    with walks in place of its sampled paths.
    """

    Options = WalkVectorsOptions
    trained = False

    def embed(self, graph: GraphInput) -> Tensor:
        """Left singular vectors scaled by their singular values, with unit rows, [N, dim]."""
        return _embed_edges(walk_vectors, graph, self.options.dim)


class RandomInit(Method):
    """The encoder as it is before training."""

    Options = RandomInitOptions
    trained = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden]."""
        return graph.embed(self.encoder, self.context.progress)


def _embed_edges(compute: Callable[..., Tensor], graph: GraphInput, dimensions: int) -> Tensor:
    """Vectors of nodes from edges and their weights, on the device of the edges."""
    edges, weight = graph.data.edge_index, graph.data.get("edge_weight")
    vectors = compute(edges.cpu(), graph.num_nodes, dimensions, weight=None if weight is None else weight.cpu())
    return vectors.to(edges.device)


def raw(data: Data) -> Tensor:
    """The features as they are."""
    return scale_features(data)


def propagated(data: Data, rank: int = 256, hops: int = 2) -> Tensor:
    """Â^hops · SVD_rank(X): message passing over reduced features."""
    x = scale_features(data)
    if x.size(1) > rank:
        u, s, _ = randomized_svd(x.cpu().numpy(), rank, random_state=0)
        x = torch.from_numpy(u * s).float().to(x.device)
    adjacency = View(Graph(data)).symmetric
    for _ in range(hops):
        x = propagate(x, adjacency)
    return x
