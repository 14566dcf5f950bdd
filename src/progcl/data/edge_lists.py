"""Edges from the columns of a table, by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from progcl.data.columns import (
    ID_HEADERS,
    MISSING,
    Column,
    Text,
    drop_fraction,
    find_column,
    is_number,
    match_edge_headers,
    quote_names,
    take_rows,
    to_text,
    used_values,
)
from progcl.data.delimited import FREE_TEXT, TextFile
from progcl.data.tables import RawGraph, link_names
from progcl.data.weights import NO_WEIGHTS, UnusedWeights, find_attributes, read_attribute, read_weights
from progcl.errors import InputError

MIN_ROWS_BELOW_HEADER = 10  # in a shorter file, two words that never come again may well be an edge


class TableFile(Protocol):
    """A file with columns: `TextFile`, `ParquetFile`."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    @property
    def has_header(self) -> bool | None:
        """Whether columns have names of their own; None if the first row may hold them."""

    def all_names(self) -> list[str]:
        """The same, with an empty one for row names that a header lacks."""

    def read(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Column]:
        """Read columns; those `as_text` as they are written."""

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers, as far as can be told without reading it."""


def read_edges(
    file: TableFile, source: str | None = None, target: str | None = None, weight: str | None = None
) -> RawGraph:
    """Edges from the columns `source` and `target`, else from two that are named so, else from the first two.

    Their weights are those of the column `weight`; None reads none, and says which columns could be weights.

    Raises:
        InputError: if there is no such column, if a name or weight is missing, or if the table is one of nodes
    """
    if (source is None) != (target is None):
        raise InputError("--source and --target go together", "name both columns, or none")
    if len(file.names) < 2:
        raise InputError(f"`{file.path}` has {len(file.names)} column, an edge needs 2", "source and target")
    wants_none = weight == NO_WEIGHTS
    file, weight, attribute = _find_weight_column(file, source, weight)
    first, second, remarks = _choose_columns(file, source, target, weight)
    columns = file.read([first, second, *([weight] if weight else [])], [first, second])
    pair = (to_text(columns[first]), to_text(columns[second]))
    third = columns[weight] if weight else None
    if isinstance(file, TextFile) and file.has_header is None and _is_header(*pair):
        pair = (_drop_first(pair[0]), _drop_first(pair[1]))
        third = None if third is None else take_rows(third, np.arange(1, len(pair[0].codes) + 1))
        file, (first, second), remarks = _take_header(file, (first, second), weight)
    _require_names(file, (first, second), pair)
    pair = (drop_fraction(pair[0]), drop_fraction(pair[1]))
    weights = None
    if third is not None and weight is not None:
        values = third if attribute is None else read_attribute(third, attribute)
        weights = read_weights(values, attribute or weight, _locator(file))
    remarks = [remark for remark in remarks if not (wants_none and isinstance(remark, UnusedWeights))]
    remarks += _describe_names((first, second), pair, bool(file.has_header))
    return replace(link_names(*pair), remarks=tuple(remarks), weights=weights)


def _find_weight_column(
    file: TableFile, source: str | None, weight: str | None
) -> tuple[TableFile, str | None, str | None]:
    """The file, read with a header if columns are named; the column of weights; and which attribute of it is meant."""
    weight, attribute = None if weight == NO_WEIGHTS else weight, None
    if isinstance(file, TextFile):
        has_attributes = file.delimiter == FREE_TEXT and len(file.names) > 2
        if has_attributes and weight is not None and not weight.isdecimal():
            weight, attribute = file.names[2], weight
        named = [name for name in (source, weight) if name is not None and not name.isdecimal()]
        file = replace(file, has_header=True) if named and file.has_header is not True else file
    return file, find_column(file.names, weight, str(file.path), "--weight") if weight else None, attribute


def _choose_columns(
    file: TableFile, source: str | None, target: str | None, weight: str | None
) -> tuple[str, str, list[str]]:
    """Names of the two columns, and what there is to say about them."""
    names, path = file.names, str(file.path)
    if source is not None and target is not None:
        given = find_column(names, source, path, "--source"), find_column(names, target, path, "--target")
        return *given, _describe_unread(file, [name for name in names if name not in given], weight)
    pair = match_edge_headers(names) if file.has_header else None
    candidates = [name for name in names if name != weight]
    if len(candidates) < 2:
        raise InputError(f"`{path}` has 2 columns, an edge needs 2 beside its weight", "source, target and weight")
    ends = pair or (candidates[0], candidates[1])
    unread = [name for name in names if name not in ends]
    if pair:
        return *ends, _describe_unread(file, unread, weight)
    if file.has_header and names[0].lower() in ID_HEADERS:
        line = ", ".join(names)[:60]
        hint = "--features takes such tables; for edges, name the columns with --source and --target"
        raise InputError(f"`{path}` begins with `{line}`, the header of a table of nodes", hint)
    is_edge_list = isinstance(file, TextFile) and file.delimiter == FREE_TEXT  # its first two values are the ends
    others = f", the first two of {len(names)} (--source and --target choose others)" if unread else ""
    chosen = f"edges are read from the columns {quote_names(ends)}{others}"
    remarks = [chosen] if (file.has_header or unread) and not is_edge_list else []
    return *ends, [*remarks, *_describe_unread(file, unread, weight)]


def _take_header(
    file: TextFile, ends: tuple[str, str], weight: str | None
) -> tuple[TextFile, tuple[str, str], list[str]]:
    """The file with the first line as its header, the names of two columns in it, and what there is to say."""
    titled = replace(file, has_header=True)
    title = dict(zip(file.names, titled.names, strict=True))
    first, second = title[ends[0]], title[ends[1]]
    remarks = _choose_columns(titled, first, second, title[weight] if weight else None)[2]
    words = quote_names([first, second])
    said = f"the first line ({words}) is read as a header, since these words name no other node"
    return titled, (first, second), [said, *remarks]


def _drop_first(column: Text) -> Text:
    return Text(column.codes[1:], column.values)


def _describe_names(names: tuple[str, str], pair: tuple[Text, Text], has_header: bool) -> list[str]:
    """Sentences on nodes that may be meant otherwise: two kinds with the same numbers, a name for missing values."""
    ends = [set(used_values(column)) for column in pair]
    words = [set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())) - {"id"} for name in names]
    two_kinds = has_header and match_edge_headers(names) is None and words[0].isdisjoint(words[1])
    missing = sorted((ends[0] | ends[1]) & (MISSING - {""}))
    meaning = "is read as the name of a node: leave its edges out if it means a missing value"
    remarks = [f"`{text}` {meaning}" for text in missing]
    if two_kinds and ends[0] & ends[1] and all(text.isdecimal() for text in ends[0] | ends[1]):
        example = min(ends[0] & ends[1], key=int)
        what = f"`{example}` in `{names[0]}` and in `{names[1]}` is the same node, as all numbers that are in both"
        remarks.append(f"{what}: if they are nodes of two kinds, name them apart, as u{example} and v{example}")
    return remarks


def _describe_unread(file: TableFile, unread: list[str], weight: str | None) -> list[str]:
    """Sentences on columns that are not read, and on those that could be weights."""
    if weight is not None:
        rest = [name for name in unread if name != weight]
        return [f"further columns are not read: {quote_names(rest)}"] if rest else []
    unread = [name for name in unread if name]  # without a name are the numbers of rows that pandas writes
    if isinstance(file, TextFile) and file.delimiter == FREE_TEXT and unread:
        attributes = find_attributes(file.first[2])
        return [UnusedWeights(attributes, "attribute")] if attributes else _describe_weights(file, unread)
    return _describe_weights(file, unread)


def _describe_weights(file: TableFile, unread: list[str]) -> list[str]:
    """Sentences on columns that are not read; those of numbers could be weights."""
    numeric = [name for name in unread if file.is_numeric(name) and name.lower() not in ID_HEADERS]
    others = [name for name in unread if name not in numeric]
    remarks = [f"further columns are not read: {quote_names(others)}"] if others else []
    return [*remarks, UnusedWeights(numeric)] if numeric else remarks


def _locator(file: TableFile) -> Callable[[int], str]:
    """Where a row of the file is, for messages."""
    if isinstance(file, TextFile):
        return lambda row: f"`{file.path}`: line {file.find_line(row)}"
    return lambda row: f"`{file.path}`: row {row}"


def _is_header(source: Text, target: Text) -> bool:
    """Whether the words of the first row name no other node: two such nodes alone are rarer than a header."""
    rows = len(source.codes)
    words = [source.values[source.codes[0]], target.values[target.codes[0]]] if rows else []
    if rows <= MIN_ROWS_BELOW_HEADER or any(map(is_number, words)) or len(set(words)) < 2:
        return False
    below = [{column.values[code] for code in np.unique(column.codes[1:]).tolist()} for column in (source, target)]
    return not any(word in each for word in words for each in below)


def _require_names(file: TableFile, names: tuple[str, str], pair: tuple[Text, Text]) -> None:
    for name, column in zip(names, pair, strict=True):
        if "" in column.values and (rows := np.flatnonzero(column.codes == column.values.index(""))).size:
            if isinstance(file, TextFile):
                where = f"line {file.find_line(int(rows[0]))} lacks a node name in column `{name}`"
                raise InputError(f"`{file.path}`: {where}", "an edge is two names in a line")
            message = f"`{file.path}`: {len(rows)} values are missing in column `{name}`, the first in row {rows[0]}"
            raise InputError(message, "leave such edges out")
