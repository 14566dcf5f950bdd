"""Losses of one view that take each pair by itself: positives are told from all other pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from progcl.config.schema import LossConfig
from progcl.errors import InputError
from progcl.graph.sparse import row_pointer
from progcl.losses.numerics import full_precision, normalize_rows
from progcl.miners.base import iterate_blocks

EPSILON = 1e-6  # inside the logarithms, as in the original
TILE_ROWS = 1024


class NeighborJSD(nn.Module):
    """The normalized Jensen-Shannon estimator of SIGNA, exact in memory linear in the rows::

        J = -1/N Σ_i [mean_{j∈P_i} log(D_ij + ε) + mean_{j∉P_i} log(1 - D_ij + ε)],

    P_i being the positives of row i and i itself. D_ij is (θ(i,j) + 1) / 2, or with a temperature σ(θ(i,j) / τ), with
    ε = 0: then a pair counts the more, the more it is on the wrong side.

    Sun, Chen, Qiao, Zheng, Wang: Single-View Graph Contrastive Learning with Soft Neighborhood Awareness (2025). The
    sigmoid comes from Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training (2023), who do not
    average over positives and negatives.

    Args:
        tau: temperature; None for SIGNA's D
        block_size: rows of a tile; memory grows with it, the result does not change
    """

    def __init__(self, tau: float | None = None, block_size: int | None = None) -> None:
        super().__init__()
        if tau is not None:
            LossConfig(tau)  # raises if it is out of range
        self.block_size = block_size
        self.terms: _Terms = _Shares() if tau is None else _Sigmoid(tau)

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
        side = self.block_size or TILE_ROWS
        with full_precision(h):
            (z,) = normalize_rows(h)
            loss: Tensor = _JSD.apply(z, key // len(h), key % len(h), side, self.terms)  # type: ignore[no-untyped-call]
            return loss.to(h.dtype)


class _Terms(Protocol):
    """What a pair with cosine θ adds to the loss, and the derivative of that by θ."""

    def positive(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """Of positives: -log D."""

    def negative(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """Of all other pairs: -log(1 - D)."""


class _Shares:
    """D = (θ + 1) / 2, with ε inside of the logarithms."""

    def positive(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        share = cosine.add(1).div_(2).clamp_(0, 1).add_(EPSILON)
        return -share.log(), -0.5 / share

    def negative(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        rest = 1 - cosine.add(1).div_(2).clamp_(0, 1) + EPSILON
        return -rest.log(), 0.5 / rest


@dataclass(frozen=True)
class _Sigmoid:
    """D = σ(θ / τ)."""

    tau: float

    def positive(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        logit = cosine / -self.tau
        return softplus(logit), torch.sigmoid(logit) / -self.tau

    def negative(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        logit = cosine / self.tau
        return softplus(logit), torch.sigmoid(logit) / self.tau


class _JSD(torch.autograd.Function):
    """Computes the gradient together with the loss: what is saved for the backward pass is of size [N, d].

    D is symmetric, so that the tile of rows a and columns b > a serves the terms of b and a, too.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, row: Tensor, column: Tensor, side: int, terms: _Terms) -> Tensor:
        near = torch.bincount(row, minlength=len(z)).to(z.dtype)  # of every row, itself included
        far = (len(z) - near).clamp_min(1)
        pairs = _TilePairs(row, column, len(z), side)
        total, grad = z.new_zeros(()), torch.zeros_like(z)
        blocks = list(iterate_blocks(len(z), side))
        for a, rows in enumerate(blocks):
            for b, columns in enumerate(blocks[a:], start=a):
                cosine = z[rows] @ z[columns].T
                weight = (1 / far[rows]).unsqueeze(1).repeat(1, cosine.size(1))
                forward = pairs.of(a, b)
                positives = [(forward, near[rows])]
                weight[forward] = 0
                if b > a:
                    backward = pairs.of(b, a)[::-1]
                    mirrored = (1 / far[columns]).expand_as(cosine).contiguous()
                    mirrored[backward] = 0
                    weight += mirrored
                    positives.append((backward, near[columns]))
                value, slope = terms.negative(cosine)
                total += value.mul_(weight).sum()
                slope *= weight
                for direction, (pair, counts) in enumerate(positives):
                    count, (own_value, own_slope) = counts[pair[direction]], terms.positive(cosine[pair])
                    total += (own_value / count).sum()
                    slope[pair] += own_slope / count  # a pair is there once, so that no entry is written twice
                grad[rows] += slope @ z[columns]
                grad[columns] += slope.T @ z[rows]
        ctx.save_for_backward(grad / len(z))
        return total / len(z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        (grad,) = ctx.saved_tensors
        return grads[0] * grad, None, None, None, None


class _TilePairs:
    """Pairs (row, column) of N rows by the tile that they are in."""

    def __init__(self, row: Tensor, column: Tensor, rows: int, side: int) -> None:
        self._tiles = -(-rows // side)
        tile = row // side * self._tiles + column // side
        order = tile.argsort(stable=True)
        self._start = row_pointer(torch.bincount(tile, minlength=self._tiles**2)).tolist()
        self._row, self._column = row[order] % side, column[order] % side

    def of(self, a: int, b: int) -> tuple[Tensor, Tensor]:
        """Rows and columns within the tile in row a and column b of tiles."""
        tile = a * self._tiles + b
        those = slice(self._start[tile], self._start[tile + 1])
        return self._row[those], self._column[those]
