"""Features as people have them: columns of numbers, flags, categories and text become numbers for every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse

from progcl.data.columns import (
    MISSING,
    Array,
    Column,
    Text,
    count_rows,
    is_missing,
    is_number,
    quote_names,
    same_length,
    to_numbers,
    used_values,
)
from progcl.data.numerals import read_form, read_numerals
from progcl.data.tables import Table, prefix
from progcl.errors import InputError
from progcl.memory import require_memory

SCALE_RATIO = 20  # columns are scaled if one is this many times larger than the median column
CLIP = 10.0  # quartile ranges from the median at which scaled values are cut off
MAX_CATEGORIES = 100  # columns of more distinct texts are hashed
MAX_FITTED_ROWS = 200_000  # rows that quartiles are computed from
PROJECTED = 2 * 512  # rows of the matrices that reduce sparse features, which are dense
TEXT_WIDTH = 256  # numbers that a column of text is hashed to
FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0, "y": 1.0, "n": 0.0}

Kind = Literal["numbers", "flag", "category", "text"]


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers; plain values, so that another graph's columns can be read alike.

    Attributes:
        column: its name
        kind: numbers (one or several), a flag (0 or 1), a category (one-hot), or text (hashed)
        fill: for missing numbers, the median, [k]
        center: subtracted from numbers, [k]; empty if they are not scaled
        scale: divides them, [k]
        values: the categories
        node_type: the type of nodes that alone have this feature; None for all
        form: of numbers that are written with commas or signs, or as dates (`numerals.FORMS`); empty for others
    """

    column: str
    kind: Kind
    fill: list[float] = field(default_factory=list)
    center: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    node_type: str | None = None
    form: str = ""

    def width(self, column: Column) -> int:
        """Numbers that the column becomes for each node."""
        if self.kind == "numbers":
            return int(column.shape[1]) if scipy.sparse.issparse(column) else len(self.fill)
        return {"flag": 1, "category": len(self.values), "text": TEXT_WIDTH}[self.kind]

    def transform(self, column: Column) -> Any:
        """The column as numbers [n, k] in float32, sparse if it is; categories that were not there before are zeros."""
        if self.kind == "numbers":
            return self._scale(column)
        codes, values = column
        if self.kind == "flag":
            flags: Array = np.array([FLAGS.get(text.lower(), self.fill[0]) for text in values] or [0.0], np.float32)
            return np.asarray(flags[codes].reshape(-1, 1))
        if self.kind == "category":
            place = {text: index for index, text in enumerate(self.values)}
            one_hot: Array = np.eye(len(place) + 1, len(place), dtype=np.float32)
            rows: Array = np.array([place.get(text, len(place)) for text in values] or [len(place)])
            return np.asarray(one_hot[rows[codes]])
        from sklearn.feature_extraction.text import HashingVectorizer

        texts = ["" if text in MISSING else text for text in values] or [""]
        hashed: Array = HashingVectorizer(n_features=TEXT_WIDTH).transform(texts).toarray().astype(np.float32)[codes]
        return hashed

    def _scale(self, column: Column) -> Any:
        if scipy.sparse.issparse(column):
            return column.astype(np.float32)
        given = column
        if isinstance(column, Text):
            given = read_form(column, self.form) if self.form else to_numbers(column)
        if given is None or np.asarray(given).dtype.kind not in "iufb":
            raise InputError(f"column `{self.column}` holds text", "it held numbers when the features were planned")
        kind = np.float64 if self.center else np.float32
        numbers: Array = np.asarray(given, dtype=kind).reshape(count_rows(column), -1)
        if numbers.shape[1] != len(self.fill):
            raise InputError(f"{numbers.shape[1]} numbers in {_name(self.column)}", f"{len(self.fill)} are needed")
        if self.center:
            numbers = (numbers - np.array(self.center)) / np.array(self.scale)
            np.clip(numbers, -CLIP, CLIP, out=numbers)
        missing = np.isnan(numbers)
        if missing.any():
            fill = (np.array(self.fill) - self.center) / self.scale if self.center else np.array(self.fill)
            numbers = np.where(missing, np.clip(fill, -CLIP, CLIP) if self.center else fill, numbers)
        return numbers.astype(np.float32, copy=False)


