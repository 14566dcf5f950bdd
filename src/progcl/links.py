"""Missing links of a graph: pairs of nodes that an embedding says should be linked, and how far to trust it.

The score of a pair is the cosine of its two vectors. `score_links` says how well it tells links that `hold_out_links`
kept from the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from progcl.config.schema import DataConfig
from progcl.data.datasets import FILE, OWN, load_data
from progcl.data.formats import read_graph
from progcl.data.holdout import hold_out_links
from progcl.data.walk_factors import node_names
from progcl.errors import InputError, in_range
from progcl.evaluation.links import LinkScore, score_links
from progcl.export import require_same_nodes
from progcl.neighbors import TILE_COLUMNS, TILE_ROWS, cosine_tiles, row_norms
from progcl.progress import bar

__all__ = ["LinkScore", "hold_out_links", "load_edges", "score_links", "score_pairs", "top_links"]

Indices = NDArray[np.int64]
Scores = NDArray[np.float64]
NO_PAIR = -2.0  # below any cosine


def load_edges(
    config: DataConfig, ids: list[str], root: str | Path | None = None, run: str | Path | None = None
) -> Tensor:
    """Edges [2, E] of the graph that a run was made of, held-out ones too, as rows of its embeddings.

    Args:
        config: section `data` of the run
        ids: names of its nodes
        root: where published data is looked up
        run: its folder

    Raises:
        InputError: if the graph is not there any more, or not as it was
    """
    if config.name == OWN:
        hint = "in Python: progcl.top_links(vectors, edges)"
        raise InputError("the run used a graph of your own, which has no file to know its edges from", hint)
    # A file is read as it is: to prepare it takes time and adds nothing here
    is_file, whole = config.name == FILE, replace(config, holdout=0.0)
    data = read_graph(**config.options()) if is_file else load_data(whole, root, run)
    require_same_nodes(ids, node_names(data))
    edges: Tensor = data.edge_index
    return edges


def score_pairs(vectors: NDArray[np.float32] | Tensor, pairs: Indices | Tensor) -> Scores:
    """Cosines [n] of pairs of nodes [2, n], from -1 to 1.

    Raises:
        InputError: if a pair names a node that does not exist
    """
    every, ends = torch.as_tensor(vectors), torch.as_tensor(pairs).long()
    if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < len(every):
        raise InputError("a pair names a node that does not exist", f"nodes are numbered from 0 to {len(every) - 1}")
    chunks = (every[chunk].double().unbind() for chunk in ends.split(TILE_COLUMNS, dim=1))
    cosines = [cosine_similarity(first, second, dim=1) for first, second in chunks]
    scores: Scores = torch.cat(cosines).clamp(-1, 1).numpy()
    return scores


def top_links(
    vectors: NDArray[np.float32] | Tensor, edges: Indices | Tensor, number: int = 100, progress: bool = False
) -> tuple[Indices, Scores]:
    """The pairs of nodes with the largest cosines that no edge joins, [2, n], and their scores [n], largest first.

    All pairs are compared, in tiles: exact, in memory linear in nodes and edges, and in time N² d / 2.

    Args:
        vectors: embeddings [N, d]
        edges: [2, E], in one direction or both
        number: of pairs; there are fewer where most nodes are linked
        progress: show a bar on stderr
    """
    in_range("number", number, 1)
    every = torch.as_tensor(vectors).float()
    norms, best, pairs = row_norms(every), torch.empty(0), torch.empty(2, 0, dtype=torch.int64)
    known = _sorted_pairs(torch.as_tensor(edges).long(), len(every))
    for start in bar(progress, iterable=range(0, len(every), TILE_ROWS), desc="pairs", unit="block"):
        rows = every[start : start + TILE_ROWS] / norms[start : start + TILE_ROWS, None]
        for first, tile in cosine_tiles(rows, norms, every, start):
            _exclude(tile, start, first, known, len(every))
            floor = float(best[-1]) if len(best) == number else NO_PAIR
            if float(tile.max()) > floor:
                values, position = tile.flatten().topk(min(number, tile.numel()))
                found = torch.stack([position // tile.size(1) + start, position % tile.size(1) + first])
                best, order = torch.cat([best, values]).topk(min(number, len(best) + len(values)))
                pairs = torch.cat([pairs, found], dim=1)[:, order]
    pairs = pairs[:, best > NO_PAIR]
    scores = score_pairs(every, pairs) if pairs.size(1) else np.empty(0)
    chosen: Indices = pairs.numpy()
    order_of_pairs = np.lexsort((chosen[1], chosen[0], -scores.round(9)))  # equal ones in order
    return chosen[:, order_of_pairs], scores[order_of_pairs]


def _sorted_pairs(edges: Tensor, nodes: int) -> Tensor:
    """Numbers i·N + j of the linked pairs i < j, ascending."""
    low, high = edges.min(dim=0).values, edges.max(dim=0).values
    numbers: Tensor = (low * nodes + high).unique()
    return numbers


def _exclude(tile: Tensor, start: int, first: int, known: Tensor, nodes: int) -> None:
    """Mark in place what is no pair i < j, or has an edge; the tile begins at row `start` and column `first`."""
    rows, columns = tile.shape
    if first < start + rows:
        tile.masked_fill_(torch.ones_like(tile, dtype=torch.bool).tril_(start - first), NO_PAIR)
    low, high = (int(torch.searchsorted(known, row * nodes)) for row in (start, start + rows))
    row, column = known[low:high] // nodes - start, known[low:high] % nodes - first
    inside = (column >= 0) & (column < columns)
    tile[row[inside], column[inside]] = NO_PAIR
