"""Rows of features, dense or sparse: wide features that are mostly zero are never held as a dense matrix."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from torch import Tensor
from torch_geometric.data import Data

MAX_DENSE_BYTES = 2**27  # of sparse features that are small enough to be held as a dense matrix
ROWS_PER_CHUNK = 1024  # that are dense at once
MAX_DENSITY = 0.1  # share of nonzero entries above which sparse features save nothing


def is_sparse(x: Tensor) -> bool:
    """Whether rows are stored as a sparse (CSR) matrix."""
    return x.layout == torch.sparse_csr


def build_csr(counts: Tensor, column: Tensor, value: Tensor, num_columns: int) -> Tensor:
    """A CSR matrix from the number of entries of each row, and the entries' columns and values in row order."""
    rowptr = torch.zeros(len(counts) + 1, dtype=torch.int32, device=counts.device)
    rowptr[1:] = counts.cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rowptr, column.int(), value, (len(counts), num_columns), check_invariants=False)


def from_scipy(matrix: Any) -> Tensor:
    """A sparse matrix of scipy as features [N, F] in float32: sparse if they are wide and mostly zero, else dense."""
    rows, columns = matrix.shape
    if 4 * rows * columns <= MAX_DENSE_BYTES or matrix.nnz > MAX_DENSITY * rows * columns:
        return torch.from_numpy(matrix.toarray().astype(np.float32, copy=False))
    csr = scipy.sparse.csr_array(matrix)
    csr.sum_duplicates()
    counts, column = torch.from_numpy(np.diff(csr.indptr)), torch.from_numpy(csr.indices)
    return build_csr(counts, column, torch.from_numpy(csr.data.astype(np.float32)), columns)


def from_tensor(x: Tensor) -> Tensor:
    """Features in a tensor of any layout, as `from_scipy` returns them; dense ones stay as they are."""
    if x.layout == torch.strided or x.dim() != 2:
        return x
    if is_sparse(x):
        return from_scipy(to_scipy(x))
    coo = (x if x.layout == torch.sparse_coo else x.to_sparse_coo()).coalesce()
    indices, values = coo.indices().numpy(), coo.values().numpy()
    return from_scipy(scipy.sparse.coo_array((values, tuple(indices)), tuple(x.shape)))


def to_scipy(x: Tensor) -> Any:
    """Sparse rows as a matrix of scipy, which shares their memory on the CPU."""
    parts = (part.cpu().numpy() for part in (x.values(), x.col_indices(), x.crow_indices()))
    return scipy.sparse.csr_array(tuple(parts), tuple(x.shape))


def split_rows(x: Tensor, size: int) -> Iterator[Tensor]:
    """Dense chunks of so many rows; those of dense or mapped rows are views."""
    if not is_sparse(x):
        yield from x.split(size)
        return
    matrix = to_scipy(x)
    for start in range(0, len(x), size):
        yield torch.from_numpy(matrix[start : start + size].toarray()).to(x.device)


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Some rows [n, F], dense."""
    return torch.from_numpy(to_scipy(x)[index.cpu().numpy()].toarray()).to(x.device) if is_sparse(x) else x[index]


def unit_rows(x: Tensor, norm: str = "l2") -> Any:
    """Sparse rows with norm 1, as a matrix of scipy in float32."""
    return normalize(to_scipy(x).astype(np.float64), norm=norm).astype(np.float32)


def column_ranges(x: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of every column, [F] each; NaN where there is one."""
    low, high = np.full(x.size(1), np.inf, np.float32), np.full(x.size(1), -np.inf, np.float32)
    for chunk in split_rows(x, ROWS_PER_CHUNK):
        rows = chunk.numpy()  # whose reductions over rows are several times faster than torch's
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return torch.from_numpy(low), torch.from_numpy(high)


def all_finite(x: Tensor) -> bool:
    """Whether all entries are finite numbers; without a copy of them."""
    return all(bool(part.isfinite().all()) for part in values_of(x).split(ROWS_PER_CHUNK))


def values_of(x: Tensor) -> Tensor:
    """The entries that are stored: all of dense rows, the nonzero ones of sparse rows."""
    return x.values() if is_sparse(x) else x


def make_dense(data: Data) -> Data:
    """A graph with dense features, for all that needs them."""
    if not is_sparse(data.x):
        return data
    dense = copy.copy(data)
    dense.x = data.x.to_dense()
    return dense
