"""Graphs put together: edges between numbers or names, joined with tables of features and labels."""

from __future__ import annotations

import re
from collections import Counter
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
    """A graph as a file holds it.

    Attributes:
        edges: [2, E], indices into `names`
        names: name of every node, [N]
        x: features [N, F], dense or sparse; None without any
        y: label of every node [N], a name or a number; None without labels
        has_all_nodes: false for an edge list: a table of features or labels may name nodes without edges
        remarks: what was not read, one sentence each
        file: where it was read from, for messages
    """

    edges: Array
    names: list[str]
    x: Any = None
    y: Array | None = None
    has_all_nodes: bool = True
    remarks: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class NodeTable:
    """A table with a row for each node: features or labels.

    Attributes:
        values: [N, F] or [N]
        names: the node of every row [N]; None if row i belongs to node number i
        columns: names of the columns [F]; None without a header
        file: where it was read from, for messages
    """

    values: Array
    names: list[str] | None = None
    columns: list[str] | None = None
    file: str = ""


def assemble(graph: RawGraph, features: NodeTable | None = None, labels: NodeTable | None = None) -> Data:
    """Join a graph with tables of its nodes; raise `InputError` where they do not fit."""
    names = _node_names(graph, features or labels)
    index = {name: row for row, name in enumerate(names)}
    missing = next((name for name in graph.names if name not in index), None)
    if missing is not None:
        table = features or labels
        hint = f"every node needs one of the {len(names)} rows, which belong to `{names[0]}` to `{names[-1]}`"
        where = _prefix(table.file if table else "")
        raise InputError(f"{where}no row for node `{missing}`, which has edges", hint)
    node_rows = np.array([index[name] for name in graph.names], dtype=np.int64)
    data = Data(edge_index=torch.from_numpy(node_rows[graph.edges]), num_nodes=len(names))
    data.ids, data.remarks = names, list(graph.remarks)
    rows = graph.x if features is None else _align_rows(features, index, graph.has_all_nodes, "features")
    if rows is not None:
        x = _to_features(rows, names, features or NodeTable(rows, file=graph.file))
        data.update({"x": x} if x.size(1) else {})
    classes = graph.y if labels is None else _align_rows(labels, index, graph.has_all_nodes, "labels")
    if classes is not None:
        data.y, data.classes = _to_classes(classes, names, labels.file if labels else graph.file)
    return data


def numbered_graph(edges: Array, x: Any = None, y: Any = None, ids: Any = None, nodes: int | None = None) -> RawGraph:
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
    names = _numbers(count) if ids is None else [str(name) for name in _decode(np.asarray(ids)).reshape(-1).tolist()]
    if len(names) != count:
        raise InputError(f"{len(names)} ids for {count} nodes", "every node needs one")
    return RawGraph(edges.astype(np.int64), names, x, y)


def named_graph(
    pairs: Iterable[Sequence[Any]], x: Any = None, y: Any = None, names: list[str] | None = None
) -> RawGraph:
    """A graph of pairs of names; without `names`, the nodes are those that occur, in numeric order if all are numbers.

    Numbers are names, too: they may have gaps.
    """
    index: dict[str, int] = {name: row for row, name in enumerate(_validate_names(names or []))}
    flat = np.array([index.setdefault(str(end), len(index)) for pair in pairs for end in pair], dtype=np.int64)
    edges, nodes = flat.reshape(-1, 2).T, list(index)
    if names is None and all(re.fullmatch(r"-?\d+", name) for name in nodes):
        if lowest := min((int(name) for name in nodes if name.startswith("-")), default=0):
            raise InputError(f"an edge names node {lowest}: node numbers are not negative", "count from 0")
        order = sorted(range(len(nodes)), key=lambda row: (int(nodes[row]), nodes[row]))
        edges, nodes = np.argsort(np.array(order, dtype=np.int64))[edges], [nodes[row] for row in order]
    return RawGraph(edges, nodes, x, y, has_all_nodes=names is not None)


def from_networkx(graph: Any) -> RawGraph:
    """A networkx graph.

    Numeric attributes that all nodes have are features; `label`, `class` or `y` is the class if nodes share its values.
    """
    names = [str(node) for node in graph]
    attributes = [attributes for _, attributes in graph.nodes(data=True)]
    shared = set.intersection(*(set(each) for each in attributes)) if attributes else set()
    label = next((name for name in ("label", "class", "y") if name in shared and _is_class(name, attributes)), None)
    blocks = [_to_columns([each[name] for each in attributes]) for name in sorted(shared - {label}, key=str)]
    numeric = [block for block in blocks if block is not None]
    classes = np.array([str(each[label]) for each in attributes]) if label else None
    pairs = ((source, target) for source, target, *_ in graph.edges)
    return named_graph(pairs, np.hstack(numeric) if numeric else None, classes, names)


def edges_of(adjacency: Any) -> tuple[Array, int]:
    """Edges [2, E] of an adjacency matrix [N, N], and N; stored zeros are no edges."""
    matrix = scipy.sparse.csr_matrix(adjacency)
    if matrix.shape[0] != matrix.shape[1]:
        shape = list(matrix.shape)
        raise InputError(f"an adjacency matrix is square (got {shape})", "a row and a column for each node")
    matrix.eliminate_zeros()
    pairs = matrix.tocoo()
    return np.stack([pairs.row, pairs.col]).astype(np.int64), matrix.shape[0]