def encode_features(
    table: Table, type_column: str | None = None, scale: bool = True
) -> tuple[Any, list[Feature], list[str]]:
    """The features [n, F] of a table, which may be sparse, how they were made, and remarks.

    Args:
        table: with features alone, a row for each node
        type_column: column with the type of a node; types that fill different columns have features of their own
        scale: scale numbers by median and quartiles where their columns are of different scales

    Raises:
        InputError: if a column mixes numbers and text, or holds infinite numbers; it names column and row
    """
    columns, forms, remarks = read_numerals(table.columns, type_column)
    table = replace(table, columns=columns)
    groups = _group_by_type(table, type_column)
    if groups:
        sizes = ", ".join(f"`{name}` {len(rows):,}" for name, rows in list(groups.items())[:6])
        remarks.append(f"nodes of {len(groups)} types have features of their own: {sizes}")
        plan = [
            feature
            for name, rows in groups.items()
            for feature in _plan(table, type_column, name, rows, remarks, scale)
        ]
        plan.append(Feature(type_column or "", "category", values=list(groups)))
    else:
        plan = _plan(table, None, None, None, remarks, scale)
    plan = [replace(feature, form=forms.get(feature.column, "")) for feature in plan]
    return transform_features(plan, table.columns, type_column), plan, list(dict.fromkeys(remarks))


def transform_features(plan: Iterable[Feature], columns: Mapping[str, Column], type_column: str | None = None) -> Any:
    """Columns as features [n, F], as planned; a sparse matrix if that is all there is.

    Raises:
        InputError: if a column is missing
    """
    blocks = []
    plan = list(plan)
    width = sum(feature.width(columns[feature.column]) for feature in plan if feature.column in columns)
    stays_sparse = len(plan) == 1 and plan[0].node_type is None and scipy.sparse.issparse(columns.get(plan[0].column))
    rows = PROJECTED if stays_sparse else 2.0 * same_length(columns)
    require_memory(4 * rows * width, f"features of {width:,} numbers per node")
    for feature in plan:
        if feature.column not in columns:
            raise InputError(f"there is no column `{feature.column}`", "the features need the columns that they had")
        block = feature.transform(columns[feature.column])
        if stays_sparse:
            return block
        block = block.toarray() if scipy.sparse.issparse(block) else block
        if feature.node_type is not None:
            block = block * _has_type(columns[type_column or ""], feature.node_type)[:, None]
        blocks.append(block)
    if len(blocks) == 1:
        return blocks[0]
    return np.hstack(blocks) if blocks else np.empty((0, 0), np.float32)


def _plan(
    table: Table, type_column: str | None, node_type: str | None, rows: Array | None, remarks: list[str], scale: bool
) -> list[Feature]:
    """Decide on every column, from the rows of one type of nodes or from all; say what is unusual."""
    columns = {name: column for name, column in table.columns.items() if name != type_column}
    if rows is not None:
        columns = {name: _select(column, rows) for name, column in columns.items()}
        columns = {name: column for name, column in columns.items() if not is_missing(column).all()}
    planned = {name: _decide(name, column, table, rows) for name, column in columns.items()}
    features = [feature for feature in planned.values() if isinstance(feature, Feature)]
    for reason in dict.fromkeys(reason for reason in planned.values() if isinstance(reason, str)):
        left_out = [name for name, value in planned.items() if value == reason]
        remarks.append(f"left out, {reason}: column {quote_names(left_out)}")
    _describe_missing(features, columns, remarks)
    for kind, what in (("category", "one-hot"), ("text", f"hashed to {TEXT_WIDTH} numbers")):
        if names := [feature.column for feature in features if feature.kind == kind]:
            remarks.append(f"text becomes numbers, {what}: column {quote_names(names)}")
    if scale and _scales_differ(features, columns):
        features = [_with_scale(feature, columns[feature.column]) for feature in features]
        remarks.append("the columns have different scales: numbers are scaled by median and quartiles")
    return [replace(feature, node_type=node_type) for feature in features]


