"""A graph put together: edges between numbers or names, features and classes that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from progcl.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True)
class RawGraph:
    """What a file holds.

    Attributes:
        edges: [2, E], each end a place in `names`
        names: of the nodes
        x: features, a row a node; dense or sparse
        y: the class of every node, by name or number
        closed: whether there are no other nodes; else a table beside the file may name some
        remarks: what was not read, a sentence each
    """

    edges: Array
    names: list[str]
    x: Any = None
    y: Array | None = None
    closed: bool = True
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """Rows of a table, and the nodes' names beside them; None where a row belongs to the node with its number."""

    values: Array
    names: list[str] | None = None


def assemble(found: RawGraph, x: Column | None = None, y: Column | None = None) -> Data:
    """A graph of what a file holds, and of tables beside it; raise `InputError` where these do not fit."""
    names = _all_names(found, x or y)
    places = {name: place for place, name in enumerate(names)}
    stranger = next((name for name in found.names if name not in places), None)
    if stranger is not None:
        hint = f"every node needs one of the {len(names)} rows, which belong to `{names[0]}` to `{names[-1]}`"
        raise InputError(f"node `{stranger}` has edges, but no row in the table beside them", hint)
    place = np.array([places[name] for name in found.names], dtype=np.int64)
    data = Data(edge_index=torch.from_numpy(place[found.edges]), num_nodes=len(names))
    data.ids, data.remarks = names, list(found.remarks)
    rows = _arranged(x, places, found.closed, "features") if x else found.x
    if rows is not None:
        rows = _features(rows, len(names))
        data.update({"x": rows} if rows.size(1) else {})
    kinds = _arranged(y, places, found.closed, "labels") if y else found.y
    if kinds is not None:
        data.y, data.classes = _classes(kinds, len(names))
    return data


def numbered_graph(edges: Array, x: Any = None, y: Any = None, ids: Any = None, nodes: int | None = None) -> RawGraph:
    """A graph whose edges [2, E] name rows."""
    if edges.ndim != 2 or len(edges) != 2:
        raise InputError(f"edges need to be [2, E] (got {list(edges.shape)})", "a row of sources, a row of targets")
    if edges.dtype.kind not in "iu":
        raise InputError(f"edges need whole numbers (got {edges.dtype})", "they name rows of the features, from 0")
    parts = {"rows of features": x, "names": ids, "labels": y}
    lengths = {what: part.shape[0] for what, part in parts.items() if part is not None and part.ndim}
    lengths = lengths if nodes is None else {"nodes": nodes}
    what, known = next(iter(lengths.items()), ("nodes", int(edges.max()) + 1 if edges.size else 0))
    if edges.size and edges.min() < 0:
        raise InputError(f"an edge names node {edges.min()}: numbers of nodes are not negative", "count from 0")
    if edges.size and edges.max() >= known:
        hint = f"there are {known} {what}, counted from 0"
        raise InputError(f"an edge names node `{edges.max()}`, which does not exist", hint)
    names = _numbers(known) if ids is None else [str(name) for name in _decoded(np.asarray(ids)).reshape(-1).tolist()]
    if len(names) != known:
        raise InputError(f"{len(names)} ids for {known} nodes", "every node needs one")
    return RawGraph(edges.astype(np.int64), names, x, y)


def edges_of(adjacency: Any) -> tuple[Array, int]:
    """The edges [2, E] of a matrix, and its number of nodes; what is 0 is no edge."""
    matrix = scipy.sparse.csr_matrix(adjacency)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"an adjacency matrix is square (got {list(matrix.shape)})", "a row and a column for each node"
        )
    matrix.eliminate_zeros()
    pairs = matrix.tocoo()
    return np.stack([pairs.row, pairs.col]).astype(np.int64), matrix.shape[0]


def _numbers(total: int) -> list[str]:
    return [str(number) for number in range(total)]


def _decoded(values: Array) -> Array:
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def named_graph(
    ends: Iterable[Sequence[Any]], x: Any = None, y: Any = None, names: list[str] | None = None
) -> RawGraph:
    """A graph of pairs of names; without `names`, the nodes are those that occur, whole numbers in their order."""
    places: dict[str, int] = {name: place for place, name in enumerate(_told_apart(names or []))}
    edges = np.array([places.setdefault(str(end), len(places)) for pair in ends for end in pair], dtype=np.int64)
    edges, found = edges.reshape(-1, 2).T, list(places)
    if names is None and all(re.fullmatch(r"-?\d+", name) for name in found):
        if lowest := min((int(name) for name in found if name.startswith("-")), default=0):
            raise InputError(f"an edge names node {lowest}: numbers of nodes are not negative", "count from 0")
        order = sorted(range(len(found)), key=lambda place: (int(found[place]), found[place]))
        edges, found = np.argsort(np.array(order, dtype=np.int64))[edges], [found[place] for place in order]
    return RawGraph(edges, found, x, y, closed=names is not None)


