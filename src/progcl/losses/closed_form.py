"""The contrastive loss and its gradient in closed form: the fast path for weights that carry no gradient.

The two views are 2N points of one symmetric problem. With x_ab = θ(a,b)/τ and e_ab = exp(x_ab), anchor a has::

    D_a = e_aa' + Σ_b w_ab e_ab,    J = 1/(2N) Σ_a (log D_a - x_aa'),
    ∂J/∂θ(a,b) = e_ab (w_ab u_a + w_ba u_b),    u_a = 1 / (2Nτ D_a),

a' being the same node in the other view, and b every other node of either view. (θ/τ ≤ 34, so that exp needs no
shift in single precision.)
"""

from __future__ import annotations

from torch import Tensor

from progcl.losses.mixed import Mixed
from progcl.losses.tiles import Shard, Tiles, Workspace
from progcl.miners.base import Plan


def contrast(
    views: tuple[Tensor, Tensor],
    tau: float,
    plan: Plan,
    workspace: Workspace,
    split: Shard,
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
    if plan.columns and tiles.stored < len(tiles.layout.pairs):
        return None
    mass, norm = tiles.masses()
    mixed = Mixed(tiles, plan) if plan.columns else None
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
