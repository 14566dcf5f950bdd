"""A flat map of embeddings: where each node is drawn, the cluster it is in, and which nodes are nearest to it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]


Indices = NDArray[np.int64]


SHOWN = 20_000  # nodes; more dots hide each other, and the page stays below 3 MB
FEW, SOME = 10, 2_500  # below FEW there are no neighborhoods; up to SOME, scikit-learn's t-SNE takes some seconds
PERPLEXITY = 30
STEPS = 250  # of each of the two phases of t-SNE
NEAREST = 8  # neighbors that are kept of each node
ROWS = 512  # that are compared with all others together
SAME = 1e-9  # rows that differ by no more than rounding


@dataclass(frozen=True)
class Map:
    """What is shown of N nodes; `near` holds places in `nodes`, the nearest first.

    Attributes:
        nodes: the nodes shown, in their order, [n]
        spots: where they are, the longer side from 0 to 65535, [n, 2]
        method: t-SNE or PCA
        clusters: numbered by size, 0 is the largest, [n]
        near: the nearest of the nodes shown, [n, k]
        cosines: with those, [n, k]
    """

    nodes: Indices
    spots: NDArray[np.uint16]
    method: str
    clusters: Indices
    near: Indices
    cosines: Array


def make_map(
    embeddings: NDArray[np.float32], classes: int | None = None, seed: int = 0, shown: int = SHOWN, quick: bool = False
) -> Map:
    """Lay out embeddings [N, d], or a random sample of them; as many clusters as there are classes, if that is known.

    A `quick` one is laid out by PCA. The same input gives the same map, which is why what adds up in no fixed order
    runs on one thread.
    """
    nodes = np.arange(len(embeddings))
    if len(nodes) > shown:
        nodes = np.sort(np.random.default_rng(seed).choice(len(nodes), shown, replace=False))
    rows = unit_rows(embeddings[nodes])
    near, cosines = neighbors(rows, 3 * PERPLEXITY)  # t-SNE looks at that many
    with threadpool_limits(1):
        clusters = cluster(rows, classes, seed)
        spots, method = (principal(rows, 2), "PCA") if quick else layout(rows, near, cosines, seed)
    return Map(nodes, to_uint16(spots), method, clusters, near[:, :NEAREST], cosines[:, :NEAREST])


def unit_rows(embeddings: NDArray[np.float32]) -> Array:
    """Rows of length 1; those of zeros stay."""
    rows = embeddings.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Array = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return unit


def neighbors(rows: Array, number: int) -> tuple[Indices, Array]:
    """The nearest other rows by cosine, and the cosines, [n, min(number, n - 1)] each; of equal ones the first.

    Candidates are found in single precision and put in order in double: a third of the time.
    """
    number = min(number, len(rows) - 1)
    single = torch.from_numpy(rows).float()
    near = np.empty((len(rows), number), np.int64)
    cosines = np.empty((len(rows), number))
    for start in range(0, len(rows), ROWS):
        own = np.arange(start, min(start + ROWS, len(rows)))
        rough = single[own] @ single.T
        rough[np.arange(len(own)), own] = -torch.inf
        found = np.sort(rough.topk(number, dim=1).indices.numpy(), axis=1)
        exact = np.einsum("nd,nkd->nk", rows[own], rows[found])
        order = np.argsort(-exact, axis=1, kind="stable")
        near[own] = np.take_along_axis(found, order, axis=1)
        cosines[own] = np.take_along_axis(exact, order, axis=1)
    return near, cosines.clip(-1, 1)


def cluster(rows: Array, number: int | None = None, seed: int = 0) -> Indices:
    """k-means of rows [n, d]; clusters are numbered from the largest on. 8 of them, fewer in a tiny graph."""
    number = number or min(8, max(1, round((len(rows) / 2) ** 0.5)))
    number = min(number, len(np.unique(rows.round(9), axis=0)))
    if len(rows) > SOME:
        model = MiniBatchKMeans(number, batch_size=2048, n_init=3, random_state=seed)
    else:
        model = KMeans(number, n_init=4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: then fewer it is
        found = model.fit_predict(rows)
    _, place, sizes = np.unique(found, return_inverse=True, return_counts=True)
    by_size = np.argsort(-sizes, kind="stable")
    return np.argsort(by_size)[place]


def layout(rows: Array, near: Indices, cosines: Array, seed: int = 0) -> tuple[Array, str]:
    """Places [n, 2] of unit rows by t-SNE, if that takes half a minute at most, else by PCA; and which it was."""
    flat = principal(rows, 2)
    if len(rows) < FEW or flat[:, 0].std() < SAME:
        return flat, "PCA"
    rng = np.random.default_rng(seed)
    start = 1e-4 * (flat / flat[:, 0].std() + 0.01 * rng.standard_normal(flat.shape))  # or a line would stay one
    if len(rows) <= SOME:
        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        model = TSNE(init=start, perplexity=perplexity, max_iter=2 * STEPS, random_state=seed)
        return model.fit_transform(principal(rows, 50)), "t-SNE"
    if (open_tsne := _open_tsne()) is None:
        return flat, "PCA"
    return _large_tsne(open_tsne, start, near, cosines, seed), "t-SNE"


def principal(rows: Array, number: int) -> Array:
    """The coordinates [n, number] along which rows differ most; zeros where there are fewer."""
    centered = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)
    kept = directions[:, ::-1][:, :number]
    largest = np.abs(kept).argmax(axis=0)
    kept = kept * np.where(kept[largest, np.arange(kept.shape[1])] < 0, -1.0, 1.0)  # a sign is free: always the same
    return np.pad(centered @ kept, ((0, 0), (0, number - kept.shape[1])))


def to_uint16(spots: Array) -> NDArray[np.uint16]:
    """Places on one scale for both sides, the longer side from 0 to 65535."""
    low, high = spots.min(axis=0), spots.max(axis=0)
    span = float((high - low).max())
    inside = (spots - (low + high) / 2) / (span if span > SAME else np.inf) + 0.5
    numbers: NDArray[np.uint16] = (inside * 65535).round().astype(np.uint16)
    return numbers


def _open_tsne() -> Any:
    """The optional package that lays out ten thousands of nodes in the time scikit-learn needs for thousands."""
    try:
        import openTSNE
        import openTSNE.nearest_neighbors
    except ImportError:
        return None
    return openTSNE


def _large_tsne(package: Any, start: Array, near: Indices, cosines: Array, seed: int) -> Array:
    """t-SNE from neighbors that are known already: distances of unit rows follow from their cosines."""
    distances = np.sqrt(2 - 2 * cosines)
    index = package.nearest_neighbors.PrecomputedNeighbors(near, distances)
    affinities = package.affinity.PerplexityBasedNN(perplexity=PERPLEXITY, knn_index=index, n_jobs=1)
    spots = package.TSNEEmbedding(start, affinities, negative_gradient_method="fft", n_jobs=1, random_state=seed)
    spots = spots.optimize(STEPS, exaggeration=12, momentum=0.5)
    return np.asarray(spots.optimize(STEPS, momentum=0.8))
