"""The contrastive loss and its gradient in closed form: the fast path for weights that carry no gradient.

The two views are 2N points of one symmetric problem. With x_ab = θ(a,b)/τ and e_ab = exp(x_ab), anchor a has::

    M_a = Σ_b w_ab e_ab,    D_a = e_aa' + M_a,    J = 1/(2N) Σ_a (log D_a - x_aa'),
    ∂J/∂θ(a,b) = e_ab (w_ab u_a + w_ba u_b),    u_a = 1 / (2Nτ D_a),    ∂J/∂θ(a,a') = -(M_a u_a + M_a' u_a'),

a' being the same node in the other view, and b every other node of either view. (θ/τ ≤ 34, so that exp needs no
shift in single precision.) Tiles hold w̃_ab e_ab with w_ab = w̃_ab/n_a, n_a being a mean over the anchor's negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from progcl.losses.mixed import Mixed
from progcl.losses.tiles import Shard, TileStore, Workspace
from progcl.losses.weights import PlainWeights, WeightedTile, make_weights
from progcl.miners.base import Plan


def contrast(
    views: tuple[Tensor, Tensor],
    tau: float,
    plan: Plan,
    workspace: Workspace,
    shard: Shard,
    with_gradient: bool = True,
) -> tuple[Tensor, tuple[Tensor, ...]] | None:
    """Loss and gradient [N, d] of both views' unit vectors; None where only the generic path applies.

    That is where an anchor's weights are all 0, and where synthetic negatives meet a shard or a store that does not
    hold all tiles. With an all-reduce, every process gets the whole loss and gradient.
    """
    assert not (plan.probability and plan.candidates), "the store's addresses are those of tiles without weights"
    if plan.candidates and shard.position != (0, 1):
        return None
    weights = make_weights(views, tau, plan, workspace, shard)
    if plan.candidates and not weights.store.is_complete:
        return None
    mass, norm = _sum_masses(weights)
    if norm is not None:
        if not bool((norm > 0).all()):
            return None
        norm = norm / (len(views[0]) - 1)
        mass = mass / norm
    mixed = Mixed(weights, plan) if plan.candidates else None
    if mixed:
        mass = mass + mixed.masses()
    positive = (views[0] * views[1]).sum(dim=1) / tau
    scale = 1 / (2 * len(positive))
    loss = mass.div(positive.exp()).log1p_().sum() * scale
    if not with_gradient:
        return loss, ()
    u = scale / tau / (positive.exp() + mass)
    if mixed:
        mixed.write_gradient(u)
    first, second = _gradient(weights, u if norm is None else u / norm, is_written=mixed is not None)
    at_positive = (mass * u).sum(dim=0).neg_().unsqueeze(1)
    return loss, (first.addcmul_(at_positive, views[1]), second.addcmul_(at_positive, views[0]))


def _sum_masses(weights: PlainWeights) -> tuple[Tensor, Tensor | None]:
    """Σ w̃ e of every anchor, [2, N], and Σ w̃ where it is not 1."""
    view = weights.store.views[0]
    mass = view.new_zeros(2, len(view))
    norm = torch.zeros_like(mass) if weights.has_norms else None
    for pair in weights.store.layout.pairs:
        for tile, for_rows, for_columns in weights.compute(pair, norm):
            mass[tile.a, tile.rows] += for_rows.sum(dim=1)
            if not tile.is_symmetric:
                mass[tile.b, tile.columns] += for_columns.sum(dim=0)
    weights.shard.reduce(*(sums for sums in (mass, norm) if sums is not None))
    return mass, norm


def _gradient(weights: PlainWeights, u: Tensor, is_written: bool) -> tuple[Tensor, Tensor]:
    """Σ_b ∂J/∂θ(a,b) z_b of every anchor, [N, d] for each view, from u_a/n_a [2, N].

    `is_written`: the store holds ∂J/∂θ already, and more that is not symmetric.
    """
    store = weights.store
    grads = (torch.zeros_like(store.views[0]), torch.zeros_like(store.views[1]))
    for number, pair in enumerate(store.layout.pairs):
        for product in weights.recall(pair) if number < store.stored else weights.compute(pair):
            tile = product.tile
            slope = product.for_rows if is_written else _slope(product, u, store)
            grads[tile.a][tile.rows].addmm_(slope, store.views[tile.b][tile.columns])
            if is_written or not tile.is_symmetric:
                grads[tile.b][tile.columns].addmm_(slope.T, store.views[tile.a][tile.rows])
    weights.shard.reduce(*grads)
    return grads


def _slope(product: WeightedTile, u: Tensor, store: TileStore) -> Tensor:
    """∂J/∂θ = e_ab (w_ab u_a + w_ba u_b) of a tile."""
    tile, for_rows, for_columns = product
    out = store.scratch("tile", for_rows.shape)
    of_rows, of_columns = u[tile.a, tile.rows, None], u[tile.b, tile.columns]
    if for_rows is for_columns:
        return torch.add(of_rows, of_columns, out=out).mul_(for_rows)
    return torch.mul(for_rows, of_rows, out=out).addcmul_(for_columns, of_columns)
