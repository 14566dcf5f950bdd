"""A graph joined with tables of its nodes: which rows belong to which nodes, features, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from progcl.data.classes import choose_label_column, code_and_remark, split_label
from progcl.data.columns import (
    TYPE_HEADERS,
    Array,
    Text,
    match_headers,
    take_rows,
)
from progcl.data.feature_plan import check_columns
from progcl.data.features import Feature, encode_features, transform_features
from progcl.data.long_form import name_matrix
from progcl.data.node_rows import JoinOptions, NamedRows, check_id_column, name_rows
from progcl.data.tables import RawGraph, Table, number_names, prefix, validate_names
from progcl.data.weights import validate_weights
from progcl.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class NodeData:
    """A graph with its features and labels as arrays.

    Attributes:
        edges: [2, E], indices into `ids`
        ids: names of the nodes, [N]
        x: features [N, F], perhaps sparse; None without any
        y: class numbers [N], -1 for unknown; None without labels
        classes: names of the classes
        weights: of the edges [E]; None without any
        plan: how columns became features
        remarks: what was read how, one sentence each
    """

    edges: Array
    ids: list[str]
    x: Any = None
    y: Array | None = None
    classes: list[str] = field(default_factory=list)
    plan: list[Feature] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    weights: Array | None = None

    def to_data(self) -> Data:
        """The same as a PyG `Data`."""
        import torch
        from torch_geometric.data import Data

        data = Data(edge_index=torch.from_numpy(self.edges), num_nodes=len(self.ids))
        data.ids, data.remarks = self.ids, list(self.remarks)
        if self.weights is not None:
            data.edge_weight = torch.from_numpy(self.weights)
        if self.x is not None:
            from progcl.data.rows import from_scipy

            dense = None if issparse(self.x) else np.ascontiguousarray(self.x, dtype=np.float32)
            data.x = from_scipy(self.x) if dense is None else torch.from_numpy(dense)
            data.plan = [vars(feature) for feature in self.plan]
        if self.y is not None:
            data.y, data.classes = torch.from_numpy(self.y), self.classes
        return data


def join(
    graph: RawGraph,
    features: Table | None = None,
    labels: Table | None = None,
    ids: Sequence[str] | None = None,
    options: JoinOptions | None = None,
) -> NodeData:
    """Join a graph with tables of its nodes.

    Rows of features add nodes to an edge list; rows of labels do not, and what they do not name is unknown.

    Args:
        graph: with or without features and labels of its own
        features: replace those of the graph
        labels: likewise
        ids: names of the nodes for rows that have none
        options: which columns are meant

    Raises:
        InputError: if the tables do not fit the graph; it names column and row
    """
    options = options or JoinOptions()
    graph = _name_nodes(graph, ids)
    _validate_weights(graph)
    check_id_column([table for table in (features, labels) if table], options.id_column, ids is not None)
    remarks = list(graph.remarks)
    rows_of_features = name_rows(features, graph, ids, options, remarks) if features else None
    names = _all_names(graph, rows_of_features)
    index = {name: row for row, name in enumerate(names)}
    node_rows = np.array([index[name] for name in graph.names], dtype=np.int64)
    y, classes = _read_labels(labels, graph, index, ids, options, remarks)
    table, label = _own_table(graph, node_rows, len(names)), graph.label
    if rows_of_features:
        if y is None and label is not None and options.label_column is None:
            y, classes = code_and_remark(table.columns[label], len(names), graph.file, remarks)
        table, label = _align(rows_of_features, index, graph, "features", remarks), None
    table, own = split_label(table, label, y is not None, options.label_column, remarks)
    if y is None and own is not None:
        y, classes = code_and_remark(own, len(names), table.file, remarks)
    x, plan = _encode(table, options, remarks, own is not None or features is None)
    remarks = list(dict.fromkeys(remarks))
    return NodeData(node_rows[graph.edges], names, x, y, classes, plan, remarks, graph.weights)


def _name_nodes(graph: RawGraph, ids: Sequence[str] | None) -> RawGraph:
    """Names for the nodes of a graph of numbers."""
    if ids is None or not graph.has_all_nodes:
        return graph
    if len(ids) != len(graph.names):
        raise InputError(f"--ids has {len(ids)} names for {len(graph.names)} nodes", "every node needs one")
    return replace(graph, names=list(ids))


def _validate_weights(graph: RawGraph) -> None:
    """Raise `InputError` if a weight is missing, negative or infinite."""
    if graph.weights is not None:
        weights, (sources, targets) = graph.weights, graph.edges

        def describe(row: int) -> str:
            ends = f"`{graph.names[sources[row]]}` and `{graph.names[targets[row]]}`"
            return f"{prefix(graph.file)}the edge between {ends} has weight {weights[row]:g}"

        validate_weights(weights, describe)


def _all_names(graph: RawGraph, rows: NamedRows | None) -> list[str]:
    """Names of all nodes in the order of their rows: the graph's, or the features' if these may have further nodes."""
    if graph.has_all_nodes or rows is None:
        return validate_names(graph.names, graph.file)
    if rows.names is not None:
        return list(dict.fromkeys([*rows.names, *graph.names]))
    names = number_names(len(rows.table))
    missing = next((name for name in graph.names if name not in set(names)), None)
    if missing is not None:
        hint = f"its {len(names)} rows belong to `{names[0]}` to `{names[-1]}`; --ids FILE gives them other names"
        raise InputError(f"{prefix(rows.table.file)}no row for node `{missing}`, which has edges", hint)
    return names


def _own_table(graph: RawGraph, node_rows: Array, nodes: int) -> Table:
    """The columns that the graph's file has; nodes that a table adds have no values in them."""
    rows = np.full(nodes, -1, dtype=np.int64)
    rows[node_rows] = np.arange(len(node_rows))
    if len(node_rows) == nodes and bool((rows == np.arange(nodes)).all()):
        return Table(graph.columns, file=graph.file)
    return Table({name: take_rows(column, rows) for name, column in graph.columns.items()}, file=graph.file)


