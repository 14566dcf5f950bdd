"""Tables and arrays in Python (pandas, polars, pyarrow, numpy, torch) as graphs: edges told from features."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from progcl.data.arrays import matrix_graph, orient_edges
from progcl.data.columns import ID_HEADERS, Column, Text, code_text, match_edge_headers, match_headers
from progcl.data.edge_lists import read_edges
from progcl.data.networks import to_column
from progcl.data.parquet import from_arrow
from progcl.data.tables import RawGraph, Table, as_array, link_names, numbered_graph
from progcl.data.weights import refuse_name

MISSING_TYPES = {"NAType", "NaTType", "NoneType"}  # pandas' own and Python's


class Frame:
    """A table of pandas, polars or pyarrow with the interface of a file of columns."""

    path = Path("the table")
    has_header = True

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.keys = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
        self.names = [str(key) for key in self.keys]

    def all_names(self) -> list[str]:
        """Names of all columns."""
        return self.names

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers."""
        column = _to_column(self.frame[self.keys[self.names.index(name)]])
        return column is not None and not isinstance(column, Text) and column.ndim == 1

    def read(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Column]:
        """The columns of the table; those that are neither numbers, text nor lists of numbers are left out."""
        columns = {name: _to_column(self.frame[self.keys[self.names.index(name)]]) for name in names}
        return {name: column for name, column in columns.items() if column is not None}


def is_frame(value: Any) -> bool:
    """Whether a value is a table with named columns."""
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return named and hasattr(value, "__getitem__") and hasattr(value, "shape")


def is_edges(value: Any) -> bool:
    """Whether a table or array looks like edges rather than features.

    A table does with columns named so, or with two columns of names or whole numbers; an array of whole numbers does
    with two rows or two columns, and one of names with two columns. Lists of pairs are arrays, too.
    """
    if is_frame(value):
        frame = Frame(value)
        columns = frame.read(frame.names, []) if len(frame.names) == 2 else {}
        return match_edge_headers(frame.names) is not None or (len(columns) == 2 and all(map(_names, columns.values())))
    array = _to_pairs(value)
    if array is not None and is_names(array):
        return bool(array.shape[1] == 2)
    if array is None or scipy.sparse.issparse(array) or array.dtype.kind not in "iu" or array.ndim != 2:
        return False
    return 2 in array.shape and array.shape != (2, 2) and bool(array.size) and int(array.min()) >= 0


def is_numeric(frame: Any) -> bool:
    """Whether every column of a table holds numbers."""
    columns = Frame(frame).read(Frame(frame).names, [])
    return not any(isinstance(column, Text) for column in columns.values())


def is_names(value: Any) -> bool:
    """Whether an array holds text, in rows and columns."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in ("U", "O") or value.ndim != 2:
        return False
    return kind == "U" or all(isinstance(cell, str) for cell in value.reshape(-1).tolist())


def looks_like_adjacency(value: Any) -> bool:
    """Whether an array of features is more likely an adjacency matrix: symmetric, with zeros on the diagonal."""
    array = as_array(value) if hasattr(value, "shape") and not is_frame(value) else None
    if array is None or array.ndim != 2 or array.shape[0] != array.shape[1] or array.dtype.kind not in "iufb":
        return False
    return not array.diagonal().any() and bool(array.any()) and bool((array == array.T).all())


def _to_pairs(value: Any) -> Any:
    """An array, or a list as one; None for anything else."""
    if scipy.sparse.issparse(value):
        return value
    if isinstance(value, list) and value and all(isinstance(row, (list, tuple)) and len(row) == 2 for row in value):
        return np.asarray(value)
    return as_array(value) if hasattr(value, "shape") else None


def read_edge_value(
    value: Any, source: str | None = None, target: str | None = None, weight: str | None = None
) -> RawGraph:
    """A graph from a table of edges, an array of them [2, E] or [E, 2], or a square adjacency matrix.

    Weights are those of the column `weight`, or the entries of a matrix.
    """
    if is_frame(value):
        return read_edges(Frame(value), source, target, weight)
    array = as_array(value)
    if is_names(array) and array.shape[1] == 2:
        refuse_name(weight, "an array of edges")
        ends = (code_text(map(str, column)) for column in array.T.tolist())
        return link_names(*ends)
    if not scipy.sparse.issparse(array) and is_edges(array) and array.shape[0] != array.shape[1]:
        refuse_name(weight, "an array of edges")
        return numbered_graph(orient_edges(array))
    return matrix_graph(array, weight)


def read_node_table(value: Any) -> Table:
    """Features in a table, or in an array with a row for each node; the index of a pandas table names its rows."""
    if not is_frame(value):
        array = as_array(value)
        return Table({"x": array.reshape(-1, 1) if array.ndim == 1 else array}, names_nodes=False, file="the features")
    frame = Frame(value)
    columns = frame.read(frame.names, [])
    index = getattr(value, "index", None)
    has_names = index is not None and type(index).__name__ != "RangeIndex"
    if has_names:
        columns = {"": _to_column(index), **columns}
    first = next(iter(columns.values()), None)
    named = has_names or bool(match_headers(frame.names, ID_HEADERS)) or isinstance(first, Text)
    return Table(columns, names_nodes=named, file="the features")


def _to_column(series: Any) -> Column | None:
    if "pyarrow" in sys.modules and type(series).__name__ == "ChunkedArray":
        return from_arrow(series)
    array = np.asarray(series)
    if array.dtype.kind in "iufb":
        return array
    if array.dtype.kind == "M":
        seconds = array.astype("datetime64[s]")
        return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64).astype(np.float64))
    return to_column([None if _is_missing(cell) else cell for cell in array.tolist()])


def _is_missing(cell: Any) -> bool:
    return type(cell).__name__ in MISSING_TYPES or (isinstance(cell, float) and cell != cell)


def _names(column: Column) -> bool:
    """Whether a column may name nodes: text, or whole numbers from 0."""
    return isinstance(column, Text) or (column.dtype.kind in "iu" and column.ndim == 1 and bool((column >= 0).all()))
