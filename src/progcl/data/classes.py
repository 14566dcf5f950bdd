"""Labels as classes: which values are unknown, and the numbers of the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from progcl.data.columns import MISSING, Array, Column, Text, to_text, used_values
from progcl.data.tables import prefix
from progcl.errors import InputError

UNKNOWN = -1  # class number of a node without a label


def code_classes(column: Column, nodes: int, file: str = "") -> tuple[Array, list[str], list[str]]:
    """Class numbers [N] from 0, the names of the classes, and remarks; nodes without a label have -1.

    Empty cells, NaN and -1 are unknown. Where -1 and another number are all there is, they are two classes.

    Raises:
        InputError: if there is not one label per node
    """
    text = to_text(_flatten(column, nodes, file))
    names = [value.removesuffix(".0") if value == "-1.0" else value for value in text.values]
    known = sorted(
        {name for name in (names[text.values.index(value)] for value in used_values(text)) if name not in MISSING}
    )
    is_class = "-1" in known and len(known) == 2 and known[1] in ("1", "0")
    classes = known if is_class else [name for name in known if name != "-1"]
    number = {name: index for index, name in enumerate(classes)}
    coded = np.array([number.get(name, UNKNOWN) for name in names] or [UNKNOWN], np.int64)
    labels: Array = coded[text.codes]
    remarks = ["labels -1 and another are two classes: -1 is not taken for unknown"] if is_class else []
    unknown = int((labels == UNKNOWN).sum())
    if unknown:
        what = "empty, -1 or NaN" if "-1" in known and not is_class else "missing"
        remarks.append(f"{unknown:,} of {nodes:,} nodes have no label ({what}): only the others are scored")
    return labels, classes, remarks


def find_unknown(labels: Any) -> Array:
    """Labels of Python's users as class numbers [N]: NaN and negative numbers are -1."""
    flat = np.asarray(labels).reshape(-1)
    if flat.dtype.kind == "f":
        flat = np.where(np.isfinite(flat), flat, UNKNOWN)
    if flat.dtype.kind not in "iufb":
        raise InputError(f"labels of type {flat.dtype}", "number the classes from 0; -1 is unknown")
    numbers = flat.astype(np.int64)
    distinct = np.unique(numbers)
    if distinct.tolist() == [-1, 1]:
        return (numbers + 1) // 2
    return np.maximum(numbers, UNKNOWN)


def _flatten(column: Column, nodes: int, file: str) -> Column:
    """One label per node; rows that are 1 in one place and 0 elsewhere name the place."""
    if isinstance(column, Text) or column.ndim == 1:
        return column
    if column.shape[1] == 1:
        return column.reshape(-1)
    rows = np.asarray(column)
    if rows.ndim == 2 and rows.dtype.kind in "iufb" and np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) <= 1).all():
        return np.where(rows.any(axis=1), rows.argmax(axis=1), UNKNOWN)
    shape = list(column.shape)
    raise InputError(f"{prefix(file)}labels {shape} for {nodes} nodes", "a node has one class: give one column")
