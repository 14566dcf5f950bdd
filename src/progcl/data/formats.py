"""A user's graph from a file, in the formats that graphs come in."""

from __future__ import annotations

import csv
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx
import numpy as np
import scipy.sparse
import torch
from safetensors import SafetensorError
from torch_geometric.data import Data

from progcl.data.tables import (
    Column,
    RawGraph,
    as_array,
    assemble,
    edges_of,
    from_networkx,
    named_graph,
    numbered_graph,
)
from progcl.errors import InputError
from progcl.registry import pick

FORMS = "`edge_index` [2, E] with `x` and `y`, or a CSR matrix as `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`"


KEYS = {
    *("edge_index", "x", "y", "ids", "node_ids", "num_nodes", "labels", "features", "attr_matrix"),
    *(f"{prefix}{part}" for prefix in ("adj_", "attr_", "") for part in ("data", "indices", "indptr", "shape")),
}


ENDS = [("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"), ("id_1", "id_2")]


NAMES = {"", "id", "node", "name", "node_id"}


BROKEN = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, EOFError, RuntimeError, OSError),
    *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError, SafetensorError, ParseError, csv.Error),
    networkx.NetworkXException,
)


def read_graph(graph: str, features_from: str | None = None, labels_from: str | None = None) -> Data:
    """A graph of your own: `edge_index`, perhaps `x` and `y`, and `ids`, the nodes' names.

    `classes` are the names that numbers in `y` stand for.

    Args:
        graph: the file; an edge list has two names or numbers a line
        features_from: .npy with a row a node, or a table whose first column names the node
        labels_from: .npy or a table of names and classes
    """
    x = _read(Path(features_from), COLUMNS, "features") if features_from else None
    y = _read(Path(labels_from), COLUMNS, "labels") if labels_from else None
    return assemble(read_raw_graph(graph), x, y)


def read_raw_graph(graph: str | Path) -> RawGraph:
    """What a file holds, by its ending."""
    found: RawGraph = _read(Path(graph), GRAPHS, "graph")
    return found


def _read(path: Path, readers: Mapping[str, Callable[[Path], Any]], what: str) -> Any:
    """Read a file by its ending; whatever is wrong with it becomes one line."""
    if path.is_dir():
        raise InputError(f"`{path}` is a folder", "name a file in it")
    if not path.exists():
        raise InputError(f"there is no file `{path}`", "paths are looked up from the current folder")
    read = pick(readers, path.suffix.lower(), f"ending of a file with {what},")
    try:
        return read(path)
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"`{path}` is no text in UTF-8", "save it as UTF-8") from None
    except BROKEN as error:
        if isinstance(error, pickle.UnpicklingError) or "allow_pickle" in str(error):
            hint = "objects are never loaded, for they can run code: save plain arrays or tensors"
            raise InputError(f"`{path}` holds objects, or is broken", hint) from None
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        hint = f"is it complete, and in the format that `{path.suffix}` says?"
        raise InputError(f"`{path}` cannot be read: {reason}", hint) from None


def _npz(path: Path) -> RawGraph:
    if not zipfile.is_zipfile(path):
        raise zipfile.BadZipFile("it is no archive of arrays")
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return _arrays({name: file[name] for name in KEYS & set(file.files)}, file.files)


def _safetensors(path: Path) -> RawGraph:
    from safetensors.numpy import load_file

    content = load_file(path)
    return _arrays(content, list(content))


def _pt(path: Path) -> RawGraph:
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
    arrays = {name: as_array(content[name]) for name in KEYS & set(content) if content[name] is not None}
    return _arrays(arrays, [str(name) for name in content])


def _arrays(arrays: Mapping[str, Any], present: Sequence[str]) -> RawGraph:
    """A graph from arrays by name, in one of the two usual forms; edges are places, whatever the nodes are called."""
    ids, y, x = (
        next((arrays[name] for name in names if name in arrays), None)
        for names in (("ids", "node_ids"), ("y", "labels"), ("x", "attr_matrix", "features"))
    )
    x = _matrix(arrays, "attr_") if x is None and "attr_indptr" in arrays else x
    nodes = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    prefix = next((prefix for prefix in ("adj_", "") if f"{prefix}indptr" in arrays), None)
    if "edge_index" in arrays:
        edges = arrays["edge_index"]
    elif prefix is not None:
        edges, nodes = edges_of(_matrix(arrays, prefix))
    else:
        raise InputError(f"there are no edges among {', '.join(sorted(present)) or 'no arrays'}", f"needed: {FORMS}")
    return numbered_graph(edges, x, y, ids, nodes)