def from_networkx(graph: Any) -> RawGraph:
    """A networkx graph: numbers of all nodes are features; `label`, `class` or `y`, if nodes share it, is the class."""
    nodes = [str(node) for node in graph]
    attributes = [attributes for _, attributes in graph.nodes(data=True)]
    shared = set.intersection(*(set(each) for each in attributes)) if attributes else set()
    kind = next((name for name in ("label", "class", "y") if name in shared and _tells_classes(name, attributes)), None)
    blocks = [_block([each[name] for each in attributes]) for name in sorted(shared - {kind}, key=str)]
    columns = [block for block in blocks if block is not None]
    kinds = np.array([str(each[kind]) for each in attributes]) if kind else None
    return named_graph(((a, b) for a, b, *_ in graph.edges), np.hstack(columns) if columns else None, kinds, nodes)


def _tells_classes(name: str, attributes: list[dict[str, Any]]) -> bool:
    """Names of nodes stand there, too: a class has more than one member."""
    values = [each[name] for each in attributes]
    plain = all(isinstance(value, (str, Real)) for value in values)
    return plain and len(set(map(str, values))) <= max(1, len(values) // 2)


def _block(values: list[Any]) -> Array | None:
    """An attribute as columns of features [N, k]; None if it is not made of numbers."""
    try:
        rows = np.array([np.atleast_1d(np.asarray(value)) for value in values])
    except ValueError:  # of different lengths
        return None
    return rows.astype(np.float64) if rows.ndim == 2 and rows.dtype.kind in "iufb" else None


def as_array(value: Any) -> Any:
    """Whatever holds numbers as numpy's or scipy's; sparse stays sparse."""
    if not isinstance(value, torch.Tensor):
        return value if scipy.sparse.issparse(value) else np.asarray(value)
    value = value.detach().cpu()
    if value.layout == torch.strided:
        return value.numpy()
    if value.layout != torch.sparse_coo:
        value = value.to_sparse_coo()
    value = value.coalesce()
    return scipy.sparse.csr_matrix((value.values().numpy(), value.indices().numpy()), tuple(value.shape))


def _all_names(found: RawGraph, table: Column | None) -> list[str]:
    """What the nodes are called, in the order of their rows."""
    named = found.names if found.closed or table is None else table.names
    names = _numbers(len(_rows_of(table))) if named is None and table else list(named or [])
    if "" in names:
        raise InputError("a node has an empty name", "every row needs one in its first column")
    return _told_apart(names)


def _told_apart(names: list[str]) -> list[str]:
    if repeated := len(names) - len(set(names)):
        raise InputError(f"{repeated} names belong to more than one node", "names tell nodes apart")
    return names


def _arranged(table: Column, places: dict[str, int], closed: bool, what: str) -> Array:
    """The rows of a table in the order of the nodes; by number, where both have no names."""
    rows = _rows_of(table)
    names = table.names if table.names is not None else list(places) if closed else _numbers(len(rows))
    known = [places.get(name) for name in names]
    if len(rows) != len(places) or len(set(known)) != len(places) or None in known:
        stranger = next(
            (f"`{name}` is no node" for name, place in zip(names, known, strict=False) if place is None), ""
        )
        hint = f"every node needs one; {stranger}" if stranger else "every node needs one"
        raise InputError(f"{len(rows)} rows of {what} for {len(places)} nodes", hint)
    return rows[np.argsort(np.array(known))]


def _rows_of(table: Column) -> Array:
    if table.values.ndim == 0:
        raise InputError("a single number is no table", "give a row for every node")
    return table.values


def _features(rows: Any, nodes: int) -> torch.Tensor:
    rows = rows.reshape(-1, 1) if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[0] != nodes:
        raise InputError(f"features {list(rows.shape)} for {nodes} nodes", "they need a row for every node")
    dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
    try:
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))
    except ValueError:
        raise InputError(f"features need to be numbers (got {dense.dtype})", "leave out columns of text") from None


def _classes(kinds: Array, nodes: int) -> tuple[torch.Tensor, list[str]]:
    """Classes as numbers from 0, and their names."""
    flat = np.asarray(kinds).reshape(-1)
    if len(flat) != nodes:
        raise InputError(f"{len(flat)} labels for {nodes} nodes", "every node needs one")
    names = [text.removesuffix(".0") if flat.dtype.kind == "f" else text for text in map(str, _decoded(flat).tolist())]
    if empty := sum(name in ("", "nan", "None") for name in names):
        raise InputError(f"{empty} nodes have no label", "every node needs one; without --labels, none is used")
    classes, numbers = np.unique(np.array(names), return_inverse=True)
    return torch.from_numpy(numbers.astype(np.int64)), classes.tolist()
