"""Nearest neighbors of all nodes, in memory linear in their number: exact in tiles, or approximate by faiss."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from progcl.errors import InputError, in_range
from progcl.progress import bar

Indices = NDArray[np.int64]
Vectors = NDArray[np.float32]
Search = Literal["auto", "exact", "faiss"]

TILE_ROWS, TILE_COLUMNS = 512, 8192  # of similarities that are held at once
FAISS_NODES = 50_000  # from which on `auto` uses faiss, if it is installed
CELLS_PER_ROOT, PROBED_CELLS = 4, 64  # faiss: √N times so many cells, and how many of them are searched
SAMPLES_PER_CELL = 50  # that faiss finds the cells by
NO_FAISS = 'pip install "progcl[faiss]"'


def all_neighbors(
    vectors: Vectors, number: int = 10, search: Search = "auto", progress: bool = False
) -> tuple[Indices, Vectors]:
    """The nodes most similar to each node by cosine, the most similar first, and the cosines: [N, k] each.

    Args:
        vectors: embeddings [N, d]
        number: k, at most N - 1
        search: exact compares all nodes; faiss looks at a part of them, and misses a few; auto is faiss on more than
            50,000 nodes if it is installed
        progress: show a bar on stderr

    Raises:
        InputError: if `search` is faiss, and it is not installed
    """
    blocks = list(neighbor_blocks(vectors, number, search, progress))
    return np.concatenate([nodes for _, nodes, _ in blocks]), np.concatenate([cosines for _, _, cosines in blocks])


def neighbor_blocks(
    vectors: Vectors, number: int = 10, search: Search = "auto", progress: bool = False
) -> Iterator[tuple[Indices, Indices, Vectors]]:
    """The same in blocks of rows: nodes [b], their neighbors [b, k], cosines [b, k]."""
    in_range("number", number, 1)
    number = min(number, len(vectors) - 1)
    find = _search_faiss if uses_faiss(len(vectors), search) else _search_tiles
    with bar(progress, desc="neighbors", total=len(vectors), unit="node") as shown:
        for start, cosines, neighbors in find(vectors, number):
            nodes = np.arange(start, start + len(neighbors))
            yield nodes, neighbors, cosines
            shown.update(len(nodes))


def uses_faiss(nodes: int, search: Search) -> bool:
    """Whether faiss is used for so many nodes; raise `InputError` if it is asked for and not there."""
    if search == "faiss":
        import_faiss()
    return search == "faiss" or (search == "auto" and nodes > FAISS_NODES and find_spec("faiss") is not None)


def import_faiss() -> Any:
    """The optional package faiss; raise `InputError` without it."""
    try:
        import faiss
    except ImportError:
        raise InputError("faiss is not installed", NO_FAISS) from None
    return faiss


def cosine_tiles(rows: Tensor, norms: Tensor, vectors: Tensor, first: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Cosines of rows [b, d] to all vectors [N, d] from the first on, as tiles [b, c] with the column each begins at.

    Args:
        rows: some of the vectors, divided by their norms
        norms: of all vectors [N], not 0
        vectors: [N, d]
        first: column to begin at
    """
    for start in range(first, len(vectors), TILE_COLUMNS):
        columns = slice(start, start + TILE_COLUMNS)
        yield start, (rows @ vectors[columns].T).div_(norms[columns])


def row_norms(vectors: Tensor) -> Tensor:
    """Norms [N]; 1 for rows of zeros, whose cosines are 0."""
    norms = vectors.norm(dim=1)
    return torch.where(norms > 0, norms, 1.0)


def _search_tiles(vectors: Vectors, number: int) -> Iterator[tuple[int, Vectors, Indices]]:
    """Blocks of rows: where they begin, cosines [b, k] and neighbors [b, k]."""
    every = torch.as_tensor(vectors).float()
    norms = row_norms(every)
    for start in range(0, len(every), TILE_ROWS):
        rows = every[start : start + TILE_ROWS] / norms[start : start + TILE_ROWS, None]
        best, nodes = torch.empty(len(rows), 0), torch.empty(len(rows), 0, dtype=torch.int64)
        for first, tile in cosine_tiles(rows, norms, every):
            own = torch.arange(len(rows)) + start - first
            inside = (own >= 0) & (own < tile.size(1))
            tile[inside.nonzero().squeeze(1), own[inside]] = -2.0
            values, columns = tile.topk(min(number, tile.size(1)), dim=1)
            best, nodes = torch.cat([best, values], dim=1), torch.cat([nodes, columns + first], dim=1)
            best, order = best.topk(min(number, best.size(1)), dim=1)
            nodes = nodes.gather(1, order)
        yield start, best.clamp(-1, 1).numpy(), nodes.numpy()


def _search_faiss(vectors: Vectors, number: int) -> Iterator[tuple[int, Vectors, Indices]]:
    """The same by an inverted file: nodes of the cells nearest to a node are compared with it.

    Johnson, Douze, Jégou: Billion-scale similarity search with GPUs (2017).
    """
    faiss = import_faiss()
    unit = normalize(torch.as_tensor(vectors).float(), dim=1).numpy()
    cells = max(1, min(int(CELLS_PER_ROOT * len(unit) ** 0.5), len(unit) // SAMPLES_PER_CELL))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(unit.shape[1]), unit.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = SAMPLES_PER_CELL
    index.train(unit)
    index.add(unit)
    index.nprobe = PROBED_CELLS
    for start in range(0, len(unit), TILE_COLUMNS):
        cosines, nodes = index.search(unit[start : start + TILE_COLUMNS], number + 1)
        yield start, *_drop_self(cosines, nodes, start)


def _drop_self(cosines: Vectors, nodes: Indices, start: int) -> tuple[Vectors, Indices]:
    """Without the node itself, or, where equal ones have pushed it out, without the last; [b, k + 1] to [b, k]."""
    is_self = nodes == np.arange(start, start + len(nodes))[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    shape = (len(nodes), nodes.shape[1] - 1)
    return cosines[~is_self].reshape(shape).clip(-1, 1), nodes[~is_self].reshape(shape)
