"""Synthetic negatives in the closed form: cosines read from the stored tiles, gradients written back into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from progcl.losses.tiles import Slot
from progcl.losses.weights import PlainWeights
from progcl.miners.base import Plan
from progcl.miners.mixing import cancels, inverse_length

CACHED_RANKS = 32  # rows [N] at a time, so that the arithmetic stays in the cache


class Mixed:
    """One step's synthetic negatives ũ = α p + (1-α) q of every anchor a, from tiles without weights.

    θ(a, ũ) = (α θ(a,p) + (1-α) θ(a,q)) r with r^-2 = 1 - 2α(1-α)(1-θ(p,q)), the squared length of the mixed vector.

    Attributes:
        first, second: ranks of p and q, [m]
        mixing_weights: of the candidates, for each view, [N', N]
        anchor_addresses: in the store, of θ(a,p), [N', N]
        pair_addresses: in the store, of θ(p,q), [m, N]
        anchor_sims: θ(a,p)/τ, [N', N]
        pair_sims: θ(p,q), [m, N]
    """

    def __init__(self, weights: PlainWeights, plan: Plan) -> None:
        assert plan.pairs is not None
        self.weights = weights
        self.store = weights.store
        self.layout = weights.store.layout
        self.plan = plan
        # In this order, pairs that are close together in the store follow one another.
        self.first, self.second = plan.pairs[:, plan.pairs[0].argsort()]
        dtype, tau, views = self.store.flat.dtype, self.store.tau, (0, 1)
        self.mixing_weights = [self._cached("weights", view, self._compute_weights).to(dtype) for view in views]
        self.anchor_addresses = [self._cached("addresses", view, self._address_anchors) for view in views]
        self.pair_addresses = [self._address_pairs(view) for view in views]
        self.anchor_sims = [self._read(f"anchor sims {view}", self.anchor_addresses[view]) for view in views]
        self.pair_sims = [self._read(f"pair sims {view}", self.pair_addresses[view]).mul_(tau) for view in views]

    def masses(self) -> Tensor:
        """Σ e^{θ(a,ũ)/τ} of every anchor, [2, N]."""
        mass = self.store.views[0].new_zeros(2, len(self.store.views[0]))
        for view in (0, 1):
            for pairs in self._chunks():
                _, _, r, sim = self._mix(view, pairs)
                mass[view] += sim.mul_(r).exp_().sum(dim=0)
        return mass

    def write_gradient(self, u: Tensor) -> None:
        """Replace the stored tiles by ∂J/∂θ, synthetic negatives included; u = 1/(2NτD) of every anchor, [2, N]."""
        self._write_plain_gradient(u)
        for view in (0, 1):
            at_anchor_sims = self._get_buffer("at anchor sims", len(self.anchor_sims[view]), self.store.flat).zero_()
            for pairs in self._chunks():
                alpha, squared, r, sim = self._mix(view, pairs)
                theta = sim.mul_(r)
                grad = theta.exp().mul_(u[view]).mul_(r)
                at_first = grad * alpha
                at_anchor_sims.index_add_(0, self.first[pairs], at_first)
                at_anchor_sims.index_add_(0, self.second[pairs], grad.sub_(at_first))
                at_pair = at_first.mul_(1 - alpha).mul_(r).mul_(theta).mul_(-self.store.tau)
                self._add(self.pair_addresses[view][pairs], at_pair.masked_fill_(cancels(squared), 0))
            chunks = zip(
                self.anchor_addresses[view].split(CACHED_RANKS), at_anchor_sims.split(CACHED_RANKS), strict=True
            )
            for addresses, grad in chunks:
                self._add(addresses, grad)

    def _write_plain_gradient(self, u: Tensor) -> None:
        """Replace e_ab by e_ab (u_a + u_b), halved where every pair of anchors occurs twice."""
        for pair in self.layout.pairs:
            for tile, exp, _ in self.weights.recall(pair):
                out = self.store.scratch("tile", exp.shape)
                both = torch.add(u[tile.a, tile.rows, None], u[tile.b, tile.columns], out=out)
                exp.mul_(both.div_(2) if tile.is_symmetric else both)

    def _mix(self, view: int, pairs: slice) -> tuple[Tensor, ...]:
        """α, r^-2, r, and θ(a,ũ)/τ before it is multiplied by r, [k, N] each."""
        first, second = self.first[pairs], self.second[pairs]
        alpha = self.mixing_weights[view].index_select(0, first)
        alpha.div_(alpha + self.mixing_weights[view].index_select(0, second))
        squared = (1 - alpha).mul_(alpha).mul_(self.pair_sims[view][pairs] - 1).mul_(2).add_(1)
        sims = self.anchor_sims[view]
        sim = torch.lerp(sims.index_select(0, second), sims.index_select(0, first), alpha)
        return alpha, squared, inverse_length(squared), sim

    def _chunks(self) -> Iterator[slice]:
        return (slice(start, start + CACHED_RANKS) for start in range(0, len(self.first), CACHED_RANKS))

    def _get_buffer(self, name: str, rows: int, like: Tensor) -> Tensor:
        """[rows, N] for this step; new memory would cost more time than the arithmetic in it."""
        nodes = len(self.store.views[0])
        return self.store.workspace.get_buffer(name, rows * nodes, like).view(rows, nodes)

    def _read(self, name: str, addresses: Tensor) -> Tensor:
        """θ/τ at addresses of the store."""
        out = self._get_buffer(name, len(addresses), self.store.flat)
        for chunk, sims in zip(addresses.split(CACHED_RANKS), out.split(CACHED_RANKS), strict=True):
            torch.index_select(self.store.flat, 0, chunk.flatten(), out=sims.view(-1)).log_()
        return out

    def _add(self, addresses: Tensor, grad: Tensor) -> None:
        self.store.flat.scatter_add_(0, addresses.flatten().long(), grad.flatten())

    def _cached(self, name: str, view: int, compute: Callable[[int], Tensor]) -> Tensor:
        """What stays the same from step to step, [N', N]."""
        frozen = self.store.workspace.frozen
        if (name, view) not in frozen:
            frozen[name, view] = compute(view)
        return frozen[name, view]

    def _compute_weights(self, view: int) -> Tensor:
        """Mixing weights, above 0, so that two zeros are mixed half and half."""
        assert self.plan.mixing_weights is not None
        columns = [self.plan.mixing_weights(view, block) for block in self.layout.blocks]
        return torch.cat(columns, dim=1).clamp_min_(torch.finfo(torch.float32).tiny)

    def _address_anchors(self, view: int) -> Tensor:
        """Addresses of θ(a,p): from a table of [anchor's block, candidate] and the anchor's position in its block."""
        layout, device = self.layout, self.first.device
        numbers = range(len(layout.blocks))
        candidate_stride, anchor_stride = ((1, layout.side), (layout.side, 1))[view]
        tile_offsets = [[self._tile_offset(view, own, other) for other in numbers] for own in numbers]
        table = torch.cat([layout.node_offsets(offsets, candidate_stride, device) for offsets in tile_offsets])
        nodes = len(self.store.views[0])
        table_row = layout.node_offsets([own * nodes for own in numbers], 0, device)
        within_block = layout.node_offsets([0 for _ in numbers], anchor_stride, device)
        addresses = []
        for candidates in self.plan.candidates[view].split(CACHED_RANKS):
            index = candidates.long().add_(table_row)
            chunk = table.index_select(0, index.flatten()).view_as(index).add_(within_block)
            addresses.append(chunk.to(self._index_dtype))
        return torch.cat(addresses)

    def _address_pairs(self, view: int) -> Tensor:
        """Addresses of θ(p,q), p before q, within the other view: an offset for p's row plus one for q's column."""
        layout, device = self.layout, self.first.device
        numbers = range(len(layout.blocks))
        slot = Slot.WITHIN_SECOND if view == 0 else Slot.WITHIN_FIRST
        row = layout.node_offsets([layout.offset(block, 0, slot) for block in numbers], layout.side, device)
        column = layout.node_offsets([block * layout.pair_elements for block in numbers], 1, device)
        row, column, candidates = row.to(self._index_dtype), column.to(self._index_dtype), self.plan.candidates[view]
        out = self._get_buffer(f"pair addresses {view}", len(self.first), row)
        for pairs in self._chunks():
            p, q = (candidates[ranks[pairs]].int().flatten() for ranks in (self.first, self.second))
            torch.index_select(row, 0, p, out=out[pairs].view(-1)).add_(column.index_select(0, q))
        return out

    def _tile_offset(self, view: int, own: int, other: int) -> int:
        """Offset of the tile of a view's anchors in block `own` and the other view's candidates in block `other`."""
        in_order = own <= other if view == 0 else other <= own
        slot = Slot.BETWEEN if in_order else Slot.BETWEEN_SWAPPED
        return self.layout.offset(min(own, other), max(own, other), slot)

    @property
    def _index_dtype(self) -> torch.dtype:
        return torch.int32 if self.store.flat.numel() < 2**31 else torch.int64
