"""InfoNCE of one view with any number of positives per anchor, such as the neighbors in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from progcl.distributed import shard_slice
from progcl.errors import InputError
from progcl.graph.sparse import row_pointer
from progcl.losses.numerics import row_loss
from progcl.miners.base import Block, iterate_blocks

if TYPE_CHECKING:
    from progcl.losses.infonce import InfoNCE


class Positives(NamedTuple):
    """Pairs grouped by anchor.

    Attributes:
        anchors: rows with at least one positive and one negative, ascending, [a]
        rowptr: where each anchor's positives begin in `column`, [a + 1]
        column: the positives' rows [P], each once for an anchor, ascending
    """

    anchors: Tensor
    rowptr: Tensor
    column: Tensor

    def fewest_negatives(self, rows: int) -> int:
        """Of any anchor, among so many rows."""
        return rows - 1 - int(self.rowptr.diff().max()) if len(self.anchors) else rows - 1


def group_by_anchor(pairs: Tensor, rows: int) -> Positives:
    """Group pairs (anchor, positive) of rows [2, P]; a repeated pair counts once, a row is no positive of itself.

    Raises:
        InputError: the pairs are no integers [2, P], or name a row that does not exist
    """
    if pairs.dim() != 2 or len(pairs) != 2 or pairs.is_floating_point() or pairs.dtype == torch.bool:
        hint = "pairs of rows (anchor, positive), such as `edge_index`"
        raise InputError(f"`positives` need to be integers [2, P] (got {pairs.dtype} {list(pairs.shape)})", hint)
    low, high = (int(bound) for bound in pairs.aminmax()) if pairs.numel() else (0, 0)
    if low < 0 or high >= rows:
        hint = f"rows are numbered from 0 to {rows - 1}"
        raise InputError(f"`positives` name row {low if low < 0 else high}, which does not exist", hint)
    anchor, column = pairs.long()
    key = (anchor * rows + column)[anchor != column].unique()
    counts = torch.bincount(key // rows, minlength=rows)
    is_anchor = (counts > 0) & (counts < rows - 1)  # without negatives, the loss of an anchor is 0
    key = key[is_anchor[key // rows]]
    return Positives(is_anchor.nonzero().flatten(), row_pointer(counts[is_anchor]), key % rows)


def contrast(
    loss: InfoNCE, positives: Positives, z: tuple[Tensor, ...], needs_grad: Sequence[bool]
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """Loss and gradient of unit vectors [N, d], in blocks of complete rows; each pair (i, j) weighs the same::

        J = 1/P Σ_(i,j) log(1 + M_i e^{-θ(i,j)/τ}),    M_i = Σ_k w_ik e^{θ(i,k)/τ},

    k being the rows that are no positives of i. Where the weights carry no gradient, it is in closed form. With
    x_ij = θ(i,j)/τ, P ∂J/∂x_ij = -M_i / (e^{x_ij} + M_i) for positives, and for negatives
    P ∂J/∂x_ik = w_ik e^{x_ik} Σ_j 1 / (e^{x_ij} + M_i), summed over the positives j of i.
    """
    (vectors,), with_gradient = z, any(needs_grad)
    plan = loss.plan()
    in_closed_form = plan is not None and not plan.candidates
    leaf = vectors.detach().requires_grad_(with_gradient and not in_closed_form)
    grad = torch.zeros_like(vectors)
    total = vectors.new_zeros(())
    own = shard_slice(len(positives.anchors), loss.shard.position)
    for rows in iterate_blocks(len(vectors), loss.block_size, own.start, own.stop):
        with torch.set_grad_enabled(leaf.requires_grad):
            pairs = _PairBlock.cut(leaf, positives, rows, loss.tau)
            if in_closed_form:
                value = pairs.add_gradient(loss, grad) if with_gradient else pairs.loss(loss)
            else:
                value = pairs.loss(loss)
        if leaf.requires_grad:
            grad += torch.autograd.grad(value, leaf)[0]
        total += value.detach()
    scale = 1 / max(1, len(positives.column))
    total, grad = total * scale, grad * scale
    loss.shard.reduce(total, grad)
    return total, (grad,)


@dataclass(frozen=True)
class _PairBlock:
    """A block of anchors with their p pairs.

    Attributes:
        block: the anchors against all rows; the similarity with "the" positive is that of the mean of e^{θ/τ} over them
        row: the anchor of each pair as a row of the block [p]
        column: the positive of each pair [p]
        sim: their similarities [p]
    """

    block: Block
    row: Tensor
    column: Tensor
    sim: Tensor

    @classmethod
    def cut(cls, z: Tensor, positives: Positives, rows: slice, tau: float) -> _PairBlock:
        """The anchors of a slice."""
        anchors, rowptr = positives.anchors[rows], positives.rowptr[rows.start : rows.stop + 1]
        column, counts = positives.column[rowptr[0] : rowptr[-1]], rowptr.diff()
        row = torch.arange(len(anchors), device=z.device).repeat_interleave(counts)
        sim = z[anchors] @ z.T
        pair_sim = sim[row, column]
        mean = torch.zeros_like(sim[:, 0]).index_add(0, row, pair_sim.sub(1).div(tau).exp()) / counts
        excluded = torch.zeros_like(sim, dtype=torch.bool)
        excluded[row, column] = True
        block = Block(sim.unsqueeze(1), 1 + tau * mean.log(), (z,), anchors, 0, tau, excluded)
        return cls(block, row, column, pair_sim)

    def loss(self, loss: InfoNCE) -> Tensor:
        """Sum of the pairs' losses."""
        return row_loss(loss.mass(self.block)[self.row], self.sim, loss.tau).sum()

    def add_gradient(self, loss: InfoNCE, grad: Tensor) -> Tensor:
        """Sum of the pairs' losses, whose gradient in closed form is added to `grad` [N, d]."""
        block, z = self.block, self.block.banks[0]
        terms, weight = block.masked(block.exp(block.sim), 0), loss.miner.weight(block)
        terms = (terms if weight is None else terms * weight).squeeze(1)
        mass, positive = terms.sum(dim=1), block.exp(self.sim)
        total = positive + mass[self.row]
        slope = terms * torch.zeros_like(mass).index_add(0, self.row, total.reciprocal()).unsqueeze(1)
        slope[self.row, self.column] = -mass[self.row] / total
        slope /= loss.tau
        grad.index_add_(0, block.rows, slope @ z)
        grad += slope.T @ z[block.rows]
        return row_loss(mass[self.row], self.sim, loss.tau).sum()
