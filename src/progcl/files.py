"""A user's graph from a file: edges, features, labels, and the names that nodes and classes have there."""

from __future__ import annotations

import csv
import pickle
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch_geometric.data import Data

from progcl.errors import InputError
from progcl.registry import pick

Array = NDArray[Any]
ARRAYS = "`edge_index` [2, E] with `x` and `y`, or a CSR matrix as `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`"
ENDS = [("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"), ("id_1", "id_2")]
NAMES = [("id",), ("node",), ("name",), ("node_id",)]
BROKEN = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    pickle.UnpicklingError,
    SafetensorError,
    ParseError,
    csv.Error,
)


@dataclass(frozen=True)
class Found:
    """What a file holds.

    Attributes:
        edges: two rows of nodes' names or numbers
        x: features, a row a node; dense or sparse
        y: what class a node is of, by name or number
        ids: the nodes' names in the order of their rows; None for those of the edges, or for numbers
        nodes: how many there are, if the file says so
    """

    edges: Array
    x: Any = None
    y: Array | None = None
    ids: Array | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Column:
    """Rows of a table, and the nodes' names beside them; None where the row's number is the name."""

    values: Array
    ids: Array | None = None


def read_graph(graph: str, features_from: str | None = None, labels_from: str | None = None) -> Data:
    """A graph of your own, as FORMATS lists them: `x`, `edge_index`, perhaps `y`, and `ids`, the nodes' names.

    `classes` are the names that numbers in `y` stand for. Without features there is no `x`.

    Args:
        graph: the file; an edge list has two names or numbers a line
        features_from: .npy with a row a node, or a table whose first column names the node
        labels_from: .npy or a table of names and classes
    """
    x = _read(Path(features_from), COLUMNS, "features") if features_from else None
    y = _read(Path(labels_from), COLUMNS, "labels") if labels_from else None
    return assembled(_read(Path(graph), GRAPHS, "graph"), x, y)


def assembled(found: Found, x: Column | None = None, y: Column | None = None) -> Data:
    """A graph of what a file holds, and of tables beside it; raise `InputError` where these do not fit."""
    ids = _names(found, x, y)
    data = Data(edge_index=_numbered(found.edges, ids))
    data.num_nodes = len(ids)
    rows = _arranged(x, ids, "features") if x else found.x
    if rows is not None:
        data.x = _features(rows, len(ids))
    kinds = _arranged(y, ids, "labels") if y else found.y
    if kinds is not None:
        kinds = np.asarray(kinds).reshape(-1)
        if len(kinds) != len(ids):
            raise InputError(f"{len(kinds)} labels for {len(ids)} nodes", "every node needs one")
        classes, numbers = np.unique(kinds, return_inverse=True)
        data.y, data.classes = torch.from_numpy(numbers), [str(name) for name in classes.tolist()]
    data.ids = [str(name) for name in ids.tolist()]
    return data


def _read(path: Path, readers: Mapping[str, Callable[[Path], Any]], what: str) -> Any:
    """Read a file by its ending; whatever is wrong with it becomes one line."""
    if not path.exists():
        raise InputError(f"there is no file `{path}`", "paths are looked up from the present folder")
    read = pick(readers, path.suffix.lower(), f"ending of a file with {what},")
    try:
        return read(path)
    except InputError:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split())[:160]
        unsafe = "objects are never loaded, for they can run code: save plain arrays"
        hint = unsafe if _unsafe(error) else f"is it complete, and in the format that `{path.suffix}` says?"
        raise InputError(f"`{path}` cannot be read: {reason or type(error).__name__}", hint) from None


def _unsafe(error: Exception) -> bool:
    return isinstance(error, pickle.UnpicklingError) or "allow_pickle" in str(error)


def _names(found: Found, *tables: Column | None) -> Array:
    """What the nodes are called, in the order of their rows."""
    if found.ids is not None:
        return found.ids
    known = found.nodes or (None if found.x is None else found.x.shape[0])
    if known is not None:
        return np.arange(known)
    table = next((table for table in tables if table is not None), None)
    if table is None:
        return np.unique(found.edges)
    if table.ids is None:
        return np.arange(len(table.values))
    if repeated := len(table.ids) - len(np.unique(table.ids)):
        raise InputError(f"{repeated} of {len(table.ids)} rows name a node for the second time")
    return table.ids


