"""Tiles of all similarities between the 2N points of two views: computed once, used from both sides.

A tile of view a's nodes I against view b's nodes K serves the rows and the columns as anchors. A first pass sums what
every anchor needs; the tiles wait for the second pass, which makes the gradient, in a store of limited size, and are
computed again where it is full.

ProGCL's weight of anchor i for node k, in either view, is Q_ik/m_i for the first view's anchors and Q_ki/m'_i for
the second's, with Q_ik = p_ik s_ik from inter-view similarities and m, m' the means of Q's rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from progcl.miners.base import Plan
from progcl.miners.ring import ring_limits

TILE = 1024
LEAST_ROUNDED = 2**12  # nodes, for the 16 bits' rounding to average out below single precision's
FIXED_POINT = 2**16 - 1  # what a probability of 1 becomes in 16 bits


class Product(NamedTuple):
    """Σ w e over a tile: view a's `rows` against view b's `columns`, weighted for the rows and for the columns."""

    a: int
    rows: slice
    b: int
    columns: slice
    for_rows: Tensor
    for_columns: Tensor


class Shard(NamedTuple):
    """Which part of the work is done here, of how many, and what adds up all processes' tensors in place, if they can.

    With it every process gets the whole loss and gradient, without it those of its part.
    """

    part: tuple[int, int] = (0, 1)
    all_reduce: Callable[..., None] | None = None

    @property
    def is_unreduced_shard(self) -> bool:
        """Whether there are other parts, of which nothing will be heard."""
        return self.part != (0, 1) and self.all_reduce is None

    def whole(self, *tensors: Tensor) -> None:
        """Make every process's part the sum over all."""
        if self.all_reduce is not None:
            self.all_reduce(*tensors)


