"""Graphs as networkx has and writes them: in memory, .graphml, .gexf, .gml, and node-link .json."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import numpy as np

from progcl.data.columns import Array, Column, code_text
from progcl.data.tables import RawGraph, named_graph, number_names
from progcl.data.weights import HINT as WEIGHT_HINT
from progcl.data.weights import NO_WEIGHTS, UnusedWeights, read_weights
from progcl.errors import InputError, suggest
from progcl.files import open_binary, open_text

LINK_ENDS = {"source", "target", "key", "id"}  # of a link in node-link JSON: no attributes of the edge
MAX_CELLS, CELLS_PER_VALUE = 10**7, 100  # of a table of attributes, and as many again for each value that is there


def read_graphml(path: Path, weight: str | None = None) -> RawGraph:
    """GraphML; entities are refused."""
    import networkx

    with _as_value_error():
        return from_networkx(networkx.read_graphml(_open_xml(path)), weight)


def read_gexf(path: Path, weight: str | None = None) -> RawGraph:
    """Gephi's GEXF; entities are refused."""
    import networkx

    with _as_value_error():
        graph = networkx.read_gexf(_open_xml(path))
    for attributes in graph.nodes.values():
        for name in ("viz", "start", "end", "pid"):
            attributes.pop(name, None)
    return from_networkx(graph, weight)


def read_gml(path: Path, weight: str | None = None) -> RawGraph:
    """GML; nodes are named by their labels, or by their ids where labels are missing or repeated."""
    import networkx

    with open_text(path) as file:
        lines = file.read().splitlines()
    with _as_value_error():
        try:
            graph = networkx.parse_gml(lines)
        except networkx.NetworkXError as error:
            if "label" not in str(error):
                raise
            graph = networkx.parse_gml(lines, label="id")
    for attributes in graph.nodes.values():
        attributes.pop("graphics", None)
    return from_networkx(graph, weight)


def read_node_link(path: Path, weight: str | None = None) -> RawGraph:
    """Node-link JSON: `nodes` with `id`, and `links` or `edges` with `source` and `target`."""
    with open_text(path) as file:
        content = json.load(file)
    links: Any = content.get("links", content.get("edges")) if isinstance(content, Mapping) else None
    nodes: Any = content.get("nodes") if isinstance(content, Mapping) else None
    if not _is_records(nodes) or not _is_records(links):
        hint = "networkx.node_link_data writes such a file"
        raise InputError(f"`{path}` holds no `nodes` and `links` (or `edges`)", hint)
    for number, link in enumerate(links):
        if "source" not in link or "target" not in link:
            raise InputError(f"`{path}`: link {number} has no `source` and `target`", "both name a node")
    have_ids = all("id" in node for node in nodes)
    names = [str(node["id"]) for node in nodes] if have_ids else number_names(len(nodes))
    attributes = [{key: value for key, value in node.items() if key != "id"} for node in nodes]
    graph = named_graph(((link["source"], link["target"]) for link in links), names, to_columns(attributes))
    graph = _weigh(graph, links, weight)
    titles = [str(node.get("name", "")) for node in nodes]
    if not have_ids and all(titles) and len(set(titles)) == len(titles):  # D3's links are numbers of nodes with names
        return replace(graph, names=titles)
    return graph


def from_networkx(graph: Any, weight: str | None = None) -> RawGraph:
    """A networkx graph; attributes of nodes are columns, of which `label`, `class` or `y` may be the class.

    The attribute `weight` of edges is their weight; without one they have none, and numbers that could be are named.
    """
    names = [str(node) for node in graph]
    columns = to_columns([attributes for _, attributes in graph.nodes(data=True)])
    edges = list(graph.edges(data=True))
    raw = named_graph(((source, target) for source, target, _ in edges), names, columns)
    return _weigh(raw, [attributes for *_, attributes in edges], weight)


def _weigh(graph: RawGraph, edges: Sequence[Mapping[str, Any]], weight: str | None) -> RawGraph:
    """A graph with an attribute of its edges as their weights, or with a remark on those that could be."""
    if weight == NO_WEIGHTS or not edges:
        return graph
    if weight is None:
        numeric = [name for name, value in edges[0].items() if isinstance(value, Real) and name not in LINK_ENDS]
        return replace(graph, remarks=(UnusedWeights(numeric, "attribute"),)) if numeric else graph
    known = sorted({str(name) for attributes in edges for name in attributes} - LINK_ENDS)
    if weight not in known:
        raise InputError(f"no edge has the attribute `{weight}`, which --weight names", suggest(weight, known))
    column = to_column([attributes.get(weight) for attributes in edges])
    if column is None:
        raise InputError(f"the attribute `{weight}` of edges is neither number nor text", WEIGHT_HINT)
    return replace(graph, weights=read_weights(column, weight, lambda row: f"edge number {row}"))


def to_columns(records: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Attributes of nodes as columns, in the order of their names; others than numbers, text and lists are left out."""
    records = [{str(key): value for key, value in record.items()} for record in records]
    names = sorted({key for record in records for key in record})
    if len(names) * len(records) > max(MAX_CELLS, CELLS_PER_VALUE * sum(map(len, records))):
        message = f"{len(names):,} attributes of {len(records):,} nodes, of which nearly all are missing"
        raise InputError(message, "write them as a table of three columns: node, feature, value")
    columns = {name: to_column([record.get(name) for record in records]) for name in names}
    return {name: column for name, column in columns.items() if column is not None}


def to_column(values: list[Any]) -> Column | None:
    """Values of Python, where None is missing, as a column; None if they are neither numbers, text nor lists."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, (Real, np.bool_)) for value in present):
        return np.array([np.nan if value is None else float(value) for value in values])
    if all(isinstance(value, (str, Real)) for value in present):
        return code_text("" if value is None else str(value) for value in values)
    return _to_matrix(values, present)


def _to_matrix(values: list[Any], present: list[Any]) -> Array | None:
    """Lists of as many numbers as a matrix [n, k]; None for anything else."""
    try:
        rows = np.array([np.atleast_1d(np.asarray(value)) for value in present])
    except ValueError:  # of different lengths
        return None
    if rows.ndim != 2 or rows.dtype.kind not in "iufb":
        return None
    matrix = np.full((len(values), rows.shape[1]), np.nan)
    matrix[[value is not None for value in values]] = rows
    return matrix


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Turn what networkx raises on broken files into what other readers raise."""
    import networkx

    try:
        yield
    except networkx.NetworkXException as error:
        raise ValueError(str(error)) from None


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _open_xml(path: Path) -> IO[bytes]:
    """The content of an XML file; one that declares entities is refused, as they can grow without bound."""
    with open_binary(path) as file:
        content = file.read()
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise InputError(f"`{path}` declares entities, which are not read", "save it without a DOCTYPE")

    parser.EntityDeclHandler = refuse
    parser.Parse(content, True)
    return io.BytesIO(content)
