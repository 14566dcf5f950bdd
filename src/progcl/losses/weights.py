"""Weighted tiles: how plain InfoNCE, a frozen posterior and a ring weight the negatives of a pair of blocks.

ProGCL's weight of anchor i for node k, in either view, is Q_ik/m_i for the first view's anchors and Q_ki/m'_i for
the second's, with Q_ik = p_ik s_ik from inter-view similarities and m, m' the means of Q's rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from progcl.losses.tiles import Layout, Shard, Slot, Tile, TileStore, Workspace
from progcl.miners.base import Plan
from progcl.miners.ring import ring_limits

MIN_ROUNDED_NODES = 2**12  # for the errors of 16 bits to average out below those of single precision
FIXED_POINT_ONE = 2**16 - 1  # a probability of 1 in 16 bits


class WeightedTile(NamedTuple):
    """w e of a tile, weighted for the rows as anchors and for the columns as anchors; often the same tensor."""

    tile: Tile
    for_rows: Tensor
    for_columns: Tensor


class PlainWeights:
    """Plain InfoNCE: w = 1, one tile for rows and columns. Base of the other strategies.

    Attributes:
        slots: tiles per pair of blocks
        swap_views: see `Layout`
        has_norms: whether weights are yet to be divided by a mean over the anchor's negatives
    """

    slots: int = Slot.BETWEEN_SWAPPED + 1
    swap_views: bool = False
    has_norms: bool = False

    def __init__(
        self, views: tuple[Tensor, Tensor], tau: float, plan: Plan, workspace: Workspace, shard: Shard
    ) -> None:
        self.plan = plan
        self.workspace = workspace
        self.shard = shard
        workspace.drop_stale(plan.key)
        layout = Layout(len(views[0]), workspace.tile, self.slots, self.swap_views, shard.position)
        memory = workspace.memory - self.reserve(views[0], layout) - plan.mixing_bytes(views[0])
        self.store = TileStore(views, tau, layout, workspace, memory, all_or_none=bool(plan.candidates))

    def reserve(self, like: Tensor, layout: Layout) -> int:
        """Bytes of the workspace that are not for tiles."""
        return 0

    def compute(self, pair: tuple[int, int], norm: Tensor | None = None) -> Iterator[WeightedTile]:
        """The weighted tiles of a pair of blocks; Σ w of every anchor is added to `norm` [2, N], if given."""
        for tile in self.store.layout.tiles(pair):
            exp = _exp(self.store.compute_similarities(tile), tile)
            yield WeightedTile(tile, exp, exp)

    def recall(self, pair: tuple[int, int]) -> Iterator[WeightedTile]:
        """The same from the store."""
        for tile in self.store.layout.tiles(pair):
            for_rows = self.store.get(tile, tile.slot)
            has_copy = tile.slot.for_columns < self.slots
            yield WeightedTile(tile, for_rows, self.store.get(tile, tile.slot.for_columns) if has_copy else for_rows)


class PosteriorWeights(PlainWeights):
    """w = Q/m: p frozen, s of the present cosines. Between the views, rows and columns share Q."""

    slots = Slot.WITHIN_SECOND_FOR_COLUMNS + 1
    swap_views = True
    has_norms = True

    def reserve(self, like: Tensor, layout: Layout) -> int:
        """Bytes of the frozen probabilities."""
        self.precision = self._choose_precision(like, layout.side)
        return _probability_bytes(len(like), layout.side, self.precision)

    def compute(self, pair: tuple[int, int], norm: Tensor | None = None) -> Iterator[WeightedTile]:
        """Between the views first: their Q weights the tiles within the views, too."""
        tiles = {tile.slot: tile for tile in self.store.layout.tiles(pair)}
        weights: list[Tensor] = []
        for slot in (Slot.BETWEEN, Slot.BETWEEN_SWAPPED):
            if slot not in tiles:  # of a block with itself, it is the transpose
                weights.append(self.store.scratch("weight1", weights[0].T.shape).copy_(weights[0].T))
                continue
            tile = tiles[slot]
            sim = self.store.compute_similarities(tile)
            weight = self._weight(tile, sim)
            weights.append(weight)
            if norm is not None:
                norm[tile.a, tile.rows] += weight.sum(dim=1)
                norm[tile.b, tile.columns] += weight.sum(dim=0)
            exp = _exp(sim, tile).mul_(weight)
            yield WeightedTile(tile, exp, exp)
        for slot in (Slot.WITHIN_FIRST, Slot.WITHIN_SECOND):
            tile = tiles[slot]
            exp = _exp(self.store.compute_similarities(tile), tile)
            for_columns = torch.mul(exp, weights[1 - tile.a], out=self.store.get(tile, slot.for_columns))
            yield WeightedTile(tile, exp.mul_(weights[tile.a]), for_columns)

    def _weight(self, tile: Tile, sim: Tensor) -> Tensor:
        """Q = p·s of a tile between the views, from its θ/τ; 0 for the anchor itself."""
        low, high = self.plan.bounds
        shift = sim.new_tensor(-low / (high - low))
        out = self.store.scratch(f"weight{tile.a}", sim.shape)
        weight = torch.add(shift, sim, alpha=self.store.tau / (high - low), out=out)
        weight.clamp_(0, 1).mul_(self._probability(tile))
        return weight.fill_diagonal_(0) if tile.has_own_nodes else weight

    def _probability(self, tile: Tile) -> Tensor:
        """p of a tile, up to a factor that all tiles share and that cancels in the weights."""
        frozen, key = self.workspace.frozen, (*tile.pair, tile.a)
        p = frozen.get(key)
        if p is None:
            assert self.plan.probability is not None
            p = self.plan.probability(tile.a, tile.rows, tile.columns)
            if self.precision == torch.uint16:
                p = _round_to_16_bits(p, seed=self.store.layout.offset(*tile.pair, tile.a))
            if self.precision is not None:
                frozen[key] = p
        return self.store.scratch("tile", p.shape).copy_(p) if self.precision == torch.uint16 else p

    def _choose_precision(self, like: Tensor, side: int) -> torch.dtype | None:
        """How probabilities are cached, as memory allows: as they are, in 16 bits, or not at all (None)."""
        if self.plan.key is None:
            return None
        nodes, memory = len(like), self.workspace.memory
        if _probability_bytes(nodes, side, like.dtype) <= memory // 4:
            return like.dtype
        averages_out = like.dtype == torch.float32 and nodes >= MIN_ROUNDED_NODES
        return torch.uint16 if averages_out and _probability_bytes(nodes, side, torch.uint16) <= memory else None


class RingWeights(PlainWeights):
    """w = 1 inside an anchor's ring and 0 outside, which differs for rows and columns."""

    slots = len(Slot)

    def __init__(
        self, views: tuple[Tensor, Tensor], tau: float, plan: Plan, workspace: Workspace, shard: Shard
    ) -> None:
        super().__init__(views, tau, plan, workspace, shard)
        assert plan.ring is not None
        self.low, self.high = self._limits(*plan.ring)

    def compute(self, pair: tuple[int, int], norm: Tensor | None = None) -> Iterator[WeightedTile]:
        """Tiles with zeros outside the rings of the rows, and of the columns."""
        low, high = self.low, self.high
        for tile in self.store.layout.tiles(pair):
            _, _, a, rows, b, columns = tile
            sim = self.store.compute_similarities(tile)
            outside_rows = (sim < low[a, rows, None]).logical_or_(sim > high[a, rows, None])
            outside_columns = (sim < low[b, columns]).logical_or_(sim > high[b, columns])
            exp = _exp(sim, tile)
            copy = self.store.get(tile, tile.slot.for_columns).copy_(exp)
            yield WeightedTile(tile, exp.masked_fill_(outside_rows, 0), copy.masked_fill_(outside_columns, 0))

    def _limits(self, low: float, high: float) -> Tensor:
        """Where the ring of every anchor begins and ends, in units of τ, [2, 2, N] by limit and view."""
        store = self.store
        nodes = len(store.views[0])
        both = torch.cat(store.views)
        limits = both.new_zeros(2, 2, nodes)
        step = max(1, store.layout.side**2 // nodes)
        rank, world_size = self.shard.position
        for view in (0, 1):
            for start in range(rank * step, nodes, world_size * step):
                rows = torch.arange(start, min(start + step, nodes), device=both.device)
                sim = store.scaled[view][rows] @ both.T
                sim.scatter_(1, torch.stack([rows, rows + nodes], dim=1), torch.inf)
                limits[:, view, rows] = torch.stack(ring_limits(sim, 2 * (nodes - 1), low, high, 1 / store.tau))
        self.shard.reduce(limits)
        return limits


def make_weights(
    views: tuple[Tensor, Tensor], tau: float, plan: Plan, workspace: Workspace, shard: Shard
) -> PlainWeights:
    """The strategy for a plan."""
    kind = RingWeights if plan.ring else PosteriorWeights if plan.probability else PlainWeights
    return kind(views, tau, plan, workspace, shard)


def _exp(sim: Tensor, tile: Tile) -> Tensor:
    """e^{θ/τ} in place, 0 for the anchor itself and its positive."""
    sim.exp_()
    return sim.fill_diagonal_(0) if tile.has_own_nodes else sim


def _probability_bytes(nodes: int, side: int, dtype: torch.dtype | None) -> int:
    """Memory of cached probabilities, at most."""
    return nodes * (nodes + side) * dtype.itemsize if dtype else 0


def _round_to_16_bits(p: Tensor, seed: int) -> Tensor:
    """Probabilities in 16 bits, rounded up or down at random, so that errors average out; the same for a seed."""
    chance = torch.rand(p.shape, generator=torch.Generator().manual_seed(seed), dtype=p.dtype).to(p.device)
    return p.mul(FIXED_POINT_ONE).add_(chance).floor_().clamp_max_(FIXED_POINT_ONE).to(torch.uint16)
