"""Columns of tables: how they are stored, what counts as missing, and which column is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from progcl.errors import InputError, suggest

Array = NDArray[Any]

MISSING = frozenset({"", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "null", "NULL", "None", "<NA>", "#N/A", "?"})
NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[iI]nf(inity)?)")
EDGE_HEADERS = [
    *(("source", "target"), ("src", "dst"), ("src", "dest"), ("from", "to"), ("u", "v"), ("head", "tail")),
    *(("node1", "node2"), ("node_1", "node_2"), ("id_1", "id_2"), ("id1", "id2"), ("node_a", "node_b")),
    *(("source_id", "target_id"), ("src_id", "dst_id"), ("from_id", "to_id"), ("from_node", "to_node")),
    *(("sourceid", "targetid"), ("fromnodeid", "tonodeid"), ("source_node", "target_node"), ("node", "neighbor")),
    *(("citing", "cited"), ("parent", "child"), ("child", "parent"), ("follower", "followee"), ("start", "end")),
    *(("sender", "receiver"), ("sender", "recipient"), ("subject", "object"), ("source", "destination")),
]
ID_HEADERS = ("id", "node_id", "nodeid", "node", "node_name", "name", "key", "ids", "")  # the likeliest first
LABEL_HEADERS = ("label", "class", "y", "labels", "node_label", "target", "category")
OWN_LABEL_HEADERS = ("label", "class", "y")  # taken for the class where they stand among features, too
WEIGHT_HEADERS = ("weight", "weights", "edge_weight", "w", "strength", "count")
TYPE_HEADERS = ("type", "node_type", "nodetype")
FEATURE_HEADERS = ("feature", "feature_id", "attribute", "attr", "key", "word", "term", "token", "variable", "tag")
VALUE_HEADERS = ("value", "val", "count", "weight", "score", "tfidf", "frequency", "amount", "n")


class Text(NamedTuple):
    """A column of text, each distinct text once: row i holds `values[codes[i]]`."""

    codes: Array
    values: list[str]


Column: TypeAlias = Any  # Text; numbers [n] or [n, k], where NaN is missing; or a sparse matrix [n, k]


def code_text(cells: Iterable[str]) -> Text:
    """Store a column of text."""
    index: dict[str, int] = {}
    codes = np.fromiter((index.setdefault(cell, len(index)) for cell in cells), np.int64)
    return Text(codes, list(index))


def to_text(column: Column) -> Text:
    """A column as text; whole numbers have no `.0`, and missing values are empty."""
    if isinstance(column, Text):
        return column
    flat = decode(np.asarray(column)).reshape(-1)
    if flat.dtype.kind not in "iufbUO":
        raise InputError(f"a column of {flat.dtype} holds no names", "text or whole numbers name nodes")
    if flat.dtype.kind == "O":
        return code_text("" if cell is None else str(cell) for cell in flat.tolist())
    distinct, codes = np.unique(flat, return_inverse=True)
    texts = [str(value).removesuffix(".0") if flat.dtype.kind == "f" else str(value) for value in distinct.tolist()]
    return Text(codes.astype(np.int64), ["" if text == "nan" else text for text in texts])


def to_list(column: Column) -> list[str]:
    """The text of every row."""
    codes, values = to_text(column)
    return np.array(values, dtype=object)[codes].tolist() if len(codes) else []


def to_numbers(column: Column) -> Array | None:
    """A column as float64 [n] or [n, k] with NaN where a value is missing; None if a text is no number."""
    if not isinstance(column, Text):
        return np.asarray(column, dtype=np.float64) if np.asarray(column).dtype.kind in "iufb" else None
    if not all(text in MISSING or is_number(text) for text in used_values(column)):
        return None
    parsed = [float(text) if is_number(text) else np.nan for text in column.values]
    return np.array(parsed or [np.nan])[column.codes]


def used_values(column: Text) -> list[str]:
    """The texts that occur, in the order of `values`."""
    if not len(column.codes):
        return []
    counts = np.bincount(column.codes, minlength=len(column.values))
    return [text for text, count in zip(column.values, counts.tolist(), strict=True) if count]


def is_missing(column: Column) -> Array:
    """Whether the value of a row is missing, bool [n]; a row of a matrix if all of it is."""
    if isinstance(column, Text):
        known: Array = np.array([text in MISSING for text in column.values] or [True])
        return known[column.codes]
    if scipy.sparse.issparse(column) or column.dtype.kind != "f":
        return np.zeros(column.shape[0], dtype=bool)
    return np.asarray(np.isnan(column).reshape(len(column), -1).all(axis=1))


def count_rows(column: Column) -> int:
    """Number of rows."""
    return len(column.codes) if isinstance(column, Text) else int(column.shape[0])


def take_rows(column: Column, rows: Array) -> Column:
    """The rows of a column in another order; -1 is a row without values."""
    absent = rows < 0
    if isinstance(column, Text):
        codes = np.where(absent, len(column.values), column.codes[rows]) if len(column.codes) else np.zeros_like(rows)
        return Text(codes, [*column.values, ""])
    if scipy.sparse.issparse(column):
        empty = scipy.sparse.csr_array((1, column.shape[1]), dtype=column.dtype)
        stacked = scipy.sparse.vstack([scipy.sparse.csr_array(column), empty], format="csr")
        return stacked[np.where(absent, column.shape[0], rows)]
    if not absent.any():
        return column[rows]
    taken = column[rows].astype(np.result_type(column.dtype, np.float32) if column.dtype.kind in "iufb" else object)
    taken[absent] = np.nan if taken.dtype.kind == "f" else None
    return taken


def drop_fraction(column: Text) -> Text:
    """Whole numbers that are written 5.0, as pandas does beside missing values, as 5; other columns as they are."""
    used = used_values(column)
    if not used or not all(re.fullmatch(r"\d+\.0", text) for text in used):
        return column
    return Text(column.codes, [text.removesuffix(".0") for text in column.values])


def is_number(text: str) -> bool:
    """Whether a text is written as a number."""
    return NUMBER.fullmatch(text) is not None


def decode(values: Array) -> Array:
    """Bytes as text."""
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def find_column(names: Sequence[str], name: str, file: str, flag: str) -> str:
    """The column that a flag names, in any case; raise `InputError` with the closest name if there is none."""
    by_name = {normalize_name(each): each for each in reversed(names)}
    if name in names:
        return name
    if normalize_name(name) not in by_name:
        hint = suggest(name, names) if len(names) <= 30 else f"the columns are {', '.join(names[:30])}, ..."
        raise InputError(f"`{file}` has no column `{name}`, which {flag} names", hint)
    return by_name[normalize_name(name)]


def match_headers(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """The columns whose names are among known ones, the likeliest first."""
    by_name = {normalize_name(name): name for name in reversed(list(names))}
    return [by_name[name] for name in known if name in by_name]


def match_edge_headers(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of sources and targets by their names; None if there are none."""
    by_name = {normalize_name(name): name for name in reversed(names)}
    pair = next((pair for pair in EDGE_HEADERS if set(pair) <= set(by_name)), None)
    return (by_name[pair[0]], by_name[pair[1]]) if pair else None


def quote_names(names: Iterable[str], most: int = 6) -> str:
    """Names in backquotes, the first few of them."""
    quoted = [f"`{name}`" for name in names]
    return ", ".join(quoted[:most]) + (f" and {len(quoted) - most} more" if len(quoted) > most else "")


def same_length(columns: Mapping[str, Column]) -> int:
    """Number of rows of a table."""
    return count_rows(next(iter(columns.values()))) if columns else 0


def normalize_name(name: str) -> str:
    """The name of a column by which it is found: in lower case, with _ for spaces."""
    return re.sub(r"[\s\-.]+", "_", name.strip().lstrip("~:#").lower())