def as_array(value: Any) -> Any:
    """Any array or tensor as numpy's array, or as scipy's matrix if it is sparse."""
    if not isinstance(value, torch.Tensor):
        return value if scipy.sparse.issparse(value) else np.asarray(value)
    value = value.detach().cpu()
    if value.layout == torch.strided:
        return value.numpy()
    if value.layout != torch.sparse_coo:
        value = value.to_sparse_coo()
    value = value.coalesce()
    return scipy.sparse.csr_matrix((value.values().numpy(), value.indices().numpy()), tuple(value.shape))


def _is_class(name: str, attributes: list[dict[str, Any]]) -> bool:
    """Whether an attribute tells classes: two nodes share a value on average, or it is a name of the node."""
    values = [each[name] for each in attributes]
    plain = all(isinstance(value, (str, Real)) for value in values)
    return plain and len(set(map(str, values))) <= max(1, len(values) // 2)


def _to_columns(values: list[Any]) -> Array | None:
    """An attribute of all nodes as features [N, k]; None if it is not numeric."""
    try:
        rows = np.array([np.atleast_1d(np.asarray(value)) for value in values])
    except ValueError:  # of different lengths
        return None
    return rows.astype(np.float64) if rows.ndim == 2 and rows.dtype.kind in "iufb" else None


def _node_names(graph: RawGraph, table: NodeTable | None) -> list[str]:
    """Names of all nodes in the order of their rows: the graph's, or the table's if it may have further nodes."""
    if graph.has_all_nodes or table is None:
        return _validate_names(graph.names, graph.file)
    return _numbers(len(table.values)) if table.names is None else _validate_names(table.names, table.file)


def _validate_names(names: list[str], file: str = "") -> list[str]:
    if "" in names:
        raise InputError(f"{_prefix(file)}node number {names.index('')} has an empty name", "every node needs one")
    if repeated := len(names) - len(set(names)):
        example = Counter(names).most_common(1)[0][0]
        message = f"{_prefix(file)}{repeated} names belong to more than one node, such as `{example}`"
        raise InputError(message, "every node needs a name of its own")
    return names


def _align_rows(table: NodeTable, index: dict[str, int], has_all_nodes: bool, what: str) -> Array:
    """The rows of a table in the order of the nodes; rows without names belong to the nodes by number."""
    rows = table.values
    names = table.names if table.names is not None else list(index) if has_all_nodes else _numbers(len(rows))
    order = [index.get(name) for name in names]
    if len(rows) != len(index) or len(set(order)) != len(index) or None in order:
        unknown = next((name for name, row in zip(names, order, strict=False) if row is None), None)
        hint = "every node needs one" if unknown is None else f"every node needs one; `{unknown}` is no node"
        raise InputError(f"{_prefix(table.file)}{len(rows)} rows of {what} for {len(index)} nodes", hint)
    return rows[np.argsort(np.array(order))]


def _to_features(rows: Any, names: list[str], table: NodeTable) -> torch.Tensor:
    """Features [N, F] in float32; raise `InputError` that names the first cell that is no number."""
    rows = rows.reshape(-1, 1) if rows.ndim == 1 else rows
    where = _prefix(table.file)
    if rows.ndim != 2 or rows.shape[0] != len(names):
        message = f"{where}features {list(rows.shape)} for {len(names)} nodes"
        raise InputError(message, "they need a row for every node")
    dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
    try:
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))
    except ValueError:
        row, column = next(cell for cell in np.ndindex(dense.shape) if not _is_numeric(dense[cell]))
        header = f"`{table.columns[column]}`" if table.columns else str(column + 1)
        message = f"{where}feature `{dense[row, column]}` of node `{names[row]}` in column {header} is not a number"
        raise InputError(message, "leave out columns of text") from None


def _is_numeric(cell: Any) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _to_classes(labels: Array, names: list[str], file: str) -> tuple[torch.Tensor, list[str]]:
    """Labels as class numbers [N] from 0, and the names of the classes."""
    flat = np.asarray(labels).reshape(-1)
    if len(flat) != len(names):
        raise InputError(f"{_prefix(file)}{len(flat)} labels for {len(names)} nodes", "every node needs one")
    texts = [
        str(label).removesuffix(".0") if flat.dtype.kind == "f" else str(label) for label in _decode(flat).tolist()
    ]
    unlabeled = [name for name, text in zip(names, texts, strict=True) if text in ("", "nan", "None")]
    if unlabeled:
        message = f"{_prefix(file)}{len(unlabeled)} of {len(names)} nodes have no label, such as `{unlabeled[0]}`"
        raise InputError(message, "every node needs one; without --labels, none is used")
    classes, numbers = np.unique(np.array(texts), return_inverse=True)
    return torch.from_numpy(numbers.astype(np.int64)), classes.tolist()


def _prefix(file: str) -> str:
    return f"`{file}`: " if file else ""


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _decode(values: Array) -> Array:
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
