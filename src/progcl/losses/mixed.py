"""Synthetic negatives in the closed form: cosines from the store's tiles, gradients back into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from progcl.losses.tiles import Tiles
from progcl.miners.base import Plan
from progcl.miners.mixing import TINY

RANKS = 32  # at once in the arithmetic of synthetic negatives, which then stays in the cache


class Mixed:
    """One step's synthetic negatives: cosines from the store's tiles, gradients back into them.

    θ(a, ũ) = (α θ(a,p) + (1-α) θ(a,q)) r with r^-2 = 1 - 2α(1-α)(1-θ(p,q)), the length of the mixed vector.
    """

    def __init__(self, tiles: Tiles, plan: Plan) -> None:
        assert plan.pairs is not None
        self.tiles = tiles
        self.plan = plan
        # In this order, pairs that lie close together in the store come one after another.
        self.first, self.second = plan.pairs[:, plan.pairs[0].argsort()]
        self.strength = [self._frozen("strength", view, self._strength).to(tiles.store.dtype) for view in (0, 1)]
        self.to_anchors = [self._frozen("to anchors", view, self._to_anchors) for view in (0, 1)]
        self.between = [self._between(view) for view in (0, 1)]
        self.similar = [self._read(f"similar{view}", self.to_anchors[view]) for view in (0, 1)]
        self.cosine = [self._read(f"cosine{view}", self.between[view]).mul_(tiles.tau) for view in (0, 1)]

    def masses(self) -> Tensor:
        """Σ e^{θ(a,ũ)/τ} of every anchor, [2, N]."""
        mass = self.tiles.views[0].new_zeros(2, len(self.tiles.views[0]))
        for view in (0, 1):
            for pairs in self._some_pairs():
                _, _, length, mixed = self._mix(view, pairs)
                mass[view] += mixed.mul_(length).exp_().sum(dim=0)
        return mass

    def add_gradient(self, pull: Tensor) -> None:
        """Turn the store's tiles into gradients, and add those of the synthetic negatives."""
        self.tiles.pull_in_place(pull)
        for view in (0, 1):
            at_similar = self._buffer("at similar", len(self.similar[view]), self.tiles.store).zero_()
            for pairs in self._some_pairs():
                alpha, squared, length, mixed = self._mix(view, pairs)
                theta = mixed.mul_(length)
                grad = theta.exp().mul_(pull[view]).mul_(length)
                lean = grad * alpha
                at_similar.index_add_(0, self.first[pairs], lean)
                at_similar.index_add_(0, self.second[pairs], grad.sub_(lean))
                lean.mul_(1 - alpha).mul_(length).mul_(theta).mul_(-self.tiles.tau).masked_fill_(squared < TINY, 0)
                self._add(self.between[view][pairs], lean)
            for places, grad in zip(self.to_anchors[view].split(RANKS), at_similar.split(RANKS), strict=True):
                self._add(places, grad)

    def _mix(self, view: int, pairs: slice) -> tuple[Tensor, ...]:
        """α, r^-2, r, and θ/τ before the division by the length, [k, N] each."""
        first, second = self.first[pairs], self.second[pairs]
        alpha = self.strength[view].index_select(0, first)
        alpha.div_(alpha + self.strength[view].index_select(0, second))
        squared = (1 - alpha).mul_(alpha).mul_(self.cosine[view][pairs] - 1).mul_(2).add_(1)
        mixed = torch.lerp(self.similar[view].index_select(0, second), self.similar[view].index_select(0, first), alpha)
        return alpha, squared, squared.clamp_min(TINY).rsqrt_(), mixed

    def _some_pairs(self) -> Iterator[slice]:
        return (slice(start, start + RANKS) for start in range(0, len(self.first), RANKS))

    def _buffer(self, name: str, rows: int, like: Tensor) -> Tensor:
        """[rows, N] for this step; fresh memory would cost more time than what it is used for."""
        nodes = len(self.tiles.views[0])
        return self.tiles.workspace.buffer(name, rows * nodes, like).view(rows, nodes)

    def _read(self, name: str, places: Tensor) -> Tensor:
        """θ/τ at some places of the store."""
        out = self._buffer(name, len(places), self.tiles.store)
        for part, there in zip(places.split(RANKS), out.split(RANKS), strict=True):
            torch.index_select(self.tiles.store, 0, part.flatten(), out=there.view(-1)).log_()
        return out

    def _add(self, places: Tensor, grad: Tensor) -> None:
        self.tiles.store.scatter_add_(0, places.flatten().long(), grad.flatten())

    def _frozen(self, name: str, view: int, make: Callable[[int], Tensor]) -> Tensor:
        """What stays the same from step to step, [N', N]."""
        frozen = self.tiles.workspace.frozen
        if (name, view) not in frozen:
            frozen[name, view] = make(view)
        return frozen[name, view]

    def _strength(self, view: int) -> Tensor:
        """What the candidates are mixed by; above 0, so that two zeros are mixed half and half."""
        assert self.plan.strength is not None
        parts = [self.plan.strength(view, block) for block in self.tiles.layout.blocks]
        return torch.cat(parts, dim=1).clamp_min_(torch.finfo(torch.float32).tiny)

    def _to_anchors(self, view: int) -> Tensor:
        """The store's places of θ(a,p)."""
        layout, like = self.tiles.layout, self.first
        numbers = range(len(layout.blocks))
        stride, across = ((1, layout.side), (layout.side, 1))[view]
        table = torch.cat(
            [layout.table([self._place(view, block, other) for other in numbers], stride, like) for block in numbers]
        )
        nodes = len(self.tiles.views[0])
        offset = layout.table([block * nodes for block in numbers], 0, like)
        within = layout.table([0 for _ in numbers], across, like)
        parts = []
        for columns in self.plan.columns[view].split(RANKS):
            index = columns.long().add_(offset)
            parts.append(table.index_select(0, index.flatten()).view_as(index).add_(within).to(self._narrow))
        return torch.cat(parts)

    def _between(self, view: int) -> Tensor:
        """The store's places of θ(p,q) for this step's pairs, [m, N]."""
        layout, like = self.tiles.layout, self.first
        numbers = range(len(layout.blocks))
        above = layout.table([layout.place(block, 0, 1 - view) for block in numbers], layout.side, like)
        along = layout.table([block * layout.slots * layout.side**2 for block in numbers], 1, like)
        above, along, columns = above.to(self._narrow), along.to(self._narrow), self.plan.columns[view]
        out = self._buffer(f"between{view}", len(self.first), above)
        for pairs in self._some_pairs():
            p, q = (columns[ranks[pairs]].int().flatten() for ranks in (self.first, self.second))
            torch.index_select(above, 0, p, out=out[pairs].view(-1)).add_(along.index_select(0, q))
        return out

    @property
    def _narrow(self) -> torch.dtype:
        return torch.int32 if self.tiles.store.numel() < 2**31 else torch.int64

    def _place(self, view: int, block: int, other: int) -> int:
        """The tile of view's anchors in `block` and the other view's candidates in `other`."""
        straight = block <= other if view == 0 else other <= block
        return self.tiles.layout.place(min(block, other), max(block, other), 2 if straight else 3)