class Workspace:
    """Buffers that live from step to step, of at most `memory` bytes beside a few tiles."""

    def __init__(self, memory: int, tile: int | None = None) -> None:
        self.memory = memory
        self.tile = tile or TILE
        self.key: object = None
        self.lock = Lock()
        self.frozen: dict[tuple[Any, ...], Tensor] = {}
        self.buffers: dict[str, Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.memory, self.tile)  # a copy starts empty

    def buffer(self, name: str, size: int, like: Tensor) -> Tensor:
        """A flat buffer of `size` elements, whose content does not matter."""
        known = self.buffers.get(name)
        if known is None or known.numel() != size or known.dtype != like.dtype or known.device != like.device:
            del known
            self.buffers.pop(name, None)
            with torch.inference_mode(False):  # a later step may need it for training
                known = self.buffers[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return known

    def clear(self) -> None:
        """Give all memory back."""
        self.buffers.clear()
        self.frozen.clear()
        self.key = None

    def remember(self, key: object) -> None:
        """Forget the frozen tiles of another key."""
        if key is None or key is not self.key:
            self.frozen.clear()
            self.key = key


class Layout:
    """N nodes in equal blocks, and the places of the tiles (I ≤ K), or of a part of them, in one flat store."""

    def __init__(self, nodes: int, tile: int, slots: int, part: tuple[int, int] = (0, 1)) -> None:
        number = math.ceil(nodes / tile)
        self.side = min(nodes, 16 * math.ceil(nodes / number / 16))
        self.slots = slots
        self.blocks = [slice(start, min(start + self.side, nodes)) for start in range(0, nodes, self.side)]
        first, self.parts = part
        self.pairs = list(combinations_with_replacement(range(len(self.blocks)), 2))[first :: self.parts]

    def place(self, first: int, second: int, slot: int) -> int:
        """Where the tile of blocks first ≤ second begins."""
        before = first * len(self.blocks) - first * (first - 1) // 2
        return ((before + second - first) // self.parts * self.slots + slot) * self.side**2

    def table(self, places: list[int], stride: int, like: Tensor) -> Tensor:
        """For every node, the place of its block plus `stride` times its position in the block, [N]."""
        parts = [
            place + stride * torch.arange(block.stop - block.start, device=like.device)
            for place, block in zip(places, self.blocks, strict=True)
        ]
        return torch.cat(parts)


class Tiles:
    """One step's tiles.

    Slots of a pair of blocks: 0 and 1 within each view, 2 and 3 between the views. With weights, 4 and 5 are 0 and 1
    weighted for their columns; with a ring, 4 to 7 are 0 to 3.
    """

    def __init__(
        self, views: tuple[Tensor, Tensor], tau: float, plan: Plan, workspace: Workspace, split: Shard
    ) -> None:
        self.views = views
        self.split = split
        self.tau = tau
        self.plan = plan
        self.workspace = workspace
        self.scaled = [z / tau for z in views]
        slots = 8 if plan.ring else 6 if plan.probability else 4
        self.layout = Layout(len(views[0]), workspace.tile, slots, split.part)
        self.limits = self._limits(*plan.ring) if plan.ring else None
        workspace.remember(plan.key)
        self.precision = self._precision()
        room = workspace.memory - self._frozen_bytes(self.precision) - plan.mixing_bytes(views[0])
        per_pair = self.layout.slots * self.layout.side**2
        self.stored = max(0, min(len(self.layout.pairs), room // (per_pair * views[0].element_size())))
        if plan.columns and self.stored < len(self.layout.pairs):
            self.stored = 0  # synthetic negatives need all tiles, or none
        self.store = workspace.buffer("store", self.stored * per_pair, views[0])

    def masses(self) -> tuple[Tensor, Tensor | None]:
        """Σ Q e of every anchor, [2, N], and Σ Q where there are weights."""
        mass = self.views[0].new_zeros(2, len(self.views[0]))
        norm = None if self.plan.probability is None else torch.zeros_like(mass)
        for pair in self.layout.pairs:
            for product in self._compute(pair, norm):
                mass[product.a, product.rows] += product.for_rows.sum(dim=1)
                if not _mirrored(product):
                    mass[product.b, product.columns] += product.for_columns.sum(dim=0)
        self.split.whole(*(each for each in (mass, norm) if each is not None))
        return mass, norm

    def gradient(self, push: Tensor, in_place: bool = False) -> tuple[Tensor, Tensor]:
        """Σ_b e_ab (w_ab u_a + w_ba u_b) z_b of every anchor, [N, d] for each view.

        `in_place`: the store holds e_ab (w_ab u_a + w_ba u_b) already, and more that is not symmetric.
        """
        grads = (torch.zeros_like(self.views[0]), torch.zeros_like(self.views[1]))
        for number, pair in enumerate(self.layout.pairs):
            products = self._recall(pair) if number < self.stored else self._compute(pair)
            for product in products:
                a, rows, b, columns, for_rows, _ = product
                pull = for_rows if in_place else self._pull(product, push)
                grads[a][rows].addmm_(pull, self.views[b][columns])
                if in_place or not _mirrored(product):
                    grads[b][columns].addmm_(pull.T, self.views[a][rows])
        self.split.whole(*grads)
        return grads

    def pull_in_place(self, push: Tensor) -> None:
        """Turn a store without weights into e_ab (u_a + u_b), halved where rows and columns are the same anchors."""
        for pair in self.layout.pairs:
            for product in self._recall(pair):
                a, rows, b, columns, tile, _ = product
                both = torch.add(push[a, rows, None], push[b, columns], out=self._scratch("pull", tile.shape))
                tile.mul_(both.div_(2) if _mirrored(product) else both)

    def _pull(self, product: Product, push: Tensor) -> Tensor:
        a, rows, b, columns, for_rows, for_columns = product
        out = self._scratch("pull", for_rows.shape)
        if for_rows is for_columns:
            return torch.add(push[a, rows, None], push[b, columns], out=out).mul_(for_rows)
        return torch.mul(for_rows, push[a, rows, None], out=out).addcmul_(for_columns, push[b, columns])

    def _compute(self, pair: tuple[int, int], norm: Tensor | None = None) -> Iterator[Product]:
        if self.plan.probability is not None:
            yield from self._weighted(pair, norm)
            return
        if self.limits is not None:
            yield from self._ringed(pair, *self.limits)
            return
        for slot, (a, rows, b, columns) in self._jobs(pair):
            tile = self._exp(self._similarities(pair, slot, a, rows, b, columns), pair)
            yield Product(a, rows, b, columns, tile, tile)

    def _weighted(self, pair: tuple[int, int], norm: Tensor | None) -> Iterator[Product]:
        jobs = dict(self._jobs(pair))
        weights: list[Tensor] = []
        for slot in (2, 3):
            if slot not in jobs:  # one block with itself
                weights.append(self._scratch("weight1", weights[0].T.shape).copy_(weights[0].T))
                continue
            a, rows, b, columns = jobs[slot]
            tile = self._similarities(pair, slot, a, rows, b, columns)
            weight = self._weight(pair, a, tile)
            weights.append(weight)
            if norm is not None:
                norm[a, rows] += weight.sum(dim=1)
                norm[b, columns] += weight.sum(dim=0)
            self._exp(tile, pair).mul_(weight)
            yield Product(a, rows, b, columns, tile, tile)
        for slot in (0, 1):
            a, rows, b, columns = jobs[slot]
            tile = self._exp(self._similarities(pair, slot, a, rows, b, columns), pair)
            mirror = torch.mul(tile, weights[1 - a], out=self._place(pair, slot + 4, tile.shape))
            yield Product(a, rows, b, columns, tile.mul_(weights[a]), mirror)

    def _ringed(self, pair: tuple[int, int], low: Tensor, high: Tensor) -> Iterator[Product]:
        for slot, (a, rows, b, columns) in self._jobs(pair):
            tile = self._similarities(pair, slot, a, rows, b, columns)
            not_for_rows = (tile < low[a, rows, None]).logical_or_(tile > high[a, rows, None])
            not_for_columns = (tile < low[b, columns]).logical_or_(tile > high[b, columns])
            mirror = self._place(pair, slot + 4, tile.shape).copy_(self._exp(tile, pair))
            yield Product(
                a, rows, b, columns, tile.masked_fill_(not_for_rows, 0), mirror.masked_fill_(not_for_columns, 0)
            )

    def _limits(self, low: float, high: float) -> tuple[Tensor, Tensor]:
        """Where the ring of every anchor begins and ends, [2, N] each, in units of τ."""
        nodes = len(self.views[0])
        both = torch.cat(self.views)
        limits = self.views[0].new_zeros(2, 2, nodes)
        step = max(1, self.layout.side**2 // nodes)
        part, parts = self.split.part
        for view in (0, 1):
            for start in range(part * step, nodes, parts * step):
                rows = torch.arange(start, min(start + step, nodes), device=both.device)
                sim = self.scaled[view][rows] @ both.T
                sim.scatter_(1, torch.stack([rows, rows + nodes], dim=1), torch.inf)
                limits[:, view, rows] = torch.stack(ring_limits(sim, 2 * (nodes - 1), low, high, 1 / self.tau))
        self.split.whole(limits)
        return limits[0], limits[1]

    def _recall(self, pair: tuple[int, int]) -> Iterator[Product]:
        for slot, (a, rows, b, columns) in self._jobs(pair):
            shape = torch.Size((rows.stop - rows.start, columns.stop - columns.start))
            tile = self._place(pair, slot, shape)
            twice = slot + 4 < self.layout.slots
            yield Product(a, rows, b, columns, tile, self._place(pair, slot + 4, shape) if twice else tile)

    def _jobs(self, pair: tuple[int, int]) -> list[tuple[int, tuple[int, slice, int, slice]]]:
        """Slot, and (a, rows, b, columns), of each tile of a pair of blocks.

        Slot 3 is laid out as first against second block where weights of the same layout are needed, and
        as first against second view where addresses into the store are.
        """
        first, second = (self.layout.blocks[number] for number in pair)
        jobs = [(2, (0, first, 1, second)), (0, (0, first, 0, second)), (1, (1, first, 1, second))]
        if first != second:
            turned = (1, first, 0, second) if self.layout.slots == 6 else (0, second, 1, first)
            jobs.insert(1, (3, turned))
        return jobs

    def _similarities(self, pair: tuple[int, int], slot: int, a: int, rows: slice, b: int, columns: slice) -> Tensor:
        left, right = self.scaled[a][rows], self.views[b][columns]
        return torch.mm(left, right.T, out=self._place(pair, slot, torch.Size((len(left), len(right)))))

    def _exp(self, tile: Tensor, pair: tuple[int, int]) -> Tensor:
        tile.exp_()
        return tile.fill_diagonal_(0) if pair[0] == pair[1] else tile

    def _weight(self, pair: tuple[int, int], view: int, tile: Tensor) -> Tensor:
        """Q = p·s, 0 for the anchor itself."""
        low, high = self.plan.bounds
        shift = tile.new_tensor(-low / (high - low))
        weight = torch.add(shift, tile, alpha=self.tau / (high - low), out=self._scratch(f"weight{view}", tile.shape))
        weight.clamp_(0, 1).mul_(self._probability(pair, view))
        return weight.fill_diagonal_(0) if pair[0] == pair[1] else weight

    def _probability(self, pair: tuple[int, int], view: int) -> Tensor:
        """p of a tile, up to a factor that all tiles share and that cancels in the weights."""
        known = self.workspace.frozen.get((*pair, view))
        if known is None:
            assert self.plan.probability is not None
            known = self.plan.probability(view, *(self.layout.blocks[number] for number in pair))
            if self.precision == torch.uint16:
                known = _rounded(known, seed=self.layout.place(*pair, view))
            if self.precision is not None:
                self.workspace.frozen[(*pair, view)] = known
        return self._scratch("pull", known.shape).copy_(known) if self.precision == torch.uint16 else known

    def _precision(self) -> torch.dtype | None:
        """How frozen probabilities are kept: as they are, in 16 bits, or not at all, as there is room."""
        if self.plan.probability is None or self.plan.key is None:
            return None
        own, memory = self.views[0].dtype, self.workspace.memory
        if self._frozen_bytes(own) <= memory // 4:
            return own
        averaged = own == torch.float32 and len(self.views[0]) >= LEAST_ROUNDED
        return torch.uint16 if averaged and self._frozen_bytes(torch.uint16) <= memory else None

    def _frozen_bytes(self, dtype: torch.dtype | None) -> int:
        nodes = len(self.views[0])
        return nodes * (nodes + self.layout.side) * dtype.itemsize if dtype else 0

    def _place(self, pair: tuple[int, int], slot: int, shape: torch.Size) -> Tensor:
        """A tile in the store, or in passing."""
        start = self.layout.place(*pair, slot)
        if start >= self.stored * self.layout.slots * self.layout.side**2:
            return self._scratch(f"slot{slot}", shape)
        return self._cut(self.store[start:], shape)

    def _scratch(self, name: str, shape: torch.Size) -> Tensor:
        return self._cut(self.workspace.buffer(name, self.layout.side**2, self.views[0]), shape)

    def _cut(self, flat: Tensor, shape: torch.Size) -> Tensor:
        side = self.layout.side
        return flat[: side**2].view(side, side)[: shape[0], : shape[1]]


def _mirrored(product: Product) -> bool:
    """Whether rows and columns are the same anchors, each pair being met twice."""
    return product.a == product.b and product.rows == product.columns


def _rounded(p: Tensor, seed: int) -> Tensor:
    """Probabilities in 16 bits, up or down by chance, so that errors average out; the chance is always the same."""
    generator = torch.Generator(p.device).manual_seed(seed)
    chance = torch.rand(p.shape, generator=generator, device=p.device, dtype=p.dtype)
    return p.mul(FIXED_POINT).add_(chance).floor_().clamp_max_(FIXED_POINT).to(torch.uint16)
