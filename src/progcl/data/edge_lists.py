"""Edges from the columns of a table, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from progcl.data.columns import (
    ID_HEADERS,
    Column,
    Text,
    find_column,
    is_number,
    match_edge_headers,
    quote_names,
    to_text,
)
from progcl.data.delimited import TextFile
from progcl.data.tables import RawGraph, link_names
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


def read_edges(file: TableFile, source: str | None = None, target: str | None = None) -> RawGraph:
    """Edges from the columns `source` and `target`, else from two that are named so, else from the first two.

    Raises:
        InputError: if there is no such column, if a name is missing, or if the table is one of nodes
    """
    if (source is None) != (target is None):
        raise InputError("--source and --target go together", "name both columns, or none")
    if len(file.names) < 2:
        raise InputError(f"`{file.path}` has {len(file.names)} column, an edge needs 2", "source and target")
    if isinstance(file, TextFile) and file.has_header is not True and source is not None:
        named = replace(file, has_header=True)
        file = file if source.isdecimal() else named
    first, second, remarks = _choose_columns(file, source, target)
    columns = file.read([first, second], [first, second])
    pair = (to_text(columns[first]), to_text(columns[second]))
    if isinstance(file, TextFile) and file.has_header is None and _is_header(*pair):
        words = quote_names([file.first[int(first) - 1], file.first[int(second) - 1]])
        remarks.append(f"the first line ({words}) is read as a header, since these words name no other node")
        pair = tuple(Text(column.codes[1:], column.values) for column in pair)  # type: ignore[assignment]
    _require_names(file, (first, second), pair)
    return replace(link_names(*pair), remarks=tuple(remarks))


def _choose_columns(file: TableFile, source: str | None, target: str | None) -> tuple[str, str, list[str]]:
    """Names of the two columns, and what there is to say about them."""
    names, path = file.names, str(file.path)
    if source is not None and target is not None:
        return find_column(names, source, path, "--source"), find_column(names, target, path, "--target"), []
    pair = match_edge_headers(names) if file.has_header else None
    unread = [name for name in names if name not in (pair or names[:2])]
    if pair:
        return *pair, [f"further columns are not read: {quote_names(unread)}"] if unread else []
    if file.has_header and names[0].lower() in ID_HEADERS:
        line = ", ".join(names)[:60]
        hint = "--features takes such tables; for edges, name the columns with --source and --target"
        raise InputError(f"`{path}` begins with `{line}`, the header of a table of nodes", hint)
    others = f", the first two of {len(names)} (--source and --target choose others)" if unread else ""
    chosen = f"edges are read from the columns {quote_names(names[:2])}{others}"
    return names[0], names[1], [chosen] if file.has_header or unread else []


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
