"""Clusters of embeddings: k-means, with a number of clusters that is given or chosen by silhouette."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from progcl.errors import InputError, count_noun

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LARGE = 10_000  # rows from which on k-means sees batches
SAMPLE = 2_000  # rows that silhouettes are computed from, and that the number of clusters is chosen by
COMPONENTS = 64  # principal components that are clustered: as good as all, and an order of magnitude faster
GRID = (*range(2, 11), 12, 15, 20, 25, 30, 40)  # numbers of clusters that `auto` tries
CHUNK_ROWS = 2**12


@dataclass(frozen=True)
class Clusters:
    """Clusters of N nodes.

    Attributes:
        of: cluster of each node, 0 is the largest, [N]
        silhouette: mean over a sample of nodes, from -1 to 1, by Euclidean distance of unit vectors; None for 1 cluster
        tried: silhouettes that the number was chosen by, of reduced vectors; empty if it was given
    """

    of: Indices
    silhouette: float | None
    tried: dict[int, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.of.max()) + 1

    def __str__(self) -> str:
        chosen = " at the first peak of the silhouette" if self.tried else ""
        quality = "" if self.silhouette is None else f", silhouette {self.silhouette:.3f}"
        return f"{count_noun(self.count, 'cluster')} by k-means{chosen}{quality}"


def find_clusters(vectors: NDArray[np.float32], number: int | Literal["auto"] = "auto", seed: int = 0) -> Clusters:
    """Cluster embeddings [N, d], scaled to unit rows, by k-means.

    For `auto`, numbers from 2 to 40 are tried on a sample, and the first peak of the silhouette is taken. (Beyond it,
    the silhouette of embeddings often rises again, while clusters break into small tight groups.)

    Args:
        vectors: embeddings
        number: of clusters, or auto
        seed: of the sample and of k-means

    Raises:
        InputError: if there are fewer nodes than clusters
    """
    check_clusters(number, len(vectors))
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.choice(len(vectors), min(SAMPLE, len(vectors)), replace=False))
    rows = reduce_rows(vectors, seed)
    with threadpool_limits(1):  # the same clusters for any number of threads
        tried = _silhouettes(rows[sample], seed) if number == "auto" else {}
        found = kmeans(rows, first_peak(tried) if number == "auto" else number, seed)
    quality = _silhouette(normalize(vectors[sample].astype(np.float64)), found[sample])
    return Clusters(found, quality, tried)


def check_clusters(number: int | str | None, nodes: int) -> None:
    """Raise `InputError` if so many nodes cannot form so many clusters."""
    if isinstance(number, int) and not 1 <= number <= nodes:
        raise InputError(f"{nodes:,} nodes cannot form {number:,} clusters", "a smaller number, or auto")


def kmeans(rows: Array, number: int, seed: int = 0, large: int = LARGE) -> Indices:
    """k-means clusters of rows [n, d], numbered by size from the largest; in batches for more rows than `large`.

    There are fewer clusters than asked for if there are fewer different rows.
    """
    number = count_distinct(rows, number)
    if len(rows) > large:
        model = MiniBatchKMeans(number, batch_size=2048, n_init=3, random_state=seed)
    else:
        model = KMeans(number, n_init=4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: some stay empty
        assigned = model.fit_predict(rows)
    _, index, sizes = np.unique(assigned, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    return rank[index]


def count_distinct(rows: Array, most: int) -> int:
    """Number of different rows [n, d], to nine digits, up to `most`; it is most often reached after a few rows."""
    seen = set[bytes]()
    for row in rows:
        seen.add((row.round(9) + 0.0).tobytes())  # -0 becomes 0
        if len(seen) >= most:
            break
    return len(seen)


def first_peak(tried: dict[int, float]) -> int:
    """The smallest number of clusters whose silhouette exceeds that of the next; 1 if there is none to choose from."""
    numbers = sorted(tried)
    falls = (one for one, other in pairwise(numbers) if tried[one] > tried[other])
    return next(falls, numbers[-1] if numbers else 1)


def _silhouettes(rows: Array, seed: int) -> dict[int, float]:
    """Silhouettes of the numbers of clusters that so many rows allow, up to the first peak and one beyond it."""
    tried: dict[int, float] = {}
    for number in (each for each in GRID if each < len(rows)):
        quality = _silhouette(rows, kmeans(rows, number, seed))
        if quality is None:
            break
        tried[number] = round(quality, 4)
        if first_peak(tried) != number:
            break
    return tried


def _silhouette(rows: Array, found: Indices) -> float | None:
    """Mean silhouette; None if there is one cluster, or one for every row."""
    return float(silhouette_score(rows, found)) if 1 < len(np.unique(found)) < len(rows) else None


def reduce_rows(vectors: NDArray[np.float32], seed: int) -> Array:
    """Unit rows, reduced to principal components that are fitted to at most 10,000 of them."""
    few = np.random.default_rng(seed).permutation(len(vectors))[:LARGE]
    rows = normalize(vectors[few].astype(np.float64), copy=False)
    if min(rows.shape) <= COMPONENTS:
        unit: Array = normalize(vectors.astype(np.float64))
        return unit
    if np.ptp(rows, axis=0).max() < 1e-9:  # without variance, scikit-learn's explained ratios are undefined
        return np.zeros((len(vectors), 1))
    with threadpool_limits(1):
        pca = PCA(COMPONENTS, svd_solver="covariance_eigh").fit(rows)
        chunks = (vectors[start : start + CHUNK_ROWS] for start in range(0, len(vectors), CHUNK_ROWS))
        return np.concatenate([pca.transform(normalize(chunk.astype(np.float64), copy=False)) for chunk in chunks])
