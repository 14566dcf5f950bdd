"""Graphs and tables of nodes as files hold them: edges between names, and columns with a row for each node."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from progcl.data.columns import Array, Column, Text, decode, same_length
from progcl.errors import InputError
from progcl.files import require_counted


@dataclass(frozen=True)
class RawGraph:
    """A graph as a file holds it.

    Attributes:
        edges: [2, E], indices into `names`
        names: name of every node, [N]
        columns: attributes of the nodes, a row for each
        label: the one of them that is the class; None if `label`, `class` or `y` may be it
        has_all_nodes: false for an edge list: a table of features may name nodes without edges
        weights: of the edges [E]; None without any
        remarks: what was read how, or not read, one sentence each
        file: where it was read from, for messages
    """

    edges: Array
    names: list[str]
    columns: Mapping[str, Column] = field(default_factory=dict)
    label: str | None = None
    has_all_nodes: bool = True
    weights: Array | None = None
    remarks: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a row for each node.

    Attributes:
        columns: by name; without a header, they are named `1`, `2`, ...
        has_header: None if the first row may be one, which then is among the rows
        names_nodes: false for arrays: row i belongs to node number i
        find_line: from the number of a row, from 0, to its line in the file
        file: where it was read from, for messages
        remarks: what was read how, or not read, one sentence each
        vocabulary: names of the features in long form
    """

    columns: Mapping[str, Column]
    has_header: bool | None = True
    names_nodes: bool = True
    find_line: Callable[[int], int] | None = None
    file: str = ""
    remarks: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()

    def __len__(self) -> int:
        return same_length(self.columns)

    def locate(self, row: int) -> str:
        """A row for messages: its line in a text, else its number from 0."""
        return f"line {self.find_line(row)}" if self.find_line else f"row {row}"


def promote_header(table: Table) -> Table:
    """Take the first row for the names of the columns."""
    names = unique_names([column.values[column.codes[0]] for column in table.columns.values()])
    columns = {
        name: Text(column.codes[1:], column.values) for name, column in zip(names, table.columns.values(), strict=True)
    }
    find_line = table.find_line
    shifted = (lambda row: find_line(row + 1)) if find_line else None
    return Table(columns, True, table.names_nodes, shifted, table.file, table.remarks)


