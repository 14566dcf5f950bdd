"""A two-dimensional map of embeddings: positions, clusters and nearest neighbors of the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from progcl.clusters import CHUNK_ROWS, kmeans, reduce_rows

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_NODES = 20_000  # more dots hide each other; and so the page stays below 3 MB
MIN_TSNE_NODES = 10  # below this number there are no neighborhoods to preserve
LARGE_MAP = (
    2_500  # nodes above which MiniBatchKMeans and openTSNE are used; scikit-learn's t-SNE takes seconds up to here
)
PERPLEXITY = 30
TSNE_ITERATIONS = 250  # of each of the two phases of t-SNE
TSNE_DIMENSIONS = 50  # principal components that scikit-learn's t-SNE is given
STORED_NEIGHBORS = 8  # per node
EQUAL = 1e-9  # differences below this are rounding


@dataclass(frozen=True)
class Map:
    """A map of n of the N nodes; `neighbors` index into `nodes`.

    Attributes:
        nodes: indices of the nodes shown, ascending, [n]
        positions: coordinates, the longer side from 0 to 65535, [n, 2]
        method: `t-SNE` or `PCA`
        clusters: cluster of each node, 0 is the largest, [n]
        neighbors: nearest of the nodes shown, the nearest first, [n, k]
        cosines: cosine similarity to those neighbors, [n, k]
    """

    nodes: Indices
    positions: NDArray[np.uint16]
    method: str
    clusters: Indices
    neighbors: Indices
    cosines: Array


def make_map(
    embeddings: NDArray[np.float32],
    classes: int | None = None,
    seed: int = 0,
    max_nodes: int = MAX_NODES,
    quick: bool = False,
    clusters: Indices | None = None,
) -> Map:
    """Lay out embeddings [N, d], or a random sample of them; deterministic.

    Reductions whose order depends on the number of threads run on one thread, so that equal input gives an equal map.

    Args:
        embeddings: [N, d]
        classes: number of clusters; None for a number that suits the size
        seed: of the sample, k-means and t-SNE
        max_nodes: size of the sample
        quick: PCA instead of t-SNE
        clusters: of all nodes [N], if they are known; else those of the sample are found
    """
    nodes = np.arange(len(embeddings))
    if len(nodes) > max_nodes:
        nodes = np.sort(np.random.default_rng(seed).choice(len(nodes), max_nodes, replace=False))
    shown = cluster(embeddings[nodes], classes, seed) if clusters is None else clusters[nodes]
    rows = np.empty((len(nodes), embeddings.shape[1]))
    for start in range(0, len(nodes), CHUNK_ROWS):  # so that there is never a second copy
        chunk = slice(start, start + CHUNK_ROWS)
        rows[chunk] = normalize(embeddings[nodes[chunk]].astype(np.float64), copy=False)
    neighbors, cosines = find_neighbors(rows, 3 * PERPLEXITY)  # as many as t-SNE needs
    with threadpool_limits(1):
        positions, method = (project_pca(rows, 2), "PCA") if quick else layout_nodes(rows, neighbors, cosines, seed)
    stored = slice(STORED_NEIGHBORS)
    return Map(nodes, quantize(positions), method, shown, neighbors[:, stored], cosines[:, stored])


def find_neighbors(rows: Array, number: int) -> tuple[Indices, Array]:
    """The nearest other rows by cosine, and the cosines, [n, min(number, n - 1)] each; ties in the order of the rows.

    Args:
        rows: unit rows, or zeros, [n, d]
        number: of neighbors
    """
    number = min(number, len(rows) - 1)
    if number == 0:
        return np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0))
    # Unit rows: cos = 1 - distance² / 2. A column of its own makes rows of zeros orthogonal to all others.
    is_zero: NDArray[np.bool_] = ~np.any(rows, axis=1)
    directions = np.column_stack([rows, is_zero]) if is_zero.any() else rows
    distances, neighbors = NearestNeighbors(n_neighbors=number, algorithm="brute").fit(directions).kneighbors()
    cosines = (1 - distances**2 / 2).clip(-1, 1)
    cosines[is_zero[:, None] & is_zero[neighbors]] = 0
    order = np.lexsort((neighbors, -cosines.round(12)), axis=1)
    return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def cluster(vectors: NDArray[np.float32], number: int | None = None, seed: int = 0) -> Indices:
    """k-means clusters of vectors [n, d], numbered by size from the largest; by default 8, fewer for a tiny graph."""
    rows = reduce_rows(vectors, seed)
    with threadpool_limits(1):
        return kmeans(rows, number or min(8, max(1, round((len(rows) / 2) ** 0.5))), seed, LARGE_MAP)


def layout_nodes(rows: Array, neighbors: Indices, cosines: Array, seed: int = 0) -> tuple[Array, str]:
    """Project unit rows to [n, 2] by t-SNE, or by PCA if that would take more than half a minute; and which it was."""
    flat = project_pca(rows, 2)
    scale = flat[:, 0].std()
    if len(rows) < MIN_TSNE_NODES or scale < EQUAL:
        return flat, "PCA"
    noise = np.random.default_rng(seed).standard_normal(flat.shape)  # without it, points on a line would stay on it
    start = 1e-4 * (flat / scale + 0.01 * noise)
    if len(rows) <= LARGE_MAP:
        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        model = TSNE(init=start, perplexity=perplexity, max_iter=2 * TSNE_ITERATIONS, random_state=seed)
        return model.fit_transform(project_pca(rows, TSNE_DIMENSIONS)), "t-SNE"
    if (open_tsne := _import_open_tsne()) is None:
        return flat, "PCA"
    return _fit_open_tsne(open_tsne, start, neighbors, cosines, seed), "t-SNE"


def project_pca(rows: Array, number: int) -> Array:
    """Principal components [n, number] of rows [n, d]; zeros beyond min(n, d)."""
    projected = np.zeros((len(rows), number))
    if np.ptp(rows, axis=0).max() > EQUAL:  # without variance, scikit-learn's explained ratios are undefined
        components = min(number, *rows.shape)
        projected[:, :components] = PCA(components, svd_solver="covariance_eigh").fit_transform(rows)
    return projected


def quantize(positions: Array) -> NDArray[np.uint16]:
    """Coordinates as 16-bit integers on one scale for both axes, the longer side from 0 to 65535."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = float((high - low).max())
    unit = (positions - (low + high) / 2) / (span if span > EQUAL else np.inf) + 0.5
    quantized: NDArray[np.uint16] = (unit * 65535).round().astype(np.uint16)
    return quantized


def _import_open_tsne() -> Any:
    """The optional package openTSNE, which lays out tens of thousands of nodes in half a minute; None without it."""
    try:
        import openTSNE
        import openTSNE.nearest_neighbors
    except ImportError:
        return None
    return openTSNE


def _fit_open_tsne(package: Any, start: Array, neighbors: Indices, cosines: Array, seed: int) -> Array:
    """t-SNE [n, 2] from known neighbors; the distance of two unit rows follows from their cosine."""
    index = package.nearest_neighbors.PrecomputedNeighbors(neighbors, np.sqrt(2 - 2 * cosines))
    affinities = package.affinity.PerplexityBasedNN(perplexity=PERPLEXITY, knn_index=index, n_jobs=1)
    embedding = package.TSNEEmbedding(start, affinities, negative_gradient_method="fft", n_jobs=1, random_state=seed)
    embedding = embedding.optimize(TSNE_ITERATIONS, exaggeration=12, momentum=0.5)
    return np.asarray(embedding.optimize(TSNE_ITERATIONS, momentum=0.8))