def _align(rows: NamedRows, index: dict[str, int], graph: RawGraph, what: str, remarks: list[str]) -> Table:
    """The rows of a table in the order of the nodes; nodes without a row have no values."""
    table, nodes = rows.table, len(index)
    if rows.names is None:
        order = _order_by_number(table, index, graph, what)
    else:
        order = np.full(nodes, -1, dtype=np.int64)
        places = [index.get(name, -1) for name in rows.names]
        known = np.array(places, dtype=np.int64) >= 0
        order[np.array(places)[known]] = np.flatnonzero(known)
        with_edges = (
            sum(name in index for name in rows.names)
            if graph.has_all_nodes
            else len(set(rows.names) & set(graph.names))
        )
        if not with_edges:
            hint = "--id-column names another column, --ids a file with the names of the rows"
            wrong, right = next(iter(rows.names), ""), next(iter(graph.names), "")
            message = f"names such as `{wrong}` are no node of the graph, as `{right}` is"
            raise InputError(f"{prefix(table.file)}{message}: no row of {what} is used", hint)
        _describe_rows(table.file, what, int((~known).sum()), int((order < 0).sum()), remarks)
    columns = {name: take_rows(column, order) for name, column in table.columns.items()}
    find_line = table.find_line
    located = (lambda row: find_line(int(order[row]))) if find_line else None
    return replace(table, columns=columns, find_line=located)


def _order_by_number(table: Table, index: dict[str, int], graph: RawGraph, what: str) -> Array:
    """The row of every node, for rows that belong to nodes by number."""
    rows, hint = len(table), "every node needs one"
    if graph.has_all_nodes:
        if rows != len(index):
            raise InputError(f"{prefix(table.file)}{rows} rows of {what} for {len(index)} nodes", hint)
        return np.arange(rows)
    wrong = next((name for name in index if not name.isdecimal() or int(name) >= rows), None)
    if wrong is not None:
        hint = f"row i belongs to node number i, from 0 to {rows - 1}; --ids FILE gives the rows names"
        raise InputError(f"{prefix(table.file)}no row of {what} for node `{wrong}`", hint)
    return np.array([int(name) for name in index], dtype=np.int64)


def _describe_rows(file: str, what: str, foreign: int, absent: int, remarks: list[str]) -> None:
    if foreign:
        remarks.append(f"{prefix(file)}{foreign:,} rows of {what} name no node of the graph and are not used")
    if absent and what == "features":
        remarks.append(f"{prefix(file)}{absent:,} nodes have no row of features: their values are missing")


def _read_labels(
    labels: Table | None,
    graph: RawGraph,
    index: dict[str, int],
    ids: Sequence[str] | None,
    options: JoinOptions,
    remarks: list[str],
) -> tuple[Array | None, list[str]]:
    """Class numbers from a table of labels."""
    if labels is None:
        return None, []
    rows = name_rows(labels, graph, ids, options, remarks)
    column = choose_label_column(rows.table, options.label_column)
    table = _align(
        replace(rows, table=replace(rows.table, columns={column: rows.table.columns[column]})),
        index,
        graph,
        "labels",
        remarks,
    )
    return code_and_remark(table.columns[column], len(index), labels.file, remarks)


def _encode(table: Table, options: JoinOptions, remarks: list[str], may_be_empty: bool) -> tuple[Any, list[Feature]]:
    """Features of all nodes, None without any, and how they were made."""
    types = [name for name in match_headers(table.columns, TYPE_HEADERS) if isinstance(table.columns[name], Text)]
    kind = types[0] if types else None
    if options.plan is not None:
        check_columns(options.plan, table, kind, remarks)
        return transform_features(options.plan, table.columns, kind), options.plan
    x, plan, said = encode_features(table, kind, options.scale)
    remarks += said
    if not plan and not may_be_empty:
        reason = f": {said[0]}" if said else ""
        raise InputError(f"{prefix(table.file)}there are no features{reason}", "leave out --features to do without")
    return (x if plan and x.shape[1] else None), name_matrix(plan, table) if table.vocabulary else plan