def _matrix(arrays: Mapping[str, Any], prefix: str) -> Any:
    if not all(f"{prefix}{name}" in arrays for name in ("indices", "indptr", "shape")):
        raise InputError(f"`{prefix}indptr` stands alone", f"needed: {FORMS}")
    indices, starts, shape = (arrays[f"{prefix}{name}"] for name in ("indices", "indptr", "shape"))
    data = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    matrix = scipy.sparse.csr_matrix((data, indices, starts), tuple(shape.tolist()))
    matrix.check_format()
    return matrix


def _edge_list(path: Path) -> RawGraph:
    """Two names or numbers a line, perhaps below a head; further columns are not read."""
    cut, skipped, first = _shape(path)
    head = tuple(cell.lower() for cell in first[0][:2]) in ENDS
    head |= len(first) > 1 and not any(map(_number, first[0][:2])) and all(map(_number, first[1][:2]))
    if not head and first[0][0].lower() in NAMES:
        line = ", ".join(first[0])[:60]
        raise InputError(f"`{path}` begins with `{line}`, the head of a table of nodes", "--features takes such tables")
    found = named_graph(row[:2] for row in _rows(path, cut, skipped + head))
    unread = len(first[0]) - 2
    return replace(found, remarks=("further columns are not read: edges have no weights",) if unread > 0 else ())


def _table(path: Path) -> Column:
    """A node's name, and what belongs to it: numbers, or the name of a class."""
    cut, skipped, first = _shape(path)
    head = first[0][0].lower() in NAMES
    head |= len(first) > 1 and not any(map(_number, first[0][1:])) and all(map(_number, first[1][1:]))
    rows = list(_rows(path, cut, skipped + head))
    if not rows:
        raise InputError(f"`{path}` has a head and no rows", "every node needs one")
    return Column(np.array([row[1:] for row in rows]), [row[0] for row in rows])


def _shape(path: Path) -> tuple[str | None, int, list[list[str]]]:
    """What stands between two values, how many lines to skip before the first, and what the first two hold."""
    with path.open(encoding="utf-8-sig") as file:
        lines = list(islice(((number, line) for number, line in enumerate(file) if _counts(line)), 2))
    if not lines:
        raise InputError(f"`{path}` is empty", "an edge is two names in a line")
    for cut in ("\t", ";", ",", None):
        cells = [_split(line, cut) for _, line in lines]
        if len(cells[0]) > 1:
            return cut, lines[0][0], cells
    raise InputError(
        f"`{path}`: line {lines[0][0] + 1} has one value, at least two are needed", "separate them by a comma"
    )


def _counts(line: str) -> bool:
    """Whether a line says something; a comment is `#` or `%`, alone or before a space: names may begin with them."""
    text = line.strip()
    return bool(text) and text not in ("#", "%") and not text.startswith(("# ", "% "))


def _split(line: str, cut: str | None) -> list[str]:
    cells = next(csv.reader([line], delimiter=cut), []) if cut else line.split()
    return [cell.strip() for cell in cells]


def _rows(path: Path, cut: str | None, skipped: int) -> Iterator[list[str]]:
    width = None
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=cut) if cut else (line.split() for line in file)
        for number, cells in enumerate(lines, 1):
            if number <= skipped or not _counts(cut.join(cells) if cut else " ".join(cells)):
                continue
            width = width or len(cells)
            if len(cells) != width:
                message = f"`{path}`: line {number} has {len(cells)} values, the lines before it {width}"
                raise InputError(message, "every line needs as many")
            yield [cell.strip() for cell in cells]


def _number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is not None


def _parquet(path: Path) -> RawGraph:
    """Two columns called as ENDS has them, or the first two."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    table = pyarrow.parquet.read_table(path)
    if len(table.column_names) < 2:
        raise InputError(f"`{path}` has {len(table.column_names)} column, an edge needs 2", "source and target")
    by_name = {name.lower(): name for name in table.column_names}
    pair = next((pair for pair in ENDS if set(pair) <= set(by_name)), None)
    ends = [table[by_name[name]] for name in pair] if pair else [table[index] for index in (0, 1)]
    if missing := sum(end.null_count for end in ends):
        raise InputError(f"{missing} ends of edges are missing in `{path}`", "leave such edges out")
    return named_graph(zip(*(end.to_pylist() for end in ends), strict=True))


def _graphml(path: Path) -> RawGraph:
    return from_networkx(networkx.read_graphml(path))


def _npy(path: Path) -> Column:
    content = np.load(path, allow_pickle=False)
    if not isinstance(content, np.ndarray):
        content.close()
        raise InputError(f"`{path}` holds several arrays", "save one as .npy")
    return Column(content)


GRAPHS: dict[str, Callable[[Path], RawGraph]] = {
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
