"""A Jensen-Shannon loss of one view: positives are near, all other rows are far, each pair by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from progcl.errors import InputError
from progcl.graph.sparse import row_pointer
from progcl.losses.numerics import full_precision, normalize_rows
from progcl.miners.base import iterate_blocks

EPSILON = 1e-6  # inside the logarithms, as in the original


class NeighborJSD(nn.Module):
    """The normalized Jensen-Shannon estimator of SIGNA, exact in memory linear in the rows::

        J = -1/N Σ_i [mean_{j∈P_i} log(D_ij + ε) + mean_{j∉P_i} log(1 - D_ij + ε)],    D_ij = (θ(i,j) + 1) / 2,

    P_i being the positives of row i and i itself.

    Sun, Chen, Qiao, Zheng, Wang: Single-View Graph Contrastive Learning with Soft Neighborhood Awareness (2025).

    Args:
        block_size: rows at a time; memory grows with it, the result does not change
    """

    def __init__(self, block_size: int | None = None) -> None:
        super().__init__()
        self.block_size = block_size

    def forward(self, h: Tensor, positives: Tensor) -> Tensor:
        """The loss of rows h [N, d] with pairs (row, positive) [2, P]; a repeated pair counts once.

        Raises:
            InputError: there are fewer than two rows, or these are no finite floating-point numbers
        """
        if h.dim() != 2 or len(h) < 2:
            raise InputError(f"a contrast needs rows [N, d] with N ≥ 2 (got {list(h.shape)})")
        rows = torch.arange(len(h), device=h.device)
        pairs = torch.cat([positives.to(h.device), torch.stack([rows, rows])], dim=1)
        key = (pairs[0] * len(h) + pairs[1]).unique()
        counts = torch.bincount(key // len(h), minlength=len(h))
        with full_precision(h):
            (z,) = normalize_rows(h)
            loss: Tensor = _JSD.apply(z, row_pointer(counts), key % len(h), self.block_size)  # type: ignore[no-untyped-call]
            return loss.to(h.dtype)


class _JSD(torch.autograd.Function):
    """Computes the gradient together with the loss: what is saved for the backward pass is of size [N, d]."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, rowptr: Tensor, column: Tensor, block_size: int | None) -> Tensor:
        total, grad = z.new_zeros(()), torch.zeros_like(z)
        for rows in iterate_blocks(len(z), block_size):
            counts = rowptr[rows.start : rows.stop + 1].diff()
            row = torch.arange(len(counts), device=z.device).repeat_interleave(counts)
            pair = (row, column[rowptr[rows.start] : rowptr[rows.stop]])
            near, far = counts.to(z.dtype).unsqueeze(1), (len(z) - counts).clamp_min(1).to(z.dtype).unsqueeze(1)
            d = (z[rows] @ z.T).add_(1).div_(2).clamp_(0, 1)
            positive = d[pair] + EPSILON
            rest = 1 - d + EPSILON
            terms = rest.log().div_(far)
            terms[pair] = positive.log() / near[row, 0]
            total -= terms.sum()
            slope = rest.reciprocal_().div_(2 * far)
            slope[pair] = -0.5 / positive / near[row, 0]
            grad[rows] += slope @ z
            grad += slope.T @ z[rows]
        ctx.save_for_backward(grad / len(z))
        return total / len(z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = ctx.saved_tensors
        return grads[0] * grad, None, None, None