def _numbered(edges: Array, ids: Array) -> torch.Tensor:
    """Names in `edges` as row numbers."""
    if edges.ndim != 2 or len(edges) != 2:
        raise InputError(f"edges need to be [2, E] (got {list(edges.shape)})", "a row of sources, a row of targets")
    if edges.dtype.kind not in "iuUSO":
        raise InputError(f"edges need whole numbers or names (got {edges.dtype})")
    if edges.dtype.kind in "iu" and edges.size and edges.min() < 0:
        raise InputError(f"an edge names node {edges.min()}: numbers of nodes are not negative", "count from 0")
    if ids.dtype.kind != edges.dtype.kind:
        ids, edges = ids.astype(str), edges.astype(str)
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids, edges, sorter=order)
    place = order[np.minimum(place, len(ids) - 1)] if len(ids) else np.zeros_like(place)
    known = ids[place] == edges if len(ids) else np.zeros(edges.shape, dtype=bool)
    if not known.all():
        stranger = edges[~known].ravel()[0]
        hint = f"there are {len(ids)}" + (", counted from 0" if ids.dtype.kind in "iu" else ", named in the table")
        raise InputError(f"an edge names node `{stranger}`, which does not exist", hint)
    return torch.from_numpy(np.ascontiguousarray(place, dtype=np.int64))


def _arranged(table: Column, ids: Array, what: str) -> Array:
    """The rows of a table in the order of the nodes."""
    if table.ids is None:
        if len(table.values) != len(ids):
            raise InputError(f"{len(table.values)} rows of {what} for {len(ids)} nodes", "every node needs one")
        return table.values
    names = {str(name): row for row, name in enumerate(table.ids.tolist())}
    missing = [str(name) for name in ids.tolist() if str(name) not in names]
    if missing or len(names) != len(ids):
        stranger = f"`{missing[0]}` has none" if missing else "some are of nodes that do not exist"
        raise InputError(f"{len(names)} rows of {what} for {len(ids)} nodes: {stranger}", "every node needs one")
    return table.values[[names[str(name)] for name in ids.tolist()]]


def _features(rows: Any, nodes: int) -> torch.Tensor:
    if rows.ndim != 2 or rows.shape[0] != nodes:
        raise InputError(f"features {list(rows.shape)} for {nodes} nodes", "they need a row for every node")
    if rows.dtype.kind not in "iufb":
        raise InputError(f"features need to be numbers (got {rows.dtype})")
    dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))


def _npz(path: Path) -> Found:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return _arrays({name: file[name] for name in file.files})


def _safetensors(path: Path) -> Found:
    from safetensors.numpy import load_file

    return _arrays(load_file(path))


def _pt(path: Path) -> Found:
    """A PyG `Data` or a dict of tensors; nothing that could run code is loaded."""
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    known = torch.serialization.get_safe_globals()  # PyG's own may be there already, and stay after this
    plain = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in known]
    with warnings.catch_warnings(), torch.serialization.safe_globals(plain):
        warnings.filterwarnings("ignore", message="Detected pickle protocol")
        content = torch.load(path, map_location="cpu", weights_only=True)
    content = content.to_dict() if isinstance(content, Data) else content
    if not isinstance(content, Mapping):
        raise InputError(f"`{path}` holds a {type(content).__name__}", "save a PyG Data or a dict of tensors")
    arrays = {str(name): _plain(value) for name, value in content.items()}
    return _arrays({name: value for name, value in arrays.items() if value is not None})


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to_dense().numpy() if value.layout != torch.strided else value.numpy()
    return np.asarray(value) if isinstance(value, (list, tuple)) and value else None


def _arrays(arrays: Mapping[str, Array]) -> Found:
    """A graph from arrays by name, in one of the two usual forms."""
    ids = next((arrays[name] for name in ("ids", "node_ids") if name in arrays), None)
    y = next((arrays[name] for name in ("y", "labels") if name in arrays), None)
    x = _matrix(arrays, "attr_") if "attr_indptr" in arrays else None
    x = next((arrays[name] for name in ("x", "attr_matrix", "features") if name in arrays), x)
    if "edge_index" in arrays:
        return Found(arrays["edge_index"], x, y, ids)
    prefix = next((prefix for prefix in ("adj_", "") if f"{prefix}indptr" in arrays), None)
    if prefix is None:
        raise InputError(f"there are no edges among {', '.join(sorted(arrays)) or 'no arrays'}", f"needed: {ARRAYS}")
    adjacency = _matrix(arrays, prefix).tocoo()
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"an adjacency matrix is square (got {list(adjacency.shape)})")
    return Found(np.stack([adjacency.row, adjacency.col]).astype(np.int64), x, y, ids, adjacency.shape[0])


def _matrix(arrays: Mapping[str, Array], prefix: str) -> Any:
    parts = [arrays.get(f"{prefix}{name}") for name in ("indices", "indptr", "shape")]
    if any(part is None for part in parts):
        raise InputError(f"`{prefix}indptr` stands alone", f"needed: {ARRAYS}")
    indices, starts, shape = parts
    assert indices is not None
    assert shape is not None
    data = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    matrix = scipy.sparse.csr_matrix((data, indices, starts), tuple(shape.tolist()))
    matrix.check_format()
    return matrix


