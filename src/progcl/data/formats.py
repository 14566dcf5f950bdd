"""Graphs and tables of nodes from users' files.

To add a format, write a function that takes a path and returns a `RawGraph` (or a `NodeTable`), enter it by its file
extension in the table at the foot of this module, and add a line to `GRAPH_FILES` in tests/data/test_formats.py. A
reader may let its library raise: `_read` turns what `READ_ERRORS` lists into one line that names the file.
"""

from __future__ import annotations

import csv
import pickle
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import ParseError

import networkx
import numpy as np
from safetensors import SafetensorError
from torch_geometric.data import Data

from progcl.data.arrays import read_npz, read_pt, read_safetensors
from progcl.data.delimited import EDGE_HEADERS, read_edge_list, read_table
from progcl.data.tables import NodeTable, RawGraph, assemble, from_networkx, named_graph
from progcl.errors import InputError
from progcl.registry import pick

Content = TypeVar("Content", RawGraph, NodeTable)


def read_graph(graph: str, features_from: str | None = None, labels_from: str | None = None) -> Data:
    """A graph of your own from a file; `progcl embed --help` lists the formats.

    Args:
        graph: the file; an edge list has two names or numbers a line
        features_from: .npy with a row for each node, or a table whose first column names the node
        labels_from: the same with classes

    Returns:
        `Data` with `edge_index` [2, E], `ids` (the names of the nodes), `x` [N, F] if there are features, and `y` [N]
        with the names of its `classes` if there are labels.

    Raises:
        InputError: if a file cannot be read, or if the files do not fit together
    """
    features = _read(Path(features_from), TABLE_READERS, "table of features") if features_from else None
    labels = _read(Path(labels_from), TABLE_READERS, "table of labels") if labels_from else None
    return assemble(read_raw_graph(graph), features, labels)


def read_raw_graph(graph: str | Path) -> RawGraph:
    """Read a graph in the format that its file extension says."""
    return _read(Path(graph), GRAPH_READERS, "graph")


def _read(path: Path, readers: Mapping[str, Callable[[Path], Content]], what: str) -> Content:
    """Read a file by its extension; whatever is wrong with it becomes an `InputError` of one line."""
    if path.is_dir():
        raise InputError(f"`{path}` is a folder", "name a file in it")
    if not path.exists():
        raise InputError(f"there is no file `{path}`", "paths are looked up from the current folder")
    reader = pick(readers, path.suffix.lower(), f"file extension of a {what}")
    try:
        return replace(reader(path), file=str(path))
    except InputError as error:
        message = str(error.args[0])
        raise InputError(message if str(path) in message else f"`{path}`: {message}", error.hint) from None
    except UnicodeDecodeError:
        raise InputError(f"`{path}` is no text in UTF-8", "save it as UTF-8") from None
    except READ_ERRORS as error:
        if isinstance(error, pickle.UnpicklingError) or "allow_pickle" in str(error):
            hint = "objects are never loaded, for they can run code: save plain arrays or tensors"
            raise InputError(f"`{path}` holds objects, or is broken", hint) from None
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        hint = f"is it complete, and in the format that `{path.suffix}` says?"
        raise InputError(f"`{path}` cannot be read: {reason}", hint) from None


def _read_parquet(path: Path) -> RawGraph:
    """Edges from two columns named as in `EDGE_HEADERS`, or from the first two."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    table = pyarrow.parquet.read_table(path)
    if len(table.column_names) < 2:
        raise InputError(f"`{path}` has {len(table.column_names)} column, an edge needs 2", "source and target")
    by_name = {name.lower(): name for name in table.column_names}
    pair = next((pair for pair in EDGE_HEADERS if set(pair) <= set(by_name)), None)
    names = [by_name[name] for name in pair] if pair else table.column_names[:2]
    for name in names:
        if missing := table[name].null_count:
            raise InputError(f"`{path}`: {missing} values are missing in column `{name}`", "leave such edges out")
    return named_graph(zip(*(table[name].to_pylist() for name in names), strict=True))


def _read_graphml(path: Path) -> RawGraph:
    return from_networkx(networkx.read_graphml(path))


def _read_npy(path: Path) -> NodeTable:
    content = np.load(path, allow_pickle=False)
    if not isinstance(content, np.ndarray):
        content.close()
        raise InputError(f"`{path}` holds several arrays", "save one as .npy")
    if content.ndim == 0:
        raise InputError(f"`{path}` holds a single number", "save a row for every node")
    return NodeTable(content)


READ_ERRORS = (  # what the readers' libraries raise on broken files
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, EOFError, RuntimeError, OSError),
    *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError, SafetensorError, ParseError, csv.Error),
    networkx.NetworkXException,
)


GRAPH_READERS: dict[str, Callable[[Path], RawGraph]] = {
    ".npz": read_npz,
    ".csv": read_edge_list,
    ".tsv": read_edge_list,
    ".txt": read_edge_list,
    ".parquet": _read_parquet,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
    ".graphml": _read_graphml,
}


TABLE_READERS: dict[str, Callable[[Path], NodeTable]] = {
    ".npy": _read_npy,
    ".csv": read_table,
    ".tsv": read_table,
    ".txt": read_table,
}