def _decide(name: str, column: Column, table: Table, rows: Array | None) -> Feature | str:
    """How a column becomes numbers, or why it is left out."""
    if scipy.sparse.issparse(column):
        return Feature(name, "numbers")
    if not isinstance(column, Text):
        return _decide_numbers(name, column, table, rows)
    values = [text for text in used_values(column) if text not in MISSING]
    if not values:
        return "without any value"
    if all(map(is_number, values)):
        return _decide_numbers(name, to_numbers(column), table, rows)
    _refuse_mixture(name, column, table, rows)
    if len(values) == 1 and not is_missing(column).any():
        return "with the same text for all nodes"
    if {text.lower() for text in values} <= set(FLAGS):
        return Feature(name, "flag", fill=[0.5])
    known = int((~is_missing(column)).sum())
    if len(values) <= MAX_CATEGORIES and len(values) <= max(1, known // 2):
        return Feature(name, "category", values=sorted(values))
    if len(values) == known and not any(" " in text for text in values):
        return "with another name for every node"
    return Feature(name, "text")


def _decide_numbers(name: str, column: Any, table: Table, rows: Array | None) -> Feature | str:
    numbers = np.asarray(column)
    if numbers.dtype.kind not in "iufb":
        raise InputError(f"{prefix(table.file)}features of type {numbers.dtype} in {_name(name)}", "save numbers")
    if numbers.ndim == 1 and len(numbers) > 1 and (numbers == numbers[0]).all():
        return "with the same number for all nodes"
    numbers = numbers.reshape(len(numbers), -1)
    if numbers.dtype.kind != "f":
        return Feature(name, "numbers", fill=[0.0] * numbers.shape[1])
    infinite = np.isinf(numbers)
    if infinite.any():
        row, place = np.argwhere(infinite)[0].tolist()
        where = table.locate(row if rows is None else int(rows[row]))
        message = f"{prefix(table.file)}{where} holds {numbers[row, place]} in {_name(name, place)}"
        raise InputError(message, "features need to be finite; an empty cell is a missing value")
    if not np.isnan(numbers).any():
        return Feature(name, "numbers", fill=[0.0] * numbers.shape[1])
    if np.isnan(numbers).all():
        return "without any value"
    empty = np.isnan(numbers).all(axis=0)
    fill = np.zeros(numbers.shape[1])
    fill[~empty] = np.nanmedian(numbers[:, ~empty], axis=0)
    return Feature(name, "numbers", fill=fill.tolist())


def _refuse_mixture(name: str, column: Text, table: Table, rows: Array | None) -> None:
    """Raise `InputError` if most values are numbers: the others are mistakes rather than categories."""
    known = np.bincount(column.codes, minlength=len(column.values))
    kinds = [None if text in MISSING else is_number(text) for text in column.values]
    numbers = sum(int(count) for count, kind in zip(known, kinds, strict=True) if kind)
    others = [code for code, kind in enumerate(kinds) if kind is False and known[code]]
    if numbers <= sum(int(known[code]) for code in others):
        return
    row = int(np.flatnonzero(np.isin(column.codes, others))[0])
    where, text = table.locate(row if rows is None else int(rows[row])), column.values[column.codes[row]]
    message = f"{prefix(table.file)}{where} holds `{text}` in {_name(name)}, whose other values are numbers"
    raise InputError(message, "correct it, or leave the cell empty")


def _describe_missing(features: list[Feature], columns: Mapping[str, Column], remarks: list[str]) -> None:
    counts: dict[str, int] = {}
    for feature in features:
        column = columns[feature.column]
        if scipy.sparse.issparse(column) or feature.kind in ("category", "text"):
            continue
        numbers = _matrix(column) if feature.kind == "numbers" else None
        missing = int(is_missing(column).sum()) if numbers is None else int(np.isnan(numbers).sum())
        counts |= {feature.column: missing} if missing else {}
    if counts:
        listed = ", ".join(f"{_name(name)} {count:,}" for name, count in list(counts.items())[:5])
        more = f" and {len(counts) - 5} more columns" if len(counts) > 5 else ""
        remarks.append(f"missing values are filled with the median: {listed}{more}")


def _scales_differ(features: list[Feature], columns: Mapping[str, Column]) -> bool:
    """Whether one column is much larger than the median one, and not all are mostly zero, as counts of words are."""
    sizes, is_dense = [], False
    for feature in features:
        if feature.kind != "numbers":
            sizes.append(np.ones(1))
            continue
        numbers = _matrix(columns[feature.column])
        if numbers is None:
            return False
        sizes.append(np.nan_to_num(_largest(numbers)))
        is_dense |= bool(((numbers == 0).mean(axis=0) < 0.5).any())
    flat = np.concatenate(sizes) if sizes else np.zeros(0)
    flat = np.sort(flat[flat > 0])
    return is_dense and len(flat) > 1 and bool(flat[-1] > SCALE_RATIO * flat[(len(flat) - 1) // 2])


def _with_scale(feature: Feature, column: Column) -> Feature:
    """Numbers scaled by median and quartiles; those that are mostly zero keep their zeros."""
    if feature.kind != "numbers":
        return feature
    from sklearn.preprocessing import RobustScaler

    numbers = _matrix(column)
    numbers = numbers[:: -(-len(numbers) // MAX_FITTED_ROWS)]
    scaler = RobustScaler().fit(numbers)
    spread = np.nanpercentile(numbers, 75, axis=0) - np.nanpercentile(numbers, 25, axis=0)
    deviation = np.nanstd(numbers, axis=0)
    mostly_zero = (numbers == 0).mean(axis=0) >= 0.5
    center = np.where(mostly_zero, 0.0, scaler.center_)
    scale = np.where((spread > 0) & ~mostly_zero, scaler.scale_, np.where(deviation > 0, deviation, 1.0))
    scale = np.where(mostly_zero & (_largest(numbers) <= 1), 1.0, scale)
    return Feature(feature.column, "numbers", feature.fill, center.tolist(), scale.tolist())


def _matrix(column: Column) -> Any:
    """Numbers as floats [n, k]; None if they are sparse."""
    if scipy.sparse.issparse(column):
        return None
    numbers = column if not isinstance(column, Text) and column.dtype.kind == "f" else to_numbers(column)
    return None if numbers is None else numbers.reshape(len(numbers), -1)


def _largest(numbers: Array) -> Array:
    """Largest absolute value of every column [k], NaN left aside."""
    largest: Array = np.fmax(np.fmax.reduce(numbers, axis=0), -np.fmin.reduce(numbers, axis=0))
    return largest


def _group_by_type(table: Table, type_column: str | None) -> dict[str, Array]:
    """Rows of every type of nodes, if types differ in the columns that they fill; empty if not."""
    if type_column is None:
        return {}
    types = table.columns[type_column]
    names = [text for text in used_values(types) if text not in MISSING]
    if not 2 <= len(names) <= MAX_CATEGORIES or is_missing(types).any():
        return {}
    groups = {name: np.flatnonzero(_has_type(types, name)) for name in sorted(names)}
    empty = [
        {name for name, rows in groups.items() if is_missing(column)[rows].all()}
        for column_name, column in table.columns.items()
        if column_name != type_column
    ]
    return groups if any(0 < len(each) < len(groups) for each in empty) else {}


def _has_type(types: Text, name: str) -> Array:
    return np.array([text == name for text in types.values])[types.codes]


def _select(column: Column, rows: Array) -> Column:
    return Text(column.codes[rows], column.values) if isinstance(column, Text) else column[rows]


def _name(column: str, place: int = 0) -> str:
    return f"column `{column}`" if column not in ("", "x") else f"column {place + 1}" if place else "the features"
