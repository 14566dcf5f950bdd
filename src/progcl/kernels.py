"""The contrastive loss and its gradient in closed form: the fast path for weights that carry no gradient.

The two views are 2N points of one symmetric problem. With x_ab = θ(a,b)/τ and e_ab = exp(x_ab), anchor a has::

    D_a = e_aa' + Σ_b w_ab e_ab,    J = 1/(2N) Σ_a (log D_a - x_aa'),
    ∂J/∂θ(a,b) = e_ab (w_ab u_a + w_ba u_b),    u_a = 1 / (2Nτ D_a),

a' being the same node in the other view, and b every other node of either view. (θ/τ ≤ 34, so that exp needs no
shift in single precision.)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from progcl.tiles import Plan, Split, Tiles, Workspace

RANKS = 32  # at once in the arithmetic of synthetic negatives, which then stays in the cache
TINY = 1e-12  # least squared length of a mixed vector


def contrast(
    views: tuple[Tensor, Tensor],
    tau: float,
    plan: Plan,
    workspace: Workspace,
    split: Split,
    wanted: bool = True,
) -> tuple[Tensor, tuple[Tensor, ...]] | None:
    """Loss and, if wanted, gradient [N, d] of both views' unit vectors; None where only complete rows can tell.

    That is where an anchor's weights are all 0, or where synthetic negatives find no room for the store or only a part
    of the tiles. A split gives the whole in every process.
    """
    assert not (plan.probability and plan.columns), "the store's addresses are those of tiles without weights"
    if plan.columns and split.part != (0, 1):
        return None
    tiles = Tiles(views, tau, plan, workspace, split)
    mixed = None
    if plan.columns:
        if tiles.stored < len(tiles.layout.pairs):
            return None
        mixed = Mixed(tiles, plan)
    mass, norm = tiles.masses()
    if norm is not None:
        if not bool((norm > 0).all()):
            return None
        norm = norm / (len(views[0]) - 1)
        mass = mass / norm
    if mixed:
        mass = mass + mixed.masses()
    positive = (views[0] * views[1]).sum(dim=1) / tau
    scale = 1 / (2 * len(positive))
    loss = mass.div(positive.exp()).log1p_().sum() * scale
    if not wanted:
        return loss, ()
    pull = scale / tau / (positive.exp() + mass)
    push = pull if norm is None else pull / norm
    if mixed:
        mixed.add_gradient(pull)
    first, second = tiles.gradient(push, in_place=mixed is not None)
    at_positive = (mass * pull).sum(dim=0).neg_().unsqueeze(1)
    return loss, (first.addcmul_(at_positive, views[1]), second.addcmul_(at_positive, views[0]))


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
        self.similar: list[Tensor] = []
        self.cosine: list[list[Tensor]] = [[], []]

    def masses(self) -> Tensor:
        """Σ e^{θ(a,ũ)/τ} of every anchor, [2, N]."""
        mass = self.tiles.views[0].new_zeros(2, len(self.tiles.views[0]))
        for view in (0, 1):
            addresses = self._to_anchors(view)
            gathered = [self.tiles.store.index_select(0, part.flatten()).log_().view_as(part) for part in addresses]
            self.similar.append(torch.cat(gathered))
            for first, second, between in self._pairs(view):
                cosine = self.tiles.store.index_select(0, between.flatten()).log_().mul_(self.tiles.tau)
                self.cosine[view].append(cosine.view_as(between))
                _, _, length, mixed = self._mix(view, first, second, self.cosine[view][-1])
                mass[view] += mixed.mul_(length).exp_().sum(dim=0)
        return mass

    def add_gradient(self, pull: Tensor) -> None:
        """Turn the store's tiles into gradients, and add those of the synthetic negatives."""
        self.tiles.pull_in_place(pull)
        store, tau = self.tiles.store, self.tiles.tau
        for view in (0, 1):
            at_similar = torch.zeros_like(self.similar[view])
            for (first, second, between), cosine in zip(self._pairs(view), self.cosine[view], strict=True):
                alpha, squared, length, mixed = self._mix(view, first, second, cosine)
                theta = mixed.mul_(length)
                grad = theta.exp().mul_(pull[view]).mul_(length)
                lean = grad * alpha
                at_similar.index_add_(0, first, lean)
                at_similar.index_add_(0, second, grad.sub_(lean))
                lean.mul_(1 - alpha).mul_(length).mul_(theta).mul_(-tau).masked_fill_(squared < TINY, 0)
                store.scatter_add_(0, between.flatten(), lean.flatten())
            for part, grad in zip(self._to_anchors(view), at_similar.split(RANKS), strict=True):
                store.scatter_add_(0, part.flatten(), grad.flatten())

    def _mix(self, view: int, first: Tensor, second: Tensor, cosine: Tensor) -> tuple[Tensor, ...]:
        """α, r^-2, r, and θ/τ before the division by the length, [k, N] each."""
        strength = self._strength(view)
        lean, rest = strength.index_select(0, first), strength.index_select(0, second)
        alpha = torch.where(lean + rest > 0, lean / (lean + rest), 0.5)
        squared = (1 - alpha).mul_(alpha).mul_(cosine - 1).mul_(2).add_(1)
        mixed = torch.lerp(self.similar[view].index_select(0, second), self.similar[view].index_select(0, first), alpha)
        return alpha, squared, squared.clamp_min(TINY).rsqrt_(), mixed

    def _strength(self, view: int) -> Tensor:
        """What the candidates are mixed by, [N', N]."""
        frozen, blocks = self.tiles.workspace.frozen, self.tiles.layout.blocks
        if (view, 0, 0) not in frozen:
            assert self.plan.strength is not None
            parts = [self.plan.strength(view, block) for block in blocks]
            frozen[view, 0, 0] = torch.cat(parts, dim=1)
        return frozen[view, 0, 0].to(self.tiles.store.dtype)

    def _to_anchors(self, view: int) -> Iterator[Tensor]:
        """The store's addresses of θ(a,p), some ranks [k, N] at a time."""
        layout, like = self.tiles.layout, self.first
        numbers = range(len(layout.blocks))
        stride, across = ((1, layout.side), (layout.side, 1))[view]
        table = torch.cat(
            [layout.table([self._place(view, block, other) for other in numbers], stride, like) for block in numbers]
        )
        nodes = len(self.tiles.views[0])
        offset = layout.table([block * nodes for block in numbers], 0, like)
        within = layout.table([0 for _ in numbers], across, like)
        for columns in self.plan.columns[view].split(RANKS):
            index = columns.long().add_(offset)
            yield table.index_select(0, index.flatten()).view_as(index).add_(within)

    def _pairs(self, view: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Some pairs of ranks [k] at a time, and the store's addresses of θ(p,q), [k, N]."""
        layout, like = self.tiles.layout, self.first
        numbers = range(len(layout.blocks))
        above = layout.table([layout.place(block, 0, 1 - view) for block in numbers], layout.side, like)
        along = layout.table([block * layout.slots * layout.side**2 for block in numbers], 1, like)
        columns = self.plan.columns[view]
        for first, second in zip(self.first.split(RANKS), self.second.split(RANKS), strict=True):
            p, q = columns[first].long(), columns[second].long()
            between = above.index_select(0, p.flatten()).add_(along.index_select(0, q.flatten()))
            yield first, second, between.view_as(p)

    def _place(self, view: int, block: int, other: int) -> int:
        """The tile of view's anchors in `block` and the other view's candidates in `other`."""
        straight = block <= other if view == 0 else other <= block
        return self.tiles.layout.place(min(block, other), max(block, other), 2 if straight else 3)
