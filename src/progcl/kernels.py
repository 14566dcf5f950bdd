"""The contrastive loss and its gradient in closed form: the fast path for weights that carry no gradient.

The two views are 2N points of one symmetric problem. With x_ab = θ(a,b)/τ and e_ab = exp(x_ab), anchor a has

    D_a = e_aa' + Σ_b w_ab e_ab,    J = 1/(2N) Σ_a (log D_a - x_aa'),
    ∂J/∂θ(a,b) = e_ab (w_ab u_a + w_ba u_b),    u_a = 1 / (2Nτ D_a),

a' being the same node in the other view, and b every other node of either view. (θ/τ ≤ 34, so that exp needs no
shift in single precision.)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from progcl.tiles import Plan, Tiles, Workspace

CHUNK = 128  # anchors at once in the arithmetic of synthetic negatives, which then stays in the cache
TINY = 1e-12  # least squared length of a mixed vector


def contrast(
    views: tuple[Tensor, Tensor], tau: float, plan: Plan, workspace: Workspace, wanted: bool = True
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Loss and, if wanted, gradient [N, d] of both views' unit vectors; None where only complete rows can tell.

    That is where an anchor's weights are all 0, or where synthetic negatives find no room for the store.
    """
    tiles = Tiles(views, tau, plan, workspace)
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
    total = positive.exp() + mass
    scale = 1 / (2 * len(positive))
    loss = (total.log().sum() - 2 * positive.sum()) * scale
    if not wanted:
        return loss, loss, loss
    pull = scale / tau / total
    push = pull if norm is None else pull / norm
    if mixed:
        mixed.add_gradient(pull)
    first, second = tiles.gradient(push, in_place=mixed is not None)
    at_positive = positive.exp().mul_(pull.sum(dim=0)).sub_(2 * scale / tau).unsqueeze(1)
    return loss, first.addcmul_(at_positive, views[1]), second.addcmul_(at_positive, views[0])


class Mixed:
    """One step's synthetic negatives: cosines from the store's tiles, gradients back into them.

    θ(a, ũ) = (α θ(a,p) + (1-α) θ(a,q)) r with r^-2 = 1 - 2α(1-α)(1-θ(p,q)), the length of the mixed vector.
    """

    def __init__(self, tiles: Tiles, plan: Plan) -> None:
        assert plan.pairs is not None
        self.tiles = tiles
        self.plan = plan
        self.first, self.second = plan.pairs
        self.gathered: list[tuple[Tensor, Tensor]] = []

    def masses(self) -> Tensor:
        """Σ e^{θ(a,ũ)/τ} of every anchor, [2, N]."""
        mass = self.tiles.views[0].new_empty(2, len(self.tiles.views[0]))
        for view, anchors, to_anchor, between in self._chunks():
            similar = self.tiles.store.index_select(0, to_anchor.flatten()).log_().view_as(to_anchor)
            cosine = self.tiles.store.index_select(0, between.flatten()).log_().mul_(self.tiles.tau)
            self.gathered.append((similar, cosine.view_as(between)))
            _, _, length, mixed = self._mix(view, anchors, *self.gathered[-1])
            mass[view, anchors] = mixed.mul_(length).exp_().sum(dim=0)
        return mass

    def add_gradient(self, pull: Tensor) -> None:
        """Turn the store's tiles into gradients, and add those of the synthetic negatives."""
        self.tiles.pull_in_place(pull)
        for number, (view, anchors, to_anchor, between) in enumerate(self._chunks()):
            similar, cosine = self.gathered[number]
            alpha, squared, length, mixed = self._mix(view, anchors, similar, cosine)
            rest = 1 - alpha
            theta = mixed.mul(length)
            grad = theta.exp().mul_(pull[view, anchors]).mul_(length)
            at_similar = torch.zeros_like(similar).index_add_(0, self.first, grad * alpha)
            at_similar.index_add_(0, self.second, grad * rest)
            self.tiles.store.scatter_add_(0, to_anchor.flatten(), at_similar.flatten())
            grad.mul_(alpha).mul_(rest).mul_(length).mul_(theta).mul_(-self.tiles.tau).masked_fill_(squared < TINY, 0)
            self.tiles.store.scatter_add_(0, between.flatten(), grad.flatten())

    def _mix(self, view: int, anchors: slice, similar: Tensor, cosine: Tensor) -> tuple[Tensor, ...]:
        """α, r^-2, r, and θ/τ before the division by the length, [m, c] each."""
        strength = self._strength(view, anchors)
        lean, rest = strength.index_select(0, self.first), strength.index_select(0, self.second)
        alpha = torch.where(lean + rest > 0, lean / (lean + rest), 0.5)
        squared = (1 - alpha).mul_(alpha).mul_(cosine - 1).mul_(2).add_(1)
        mixed = torch.lerp(similar.index_select(0, self.second), similar.index_select(0, self.first), alpha)
        return alpha, squared, squared.clamp_min(TINY).rsqrt_(), mixed

    def _strength(self, view: int, anchors: slice) -> Tensor:
        frozen, place = self.tiles.workspace.frozen, (view, anchors.start, anchors.stop)
        if place not in frozen:
            assert self.plan.strength is not None
            frozen[place] = self.plan.strength(view, anchors)
        return frozen[place]

    def _chunks(self) -> Iterator[tuple[int, slice, Tensor, Tensor]]:
        """View, anchors, and the store's addresses of θ(a,p), [N', c], and of θ(p,q), [m, c]."""
        layout, like = self.tiles.layout, self.first
        side, row = layout.side, len(layout.blocks)
        for view in (0, 1):
            above = layout.table([layout.place(block, 0, 1 - view) for block in range(row)], side, like)
            along = layout.table([block * layout.slots * side**2 for block in range(row)], 1, like)
            for number, block in enumerate(layout.blocks):
                places = [self._place(view, number, other) for other in range(row)]
                own = layout.table(places, (1, side)[view], like)
                for start in range(block.start, block.stop, CHUNK):
                    anchors = slice(start, min(start + CHUNK, block.stop))
                    columns = self.plan.columns[view][:, anchors].long()
                    shape, flat = columns.shape, columns.flatten()
                    within = torch.arange(start - block.start, anchors.stop - block.start, device=like.device)
                    to_anchor = own.index_select(0, flat).view(shape).add_(within * (side, 1)[view])
                    between = above.index_select(0, flat).view(shape).index_select(0, self.first)
                    between += along.index_select(0, flat).view(shape).index_select(0, self.second)
                    yield view, anchors, to_anchor, between

    def _place(self, view: int, block: int, other: int) -> int:
        """The tile of view's anchors in `block` and the other view's candidates in `other`."""
        straight = block <= other if view == 0 else other <= block
        return self.tiles.layout.place(min(block, other), max(block, other), 2 if straight else 3)
