"""Readers of delimited text: edge lists and tables of nodes as .csv, .tsv or .txt."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from progcl.data.tables import NodeTable, RawGraph, named_graph
from progcl.errors import InputError

EDGE_HEADERS = [("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"), ("id_1", "id_2")]
ID_HEADERS = {"", "id", "node", "name", "node_id"}  # of the first column of a table of nodes


class TableLayout(NamedTuple):
    """How a text file is written.

    Attributes:
        delimiter: between two values; None for any white space
        skipped: lines before the first row
        sample: values of the first two rows
    """

    delimiter: str | None
    skipped: int
    sample: list[list[str]]


def read_edge_list(path: Path) -> RawGraph:
    """Two names or numbers a line, perhaps below a header; further columns are not read."""
    layout = _detect_layout(path)
    first, *others = layout.sample
    header = tuple(cell.lower() for cell in first[:2]) in EDGE_HEADERS
    header |= bool(others) and not any(map(_is_number, first[:2])) and all(map(_is_number, others[0][:2]))
    if not header and first[0].lower() in ID_HEADERS:
        line = ", ".join(first)[:60]
        hint = "--features takes such tables"
        raise InputError(f"`{path}` begins with `{line}`, the header of a table of nodes", hint)
    graph = named_graph(_node_pairs(path, layout, header))
    extra_columns = len(first) > 2
    return replace(graph, remarks=("further columns are not read: edges have no weights",) if extra_columns else ())


def read_table(path: Path) -> NodeTable:
    """A node's name in the first column, and its features or its class in the others, perhaps below a header."""
    layout = _detect_layout(path)
    first, *others = layout.sample
    header = first[0].lower() in ID_HEADERS
    header |= bool(others) and not any(map(_is_number, first[1:])) and all(map(_is_number, others[0][1:]))
    names, rows = [], []
    for line, (name, *values) in _rows(path, layout, header):
        if not name:
            raise InputError(f"`{path}`: line {line} has an empty first column", "it names the node")
        names.append(name)
        rows.append(values)
    if not rows:
        raise InputError(f"`{path}` has a header and no rows", "every node needs one")
    return NodeTable(np.array(rows), names, columns=first[1:] if header else None)


def _node_pairs(path: Path, layout: TableLayout, header: bool) -> Iterator[list[str]]:
    for line, cells in _rows(path, layout, header):
        if len(cells) < 2 or not all(cells[:2]):
            raise InputError(f"`{path}`: line {line} lacks a node name", "an edge is two names in a line")
        yield cells[:2]


def _detect_layout(path: Path) -> TableLayout:
    with path.open(encoding="utf-8-sig") as file:
        lines = list(islice(((number, line) for number, line in enumerate(file) if _is_row(line)), 2))
    if not lines:
        raise InputError(f"`{path}` is empty", "an edge is two names in a line")
    skipped = lines[0][0]
    for delimiter in ("\t", ";", ",", None):
        sample = [_split(line, delimiter) for _, line in lines]
        if len(sample[0]) > 1:
            return TableLayout(delimiter, skipped, sample)
    message = f"`{path}`: line {skipped + 1} has one value, at least two are needed"
    raise InputError(message, "separate them by a comma")


def _is_row(line: str) -> bool:
    """Whether a line is neither blank nor a comment: `#` or `%`, alone or before a space, as names may begin so."""
    text = line.strip()
    return bool(text) and text not in ("#", "%") and not text.startswith(("# ", "% "))


def _split(line: str, delimiter: str | None) -> list[str]:
    cells = next(csv.reader([line], delimiter=delimiter), []) if delimiter else line.split()
    return [cell.strip() for cell in cells]


def _rows(path: Path, layout: TableLayout, header: bool) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of every row below the header."""
    delimiter, width = layout.delimiter, None
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter) if delimiter else (line.split() for line in file)
        for number, cells in enumerate(lines, 1):
            if number <= layout.skipped + header or not _is_row((delimiter or " ").join(cells)):
                continue
            width = width or len(cells)
            if len(cells) != width:
                message = f"`{path}`: line {number} has {len(cells)} values, the lines before it {width}"
                raise InputError(message, "every line needs as many")
            yield number, [cell.strip() for cell in cells]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is not None
