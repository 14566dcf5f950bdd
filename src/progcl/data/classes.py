"""Labels as classes: which column holds them, which values are unknown, and the numbers of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from progcl.data.columns import (
    LABEL_HEADERS,
    MISSING,
    OWN_LABEL_HEADERS,
    Array,
    Column,
    Text,
    find_column,
    is_missing,
    match_headers,
    quote_names,
    to_text,
    used_values,
)
from progcl.data.tables import Table, prefix
from progcl.errors import InputError

UNKNOWN = -1  # class number of a node without a label
UNKNOWN_WORDS = ("unknown", "unlabeled", "unlabelled")


def code_classes(column: Column, nodes: int, file: str = "") -> tuple[Array, list[str], list[str]]:
    """Class numbers [N] from 0, the names of the classes, and remarks; nodes without a label have -1.

    Empty cells, NaN, -1 and `unknown` are unknown. Where -1 and another number are all there is, they are two classes,
    as are `unknown` and one other word.

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
    words = [name for name in classes if name.lower() in UNKNOWN_WORDS]
    if len(classes) - len(words) > 1:
        classes = [name for name in classes if name not in words]
    number = {name: index for index, name in enumerate(classes)}
    coded = np.array([number.get(name, UNKNOWN) for name in names] or [UNKNOWN], np.int64)
    labels: Array = coded[text.codes]
    remarks = ["labels -1 and another are two classes: -1 is not taken for unknown"] if is_class else []
    unknown = int((labels == UNKNOWN).sum())
    if unknown:
        what = "empty, -1 or NaN" if "-1" in known and not is_class else "missing"
        what += f" or `{words[0]}`" if words and words[0] not in classes else ""
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


def choose_label_column(table: Table, wanted: str | None) -> str:
    """The column that holds the classes: as wanted, by its name, or the only one."""
    names = list(table.columns)
    if wanted is not None:
        return find_column(names, wanted, table.file, "--label-column")
    named = match_headers(names, LABEL_HEADERS)
    if not names or (len(names) > 1 and not named):
        known = quote_names(names) or "no column"
        message = f"{prefix(table.file)}which column is the class: {known}?"
        raise InputError(message, "name it with --label-column")
    return named[0] if named else names[0]


def split_label(
    table: Table, label: str | None, has_labels: bool, wanted: str | None, remarks: list[str]
) -> tuple[Table, Column | None]:
    """Features without the class that may stand among them, and that class."""
    names, name = list(table.columns), label
    if name is None and wanted is not None and not has_labels:
        if not names:
            message = f"--label-column names `{wanted}`, and there is no table of nodes"
            raise InputError(message, "--labels FILE or --features FILE gives one")
        name = find_column(names, wanted, table.file, "--label-column")
    candidates = match_headers(names, OWN_LABEL_HEADERS) if label is None else []
    name = name or next((each for each in candidates if _is_class(table.columns[each])), None)
    titles = [each for each in candidates if each != name and isinstance(table.columns[each], Text)]
    if titles and not _is_class(table.columns[titles[0]]):
        remarks.append(f"{prefix(table.file)}`{titles[0]}` is another text for almost every node, and left out")
    if name is not None and label is None:
        use = "left out, as the classes are given" if has_labels else "read as the class"
        remarks.append(f"{prefix(table.file)}the column `{name}` is {use}, not as a feature")
    rest = {each: column for each, column in table.columns.items() if each not in (name, *titles)}
    return replace(table, columns=rest), None if name is None else table.columns[name]


def _is_class(column: Column) -> bool:
    """Whether a column tells classes: two nodes share a value on average, and numbers are whole."""
    if not isinstance(column, Text) and (
        column.ndim != 1 or not np.array_equal(column, np.round(column), equal_nan=True)
    ):
        return False
    known = int((~is_missing(column)).sum())
    distinct = [text for text in used_values(to_text(column)) if text not in MISSING]
    return len(distinct) <= max(1, known // 2)


def code_and_remark(column: Column, nodes: int, file: str, remarks: list[str]) -> tuple[Array, list[str]]:
    """Class numbers and names as `code_classes` has them; its remarks join the others."""
    y, classes, said = code_classes(column, nodes, file)
    remarks += said
    return y, classes


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