def unique_names(names: Iterable[str]) -> list[str]:
    """Names of columns, each once: `a`, `a (2)`, ..."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def numbered_graph(
    edges: Array, x: Any = None, y: Any = None, ids: Any = None, nodes: int | None = None, weights: Array | None = None
) -> RawGraph:
    """A graph whose edges [2, E] are pairs of node numbers; `ids` name the nodes."""
    if edges.ndim != 2 or len(edges) != 2:
        raise InputError(f"edges need to be [2, E] (got {list(edges.shape)})", "a row of sources, a row of targets")
    if edges.dtype.kind not in "iu":
        raise InputError(f"edges need to be integers (got {edges.dtype})", "they are node numbers, from 0")
    arrays = {"rows of features": x, "names": ids, "labels": y}
    lengths = {what: array.shape[0] for what, array in arrays.items() if array is not None and array.ndim}
    lengths = lengths if nodes is None else {"nodes": nodes}
    what, count = next(iter(lengths.items()), ("nodes", int(edges.max()) + 1 if edges.size else 0))
    if edges.size and edges.min() < 0:
        raise InputError(f"an edge names node {edges.min()}: node numbers are not negative", "count from 0")
    if edges.size and edges.max() >= count:
        hint = f"there are {count} {what}, counted from 0"
        raise InputError(f"an edge names node `{edges.max()}`, which does not exist", hint)
    content = (edges, *(array for array in arrays.values() if array is not None))
    require_counted(count, sum(array.size for array in content), "nodes")
    columns = _node_columns(x, y, count)
    names = number_names(count) if ids is None else [str(name) for name in decode(np.asarray(ids)).reshape(-1).tolist()]
    if len(names) != count:
        raise InputError(f"{len(names)} ids for {count} nodes", "every node needs one")
    label = None if y is None else "y"
    return RawGraph(edges.astype(np.int64), names, columns, label, weights=weights)


def named_graph(pairs: Iterable[Sequence[Any]], names: list[str], columns: Mapping[str, Column]) -> RawGraph:
    """A graph of pairs of names, whose nodes are known."""
    index: dict[str, int] = {name: row for row, name in enumerate(validate_names(names))}
    try:
        flat = np.fromiter((index[str(end)] for pair in pairs for end in pair), dtype=np.int64)
    except KeyError as error:
        raise InputError(f"an edge names node {error}, which does not exist", "list it among the nodes") from None
    return RawGraph(flat.reshape(-1, 2).T, list(index), columns)


def link_names(source: Text, target: Text) -> RawGraph:
    """A graph from columns of sources and targets; nodes are in order of number if all are numbers, else of occurrence.

    Numbers are names, too: they may have gaps.
    """
    index: dict[str, int] = {}
    numbers = [
        np.array([index.setdefault(name, len(index)) for name in column.values], np.int64)
        for column in (source, target)
    ]
    edges = np.stack([number[column.codes] for number, column in zip(numbers, (source, target), strict=True)])
    names = list(index)
    flat = edges.T.reshape(-1)
    first = np.full(len(names), len(flat))
    first[flat[::-1]] = np.arange(len(flat))[::-1]  # of several, the last one assigned stays
    order = np.argsort(first, kind="stable")[: int((first < len(flat)).sum())]
    ordered = [names[row] for row in order.tolist()]
    if all(re.fullmatch(r"-?\d+", name) for name in ordered):
        if lowest := min((int(name) for name in ordered if name.startswith("-")), default=0):
            raise InputError(f"an edge names node {lowest}: node numbers are not negative", "count from 0")
        order = order[sorted(range(len(ordered)), key=lambda row: (int(ordered[row]), ordered[row]))]
        ordered = [names[row] for row in order.tolist()]
    position = np.zeros(len(names), dtype=np.int64)
    position[order] = np.arange(len(order))
    return RawGraph(position[edges], ordered, has_all_nodes=False)


class MatrixEdges(NamedTuple):
    """Edges [2, E] of an adjacency matrix [N, N], N, and the entries [E] as weights; None if all are 1."""

    edges: Array
    nodes: int
    weights: Array | None


def edges_of(adjacency: Any) -> MatrixEdges:
    """Edges of an adjacency matrix [N, N], whose entries are their weights; stored zeros are no edges."""
    matrix = scipy.sparse.csr_matrix(adjacency)
    if matrix.shape[0] != matrix.shape[1]:
        shape = list(matrix.shape)
        raise InputError(f"an adjacency matrix is square (got {shape})", "a row and a column for each node")
    matrix.eliminate_zeros()
    pairs = matrix.tocoo()
    entries = pairs.data.astype(np.float64)
    edges = np.stack([pairs.row, pairs.col]).astype(np.int64)
    return MatrixEdges(edges, matrix.shape[0], None if (entries == 1).all() else entries)


def as_array(value: Any) -> Any:
    """Any array or tensor as numpy's array, or as scipy's matrix if it is sparse."""
    torch = sys.modules.get("torch")  # not imported for files that need none
    if torch is None or not isinstance(value, torch.Tensor):
        return value if scipy.sparse.issparse(value) else np.asarray(value)
    value = value.detach().cpu()
    if value.layout == torch.strided:
        return value.numpy()
    if value.layout != torch.sparse_coo:
        value = value.to_sparse_coo()
    value = value.coalesce()
    return scipy.sparse.csr_matrix((value.values().numpy(), value.indices().numpy()), tuple(value.shape))


def validate_names(names: list[str], file: str = "") -> list[str]:
    """Raise `InputError` unless every node has a name of its own."""
    if "" in names:
        message = f"{prefix(file)}node number {names.index('')} has an empty name"
        raise InputError(message, "every node needs one")
    if repeated := len(names) - len(set(names)):
        example = Counter(names).most_common(1)[0][0]
        message = f"{prefix(file)}{repeated} names belong to more than one node, such as `{example}`"
        raise InputError(message, "every node needs a name of its own")
    return names


def prefix(file: str) -> str:
    """A file at the beginning of a message."""
    return f"`{file}`: " if file else ""


def number_names(count: int) -> list[str]:
    """Numbers as the names of nodes."""
    return [str(number) for number in range(count)]


def _node_columns(x: Any, y: Any, nodes: int) -> dict[str, Column]:
    """Features and labels as columns; raise `InputError` unless they have a row for each node."""
    columns: dict[str, Column] = {}
    if x is not None:
        x = x.reshape(-1, 1) if x.ndim == 1 else x
        if x.ndim != 2 or x.shape[0] != nodes:
            raise InputError(f"features {list(x.shape)} for {nodes} nodes", "they need a row for every node")
        columns |= {"x": x} if x.shape[1] else {}
    if y is not None:
        y = y.reshape(-1) if y.size == y.shape[0] else y
        if y.shape[0] != nodes:
            raise InputError(f"{y.shape[0]} labels for {nodes} nodes", "every node needs one")
        columns["y"] = decode(y)
    return columns
