"""Sparse matrices for message passing: CSR with its transpose, products with a gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.rows import build_csr
from progcl.seeding import HASH_RANGE, hash_pairs

MAX_SPARSE_DENSITY = 0.1  # above this share of nonzero entries a dense product is faster


class SparseMatrix(NamedTuple):
    """A matrix and its transpose, both CSR: one for the forward, one for the backward product."""

    csr: Tensor
    transpose: Tensor

    def select_rows(self, rows: Tensor) -> SparseMatrix:
        """The submatrix of some rows, ascending."""
        rowptr, column, value = self.csr.crow_indices(), self.csr.col_indices(), self.csr.values()
        counts = rowptr.diff()[rows]
        entry = concat_ranges(rowptr[rows], counts)
        new_row = torch.full((len(rowptr) - 1,), -1, device=rows.device)
        new_row[rows] = torch.arange(len(rows), device=rows.device)
        transpose_rowptr, transpose_column = self.transpose.crow_indices(), new_row[self.transpose.col_indices()]
        mask = transpose_column >= 0
        transpose_counts = row_pointer(mask)[transpose_rowptr].diff()
        return SparseMatrix(
            build_csr(counts, column[entry], value[entry], self.csr.size(1)),
            build_csr(transpose_counts, transpose_column[mask], self.transpose.values()[mask], len(rows)),
        )


def propagate(x: Tensor, matrix: SparseMatrix) -> Tensor:
    """Sparse product A·X; with a normalized adjacency, one step of message passing."""
    out: Tensor = _Product.apply(x, matrix)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.csr @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transpose @ grads[0].contiguous(), None


def scale_features(data: Data) -> Tensor:
    """The features [N, F], multiplied by `row_scale` [N] if the data has it (memory-mapped features do)."""
    x: Tensor = data.x
    scale: Tensor | None = data.get("row_scale")
    return x if scale is None else x * scale.to(x.device).unsqueeze(1)


def choose_format(x: Tensor) -> Tensor | SparseMatrix:
    """The features as a sparse matrix if that makes the product with weights faster, else as they are."""
    if x.requires_grad or x.count_nonzero() > MAX_SPARSE_DENSITY * x.numel():
        return x
    row, column = x.nonzero().T
    by_column = column.argsort(stable=True)
    value, (num_rows, num_columns) = x[row, column], x.shape
    return SparseMatrix(
        build_csr(torch.bincount(row, minlength=num_rows), column, value, num_columns),
        build_csr(torch.bincount(column, minlength=num_columns), row[by_column], value[by_column], num_rows),
    )


def drop_entries(x: Tensor, nodes: Tensor, rate: float, key: int) -> Tensor:
    """Dropout of entries of x [n, d], the rows of `nodes` [n]; the others are scaled by 1 / (1 - rate).

    Whether an entry is dropped is a hash of a random key, its node and its column: the same however nodes are split
    over processes.
    """
    columns = torch.arange(x.size(1), device=x.device)
    return x * (hash_pairs(key, nodes.unsqueeze(1), columns) >= rate * HASH_RANGE) / (1 - rate)


def drop_features(features: Tensor | SparseMatrix, rate: float, key: int) -> Tensor | SparseMatrix:
    """The same of the features of all nodes [N, F], dense or sparse."""
    if isinstance(features, Tensor):
        return drop_entries(features, torch.arange(len(features), device=features.device), rate, key)

    def drop(matrix: Tensor, is_transpose: bool) -> Tensor:
        counts, column = matrix.crow_indices().diff(), matrix.col_indices().long()
        row = torch.arange(len(counts), device=column.device).repeat_interleave(counts)
        keep = hash_pairs(key, *((column, row) if is_transpose else (row, column))) >= rate * HASH_RANGE
        return build_csr(counts, column, matrix.values() * keep / (1 - rate), matrix.size(1))

    return SparseMatrix(drop(features.csr, False), drop(features.transpose, True))


def row_pointer(counts: Tensor) -> Tensor:
    """Exclusive prefix sum [n+1] of counts [n]: where each row begins, and the end of the last."""
    return torch.cat([counts.new_zeros(1, dtype=torch.long), counts.cumsum(0)])


def concat_ranges(start: Tensor, counts: Tensor) -> Tensor:
    """The ranges start[i], ..., start[i] + counts[i] - 1, one after the other."""
    ends = counts.cumsum(0)
    return torch.arange(int(counts.sum()), device=counts.device) + (start - ends + counts).repeat_interleave(counts)
