"""Tiles of the similarities between the 2N points of two views: layout, addresses, and a store of limited size.

A tile holds view a's nodes of one block against view b's nodes of another, and serves the rows and the columns as
anchors. The first pass sums what every anchor needs. The store keeps tiles for the second pass, which computes the
gradient; tiles that do not fit are recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from itertools import combinations_with_replacement
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

TILE_SIDE = 1024  # rows and columns of a tile, at most, unless the user sets the block size
SIDE_MULTIPLE = 16  # of which a tile's side is a multiple, for aligned rows


class Slot(IntEnum):
    """Places in the store for a pair of blocks (I, K).

    An anchor of the rows and one of the columns may weight the same similarity differently: a tile's copy weighted
    for its columns then has a slot of its own, COLUMN_COPY places further.
    """

    WITHIN_FIRST = 0  # first view, I against K
    WITHIN_SECOND = 1  # second view, I against K
    BETWEEN = 2  # I of the first view against K of the second
    BETWEEN_SWAPPED = 3  # K of the first view against I of the second
    WITHIN_FIRST_FOR_COLUMNS = 4
    WITHIN_SECOND_FOR_COLUMNS = 5
    BETWEEN_FOR_COLUMNS = 6
    BETWEEN_SWAPPED_FOR_COLUMNS = 7

    @property
    def for_columns(self) -> Slot:
        """The slot of the copy weighted for the columns."""
        return Slot(self + COLUMN_COPY)


COLUMN_COPY = Slot.WITHIN_FIRST_FOR_COLUMNS - Slot.WITHIN_FIRST


class Shard(NamedTuple):
    """The share of a loss that this process computes.

    Attributes:
        position: (rank, world size)
        all_reduce: sums tensors over all processes in place, so that every process gets the whole loss and gradient;
            None leaves those of the shard
    """

    position: tuple[int, int] = (0, 1)
    all_reduce: Callable[..., None] | None = None

    @property
    def is_unreduced_shard(self) -> bool:
        """Computes one shard without all-reduce."""
        return self.position != (0, 1) and self.all_reduce is None

    def reduce(self, *tensors: Tensor) -> None:
        """Sum tensors over all processes in place, if there is an all-reduce."""
        if self.all_reduce is not None:
            self.all_reduce(*tensors)


class Workspace:
    """Buffers that live from step to step, of at most `memory` bytes beside a few tiles.

    Attributes:
        key: identifies what the tensors in `frozen` were computed from
        lock: held while a loss uses the buffers
    """

    def __init__(self, memory: int, tile: int | None = None) -> None:
        self.memory = memory
        self.tile = tile or TILE_SIDE
        self.key: object = None
        self.lock = Lock()
        self.frozen: dict[tuple[Any, ...], Tensor] = {}
        self.buffers: dict[str, Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.memory, self.tile)  # a copy starts empty

    def get_buffer(self, name: str, size: int, like: Tensor) -> Tensor:
        """An uninitialized flat buffer of `size` elements, with the dtype and device of `like`."""
        buffer = self.buffers.get(name)
        if buffer is None or buffer.numel() != size or buffer.dtype != like.dtype or buffer.device != like.device:
            del buffer
            self.buffers.pop(name, None)  # free the old one before the new one is allocated
            with torch.inference_mode(False):  # a later step may need it for training
                buffer = self.buffers[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return buffer

    def drop_stale(self, key: object) -> None:
        """Drop the frozen tensors unless they belong to `key`; None belongs to nothing."""
        if key is None or key is not self.key:
            self.frozen.clear()
            self.key = key

    def clear(self) -> None:
        """Free all memory."""
        self.buffers.clear()
        self.frozen.clear()
        self.key = None


class Tile(NamedTuple):
    """Address of a tile: view a's `rows` against view b's `columns`."""

    pair: tuple[int, int]
    slot: Slot
    a: int
    rows: slice
    b: int
    columns: slice

    @property
    def shape(self) -> torch.Size:
        """Number of rows and columns."""
        return torch.Size((self.rows.stop - self.rows.start, self.columns.stop - self.columns.start))

    @property
    def has_own_nodes(self) -> bool:
        """Whether the diagonal pairs nodes with themselves, in one view or in both."""
        return self.pair[0] == self.pair[1]

    @property
    def is_symmetric(self) -> bool:
        """Whether rows and columns are the same anchors, so that every pair of them occurs twice."""
        return self.a == self.b and self.rows == self.columns


class Layout:
    """N nodes in equal blocks, and the offsets of the tiles of block pairs I ≤ K, or of a shard of them, in the store.

    Args:
        nodes: N
        tile: rows of a block, at most
        slots: tiles per pair of blocks
        swap_views: lay out BETWEEN_SWAPPED as I of the second view against K of the first, like the tiles of the same
            pair, instead of K of the first against I of the second, like BETWEEN
        position: (rank, world size)
    """

    def __init__(
        self, nodes: int, tile: int, slots: int, swap_views: bool = False, position: tuple[int, int] = (0, 1)
    ) -> None:
        number = math.ceil(nodes / tile)
        self.side = min(nodes, SIDE_MULTIPLE * math.ceil(nodes / number / SIDE_MULTIPLE))
        self.slots = slots
        self.swap_views = swap_views
        self.blocks = [slice(start, min(start + self.side, nodes)) for start in range(0, nodes, self.side)]
        rank, self.world_size = position
        self.pairs = list(combinations_with_replacement(range(len(self.blocks)), 2))[rank :: self.world_size]

    @property
    def pair_elements(self) -> int:
        """Elements of the store that the tiles of a pair of blocks take."""
        return self.slots * self.side**2

    def tiles(self, pair: tuple[int, int]) -> list[Tile]:
        """The tiles of a pair of blocks, in the order in which they are computed."""
        first, second = (self.blocks[number] for number in pair)
        tiles = [
            Tile(pair, Slot.BETWEEN, 0, first, 1, second),
            Tile(pair, Slot.WITHIN_FIRST, 0, first, 0, second),
            Tile(pair, Slot.WITHIN_SECOND, 1, first, 1, second),
        ]
        if first != second:
            swapped = (1, first, 0, second) if self.swap_views else (0, second, 1, first)
            tiles.insert(1, Tile(pair, Slot.BETWEEN_SWAPPED, *swapped))
        return tiles

    def offset(self, first: int, second: int, slot: int) -> int:
        """Offset of a tile of blocks first ≤ second in the flat store."""
        before = first * len(self.blocks) - first * (first - 1) // 2
        return ((before + second - first) // self.world_size * self.slots + slot) * self.side**2

    def node_offsets(self, block_offsets: list[int], stride: int, device: torch.device) -> Tensor:
        """For every node, the offset of its block plus `stride` times its position in the block, [N]."""
        offsets = [
            offset + stride * torch.arange(block.stop - block.start, device=device)
            for offset, block in zip(block_offsets, self.blocks, strict=True)
        ]
        return torch.cat(offsets)


class TileStore:
    """One step's tiles: the first pairs of blocks in a flat buffer, the others in scratch memory.

    Attributes:
        views: unit vectors of both views, [N, d] each
        stored: number of pairs of blocks in the buffer
        flat: the buffer
    """

    def __init__(
        self,
        views: tuple[Tensor, Tensor],
        tau: float,
        layout: Layout,
        workspace: Workspace,
        memory: int,
        all_or_none: bool = False,
    ) -> None:
        self.views = views
        self.tau = tau
        self.layout = layout
        self.workspace = workspace
        self.scaled = [z / tau for z in views]
        pair_bytes = layout.pair_elements * views[0].element_size()
        self.stored = max(0, min(len(layout.pairs), memory // pair_bytes))
        if all_or_none and not self.is_complete:
            self.stored = 0
        self.flat = workspace.get_buffer("store", self.stored * layout.pair_elements, views[0])

    @property
    def is_complete(self) -> bool:
        """Whether the buffer holds all tiles."""
        return self.stored == len(self.layout.pairs)

    def compute_similarities(self, tile: Tile) -> Tensor:
        """θ/τ of a tile, written to its place."""
        left, right = self.scaled[tile.a][tile.rows], self.views[tile.b][tile.columns]
        return torch.mm(left, right.T, out=self.get(tile, tile.slot))

    def get(self, tile: Tile, slot: Slot) -> Tensor:
        """Memory of the shape of `tile` at a slot of its pair of blocks: in the buffer, or scratch."""
        start = self.layout.offset(*tile.pair, slot)
        if start >= self.stored * self.layout.pair_elements:
            return self.scratch(slot.name, tile.shape)
        return self._crop(self.flat[start:], tile.shape)

    def scratch(self, name: str, shape: torch.Size) -> Tensor:
        """Memory for a tile, valid until the same name is used again."""
        return self._crop(self.workspace.get_buffer(name, self.layout.side**2, self.views[0]), shape)

    def _crop(self, flat: Tensor, shape: torch.Size) -> Tensor:
        side = self.layout.side
        return flat[: side**2].view(side, side)[: shape[0], : shape[1]]
