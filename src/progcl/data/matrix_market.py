"""Matrices in Matrix Market's format (Boisvert, Pozo and Remington, 1996), as .mtx.

SciPy has a faster reader, which breaks off the whole process on some broken files (1.17: a matrix without rows, an
oblong one that is declared symmetric, damaged coordinates).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse

from progcl.data.columns import Array
from progcl.files import open_binary, require_counted

MAX_LINE = 2**16
ENTRY_BYTES = 2  # at least, a digit and the end of a line
MIRROR = {"general": 0, "symmetric": 1, "skew-symmetric": -1}  # sign of the entry across the diagonal


def read_matrix_market(path: Path) -> Any:
    """The matrix, sparse if its entries have coordinates, else dense.

    Raises:
        ValueError: if the file is not in this format, or its numbers are complex
    """
    with open_binary(path) as file:
        layout, field, mirror = _read_banner(file)
        sizes = _read_sizes(file, path.stat().st_size * (1 if path.suffix.lower() != ".gz" else 1000))
        if len(sizes) != (2 if layout == "array" else 3):
            raise ValueError(f"{len(sizes)} sizes in its header")
        if mirror and sizes[0] != sizes[1]:
            raise ValueError(f"a symmetry of {sizes[0]} rows and {sizes[1]} columns")
        if layout == "array":
            return _read_array(file, sizes[0], sizes[1], mirror)
        return _read_coordinates(file, sizes, mirror, columns=2 if field == "pattern" else 3)


def _read_banner(file: IO[bytes]) -> tuple[str, str, int]:
    """Layout, type of the numbers, and symmetry."""
    words = file.readline(MAX_LINE).decode("ascii").lower().split()
    known = len(words) == 5 and words[:2] == ["%%matrixmarket", "matrix"] and words[2] in ("array", "coordinate")
    fields = ("real", "integer", "double", *(["pattern"] if words[2:3] == ["coordinate"] else []))
    if not known or words[3] not in fields or words[4] not in MIRROR:
        raise ValueError("its first line is not `%%MatrixMarket matrix coordinate real general`, or the like")
    return words[2], words[3], MIRROR[words[4]]


def _read_sizes(file: IO[bytes], size: int) -> list[int]:
    """Rows, columns, and entries if they have coordinates; raise if a file of `size` bytes cannot hold as many."""
    line = file.readline(MAX_LINE)
    while line.startswith(b"%") or (line and not line.strip()):
        line = file.readline(MAX_LINE)
    sizes = [int(word) for word in line.split()]
    if min(sizes, default=-1) < 0 or min(sizes[:2]) < 1:
        raise ValueError("its header declares no rows and columns")
    require_counted(max(sizes[:2]), size, "rows or columns")
    entries = sizes[2] if len(sizes) == 3 else math.prod(sizes) // 2  # half of a symmetric one is not written
    if ENTRY_BYTES * entries > size:
        raise ValueError(f"its header declares {entries:,} entries in {size:,} bytes")
    return sizes


def _read_rows(file: IO[bytes], rows: int, columns: int) -> Array:
    """Numbers [rows, columns], a row in a line."""
    numbers: Array = np.empty((0, columns))
    if rows:
        numbers = np.loadtxt(file, dtype=np.float64, comments="%", ndmin=2, max_rows=rows + 1)
    if numbers.shape != (rows, columns):
        raise ValueError(f"{numbers.shape[0]} lines of {numbers.shape[1]} numbers, {rows} of {columns} are declared")
    return numbers


def _read_coordinates(file: IO[bytes], sizes: list[int], mirror: int, columns: int) -> scipy.sparse.coo_matrix:
    entries = _read_rows(file, sizes[2], columns)
    numbers = entries[:, :2]
    if not ((numbers >= 1) & (numbers <= sizes[:2]) & (numbers == np.floor(numbers))).all():
        raise ValueError("an entry lies outside of the matrix")
    places = numbers.astype(np.int64) - 1
    values = entries[:, 2] if columns == 3 else np.ones(len(entries))
    if mirror:
        across = places[:, 0] != places[:, 1]
        places = np.vstack([places, places[across][:, ::-1]])
        values = np.concatenate([values, mirror * values[across]])
    return scipy.sparse.coo_matrix((values, places.T), (sizes[0], sizes[1]))


def _read_array(file: IO[bytes], rows: int, columns: int, mirror: int) -> Array:
    """Column after column; of a symmetric matrix the lower triangle, of a skew one without its diagonal."""
    if not mirror:
        return _read_rows(file, rows * columns, 1).reshape(columns, rows).T
    column, row = np.triu_indices(rows, k=0 if mirror > 0 else 1)
    values = _read_rows(file, len(row), 1)[:, 0]
    matrix: Array = np.zeros((rows, rows))
    matrix[column, row] = mirror * values
    matrix[row, column] = values
    return matrix
