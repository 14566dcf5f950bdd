"""Sparse matrices for message passing: CSR in both directions, products with a gradient."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

DENSE = 0.1  # share of entries from which a dense product is the faster one


class Sparse(NamedTuple):
    """A sparse matrix and its transpose, both CSR: one for the forward, one for the backward product."""

    matrix: Tensor
    transpose: Tensor

    def rows(self, which: Tensor) -> Sparse:
        """Some rows of the matrix, ascending."""
        first, column, value = self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()
        counts = first.diff()[which]
        place = ranges(first[which], counts)
        new = torch.full((len(first) - 1,), -1, device=which.device)
        new[which] = torch.arange(len(which), device=which.device)
        first, turned = self.transpose.crow_indices(), new[self.transpose.col_indices()]
        kept = turned >= 0
        left = row_pointer(kept)[first].diff()
        return Sparse(
            csr_matrix_of(counts, column[place], value[place], self.matrix.size(1)),
            csr_matrix_of(left, turned[kept], self.transpose.values()[kept], len(which)),
        )


def propagate(x: Tensor, matrix: Sparse) -> Tensor:
    """A sparse product: with an adjacency one step of message passing, Â·X."""
    out: Tensor = _Product.apply(x, matrix)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return matrix.matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transpose @ grads[0].contiguous(), None


def scaled_rows(data: Data) -> Tensor:
    """The features, with the factors that mapped ones come with."""
    x: Tensor = data.x
    scale: Tensor | None = data.get("row_scale")
    return x if scale is None else x * scale.unsqueeze(1)


def sparse_or_dense(x: Tensor) -> Tensor | Sparse:
    """Features in the form of the faster product."""
    if x.requires_grad or x.count_nonzero() > DENSE * x.numel():
        return x
    row, column = x.nonzero().T
    turn = column.argsort(stable=True)
    value, (nodes, columns) = x[row, column], x.shape
    return Sparse(
        csr_matrix_of(torch.bincount(row, minlength=nodes), column, value, columns),
        csr_matrix_of(torch.bincount(column, minlength=columns), row[turn], value[turn], nodes),
    )


def csr_matrix_of(counts: Tensor, column: Tensor, value: Tensor, columns: int) -> Tensor:
    """A matrix from its rows' numbers of entries, and all entries in the order of rows."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32, device=counts.device)
    starts[1:] = counts.cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, column.int(), value, (len(counts), columns), check_invariants=False)


def row_pointer(counts: Tensor) -> Tensor:
    """Where each of so many begins, and the end of the last."""
    return torch.cat([counts.new_zeros(1, dtype=torch.long), counts.cumsum(0)])


def ranges(start: Tensor, counts: Tensor) -> Tensor:
    """start[0], start[0] + 1, ... so many times, then the same from start[1], ..."""
    ends = counts.cumsum(0)
    return torch.arange(int(counts.sum()), device=counts.device) + (start - ends + counts).repeat_interleave(counts)