def _edge_list(path: Path) -> Found:
    """Two names or numbers a line, perhaps below a head; further columns are not read."""
    cut, skipped = _shape(path, ENDS)
    try:
        return Found(np.loadtxt(path, np.int64, delimiter=cut, skiprows=skipped, usecols=(0, 1), ndmin=2).T)
    except ValueError:
        return Found(np.array([row[:2] for row in _rows(path, cut, skipped)], dtype=str).reshape(-1, 2).T)


def _table(path: Path) -> Column:
    """A node's name, and what belongs to it: numbers, or the name of a class."""
    cut, skipped = _shape(path, NAMES)
    rows = _rows(path, cut, skipped)
    ids, values = np.array([row[0] for row in rows]), np.array([row[1:] for row in rows])
    try:
        return Column(values.astype(np.float64), ids)
    except ValueError:
        return Column(values, ids)


def _rows(path: Path, cut: str | None, skipped: int) -> list[list[str]]:
    rows, width = [], None
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=cut) if cut else (line.split() for line in file)
        for number, cells in enumerate(lines, 1):
            if number <= skipped or not "".join(cells).strip() or cells[0].lstrip().startswith("#"):
                continue
            width = width or len(cells)
            if len(cells) != width:
                raise InputError(f"`{path}`: line {number} has {len(cells)} values, the lines before it {width}")
            rows.append([cell.strip() for cell in cells])
    return rows


def _shape(path: Path, heads: Sequence[tuple[str, ...]]) -> tuple[str | None, int]:
    """What stands between two values, and how many lines to skip: comments, and a head if there is one."""
    first: list[tuple[int, str]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file):
            if line.strip() and not line.lstrip().startswith("#"):
                first.append((number, line.rstrip("\n")))
            if len(first) == 2:
                break
    if not first:
        raise InputError(f"`{path}` is empty")
    cut = next((mark for mark in (",", "\t", ";") if mark in first[0][1]), None)
    cells = [[cell.strip().strip('"').lower() for cell in line.split(cut)] for _, line in first]
    if len(cells[0]) < 2:
        raise InputError(f"`{path}`: line {first[0][0] + 1} has one value, at least two are needed")
    named = any(cells[0][: len(head)] == list(head) for head in heads)
    named |= len(cells) == 2 and not _number(cells[0][0]) and _number(cells[1][0])
    return cut, first[0][0] + named


def _number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _parquet(path: Path) -> Found:
    """The columns `source` and `target`, or the first two."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    table = pyarrow.parquet.read_table(path)
    names = table.column_names
    if len(names) < 2:
        raise InputError(f"`{path}` has {len(names)} column, an edge needs 2")
    pair = ("source", "target") if {"source", "target"} <= set(names) else names[:2]
    columns = [table[name].to_numpy() for name in pair]
    return Found(np.stack([column.astype(str) if column.dtype.kind == "O" else column for column in columns]))


def _graphml(path: Path) -> Found:
    """Numbers that every node has are features; an attribute `label`, `class` or `y` is the class."""
    import networkx

    graph = networkx.read_graphml(path)
    return from_networkx(graph)


def from_networkx(graph: Any) -> Found:
    """A networkx graph, with the numbers that all its nodes have as features."""
    nodes = [str(node) for node in graph]
    attributes = [attributes for _, attributes in graph.nodes(data=True)]
    shared = set.intersection(*(set(each) for each in attributes)) if attributes else set()
    kind = next((name for name in ("label", "class", "y") if name in shared), None)
    columns = sorted(
        name for name in shared - {kind} if all(isinstance(each[name], (int, float)) for each in attributes)
    )
    return Found(
        np.array([[str(a), str(b)] for a, b, *_ in graph.edges], dtype=str).reshape(-1, 2).T,
        np.array([[float(each[name]) for name in columns] for each in attributes]) if columns else None,
        np.array([each[kind] for each in attributes]) if kind else None,
        np.array(nodes, dtype=str),
    )


def _npy(path: Path) -> Column:
    return Column(np.load(path, allow_pickle=False))


GRAPHS: dict[str, Callable[[Path], Found]] = {
    ".npz": _npz,
    ".csv": _edge_list,
    ".tsv": _edge_list,
    ".txt": _edge_list,
    ".parquet": _parquet,
    ".safetensors": _safetensors,
    ".pt": _pt,
    ".graphml": _graphml,
}
COLUMNS: dict[str, Callable[[Path], Column]] = {".npy": _npy, ".csv": _table, ".tsv": _table, ".txt": _table}
