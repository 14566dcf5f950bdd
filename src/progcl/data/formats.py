"""Graphs and tables of nodes from users' files.

To add a format, write a function that takes a path and the name of weights (None if none is asked for) and returns a
`RawGraph`, or one that takes a path and returns a `Table`; enter it by its file extension in the table at the foot of
this module, and add a line to `GRAPH_FILES` in tests/data/test_formats.py. A reader may let its library raise:
`progcl.files.read_file` turns everything into one line that names the file. What a file declares (sizes, shapes,
counts) is not to be believed: see there for what compares it with the file's size.

Nothing here imports torch, unless a file is torch's own: errors about files come at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from progcl.data.arrays import read_array_table, read_mtx, read_npy, read_npz, read_pt, read_safetensors
from progcl.data.columns import ID_HEADERS, LABEL_HEADERS, find_column, match_headers, to_list
from progcl.data.delimited import TextFile
from progcl.data.edge_lists import TableFile, read_edges
from progcl.data.features import Feature
from progcl.data.join import NodeData, join
from progcl.data.networks import read_gexf, read_gml, read_graphml, read_node_link
from progcl.data.node_rows import JoinOptions
from progcl.data.parquet import ParquetFile
from progcl.data.tables import RawGraph, Table
from progcl.errors import InputError, suggest
from progcl.files import read_file

if TYPE_CHECKING:
    from torch_geometric.data import Data

Content = TypeVar("Content")
FOLDER_STEMS = {"edges": ("edges", "edge", "edge_list", "links"), "nodes": ("nodes", "node", "vertices")}


def read_graph(
    graph: str,
    features_from: str | None = None,
    labels_from: str | None = None,
    ids_from: str | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    scale: bool = True,
    plan: list[Feature] | None = None,
    weight: str | None = None,
) -> Data:
    """A graph of your own from a file; `progcl embed --help` lists the formats.

    Args:
        graph: the file, or a folder with tables `nodes` and `edges`
        features_from: array with a row for each node, or a table that names the node
        labels_from: the same with classes
        ids_from: names of the nodes for arrays that have none, one a line
        source: column of an edge list; by name or the first if not given
        target: likewise, or the second
        id_column: column that names the nodes in a table of features or labels
        label_column: column that holds the classes
        scale: scale numeric columns by median and quartiles where their scales differ
        plan: how another graph's columns became features, to read these alike
        weight: column of an edge list, attribute of edges or array that holds the weights of edges; `none` leaves out
            those that a file has

    Returns:
        `Data` with `edge_index` [2, E], `edge_weight` [E] if there are weights, `ids` (the names of the nodes), `x`
        [N, F] if there are features, `y` [N] (-1 is unknown) with the names of its `classes` if there are labels, and
        `remarks`: what was read how.

    Raises:
        InputError: if a file cannot be read, or if the files do not fit together
    """
    options = JoinOptions(id_column, label_column, scale, plan)
    ends = {"source": source, "target": target, "weight": weight}
    return read_node_data(graph, features_from, labels_from, ids_from, **ends, options=options).to_data()


def read_node_data(
    graph: str | Path,
    features_from: str | None = None,
    labels_from: str | None = None,
    ids_from: str | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    options: JoinOptions | None = None,
) -> NodeData:
    """The same as `read_graph`, as arrays and without torch."""
    options, path = options or JoinOptions(), Path(graph)
    edges, nodes = _find_in_folder(path) if path.is_dir() else (path, None)
    if nodes is not None and features_from is not None:
        hint = f"add the features to it, or name `{edges}` as the graph"
        raise InputError(f"`{path}` has its features in `{nodes.name}`", hint)
    raw = _read(edges, lambda file: _read_raw_graph(file, source, target, weight))
    table = nodes or features_from
    features = read_table(table, options) if table else None
    labels = read_table(labels_from, options) if labels_from else None
    rows = len(features or labels or raw.names)
    ids = _read_ids(Path(ids_from), options, rows) if ids_from else None
    return read_file(path, lambda: join(raw, features, labels, ids, options), "do its tables belong to it?")


def read_pairs(path: str | Path) -> RawGraph:
    """Read pairs of nodes from a file as if they were edges: `names`, and `edges` [2, n] between them, in order."""
    return _read(Path(path), lambda file: _read_raw_graph(file, None, None, None))


def read_table(path: str | Path, options: JoinOptions) -> Table:
    """Read a table of nodes in the format that its file extension says."""
    return _read(Path(path), lambda file: _read_columns(file, options))


def _read_raw_graph(path: Path, source: str | None, target: str | None, weight: str | None) -> RawGraph:
    suffix = _suffix(path)
    if suffix in TABLE_FILES:
        return read_edges(TABLE_FILES[suffix](path), source, target, weight)
    if suffix not in GRAPH_READERS:
        raise InputError(
            f"unknown file extension of a graph `{suffix}`", suggest(suffix, [*TABLE_FILES, *GRAPH_READERS])
        )
    if source is not None or target is not None:
        raise InputError(f"`{path}` has no columns for --source and --target", "they are for tables")
    return GRAPH_READERS[suffix](path, weight)


def _read_columns(path: Path, options: JoinOptions) -> Table:
    suffix = _suffix(path)
    if suffix not in TABLE_FILES:
        if suffix not in TABLE_READERS:
            hint = suggest(suffix, [*TABLE_FILES, *TABLE_READERS])
            raise InputError(f"unknown file extension of a table `{suffix}`", hint)
        return TABLE_READERS[suffix](path)
    file = TABLE_FILES[suffix](path)
    names = file.all_names()
    wanted = [name for name in (options.id_column, options.label_column) if name is not None]
    texts = {names[0], *match_headers(names, ID_HEADERS), *match_headers(names, LABEL_HEADERS)}
    texts |= {find_column(names, name, str(path), "") for name in wanted if name in names}
    columns = file.read(names, [name for name in names if name in texts])
    find_line = file.find_line if isinstance(file, TextFile) else None
    if not any(len(column.codes) if hasattr(column, "codes") else len(column) for column in columns.values()):
        raise InputError(f"`{path}` has a header and no rows", "every node needs one")
    return Table(columns, file.has_header, find_line=find_line)


def _read_ids(path: Path, options: JoinOptions, rows: int) -> list[str]:
    """Names of so many nodes, one a line or in an array."""
    if _suffix(path) in TEXT_FILES:
        file, names = _read(path, lambda file: _read_names(TextFile.detect_list(file, options.id_column), options))
        return names[1:] if file.has_header is not True and len(names) == rows + 1 else names
    content = read_table(path, options)
    column = options.id_column or next(iter(match_headers(content.columns, ID_HEADERS)), next(iter(content.columns)))
    return to_list(content.columns[find_column(list(content.columns), column, str(path), "--id-column")])


def _read_names(file: TextFile, options: JoinOptions) -> tuple[TextFile, list[str]]:
    """A list of names, from the column that is meant, one that is named so, or the first."""
    named = match_headers(file.names, ID_HEADERS) if file.has_header else []
    column = options.id_column if options.id_column in file.names else next(iter(named), file.names[0])
    return file, to_list(file.read([column], [column])[column])


def _find_in_folder(folder: Path) -> tuple[Path, Path | None]:
    """The tables of edges and nodes in a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and _suffix(path) in TABLE_FILES)
    found = {
        what: [path for path in files if path.name.split(".")[0].lower() in stems]
        for what, stems in FOLDER_STEMS.items()
    }
    if not found["edges"]:
        hint = "name a file in it, or have the tables edges.csv and nodes.csv there"
        raise InputError(f"`{folder}` is a folder without a table of edges", hint)
    for what, paths in found.items():
        if len(paths) > 1:
            raise InputError(
                f"`{folder}` has {len(paths)} tables of {what}", f"keep one of {', '.join(p.name for p in paths)}"
            )
    return found["edges"][0], found["nodes"][0] if found["nodes"] else None


def _suffix(path: Path) -> str:
    """The extension that says the format: of g.csv.gz, .csv."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        if suffixes[-2:-1] == [] or suffixes[-2] not in GZIP_FORMATS:
            raise InputError(f"`{path}`: text formats alone may be compressed", f"as {', '.join(sorted(GZIP_FORMATS))}")
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _read(path: Path, reader: Callable[[Path], Content]) -> Content:
    """Read a file by its extension; whatever is wrong with it becomes an `InputError` of one line."""
    if path.is_dir():
        raise InputError(f"`{path}` is a folder", "name a file in it")
    if not path.exists():
        raise InputError(f"there is no file `{path}`", "paths are looked up from the current folder")
    hint = f"is it complete, and in the format that `{''.join(path.suffixes[-2:])}` says?"
    content = read_file(path, lambda: reader(path), hint)
    return replace(content, file=str(path)) if isinstance(content, (RawGraph, Table)) else content


TEXT_FILES: dict[str, Callable[[Path], TableFile]] = dict.fromkeys(
    (".csv", ".tsv", ".txt", ".edgelist"), TextFile.detect
)
TABLE_FILES: dict[str, Callable[[Path], TableFile]] = {**TEXT_FILES, ".parquet": ParquetFile}


GRAPH_READERS: dict[str, Callable[[Path, str | None], RawGraph]] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
    ".mtx": read_mtx,
    ".graphml": read_graphml,
    ".gexf": read_gexf,
    ".gml": read_gml,
    ".json": read_node_link,
}


TABLE_READERS: dict[str, Callable[[Path], Table]] = dict.fromkeys(
    (".npy", ".npz", ".mtx", ".safetensors", ".pt"), read_array_table
)
GZIP_FORMATS = {*TEXT_FILES, ".mtx", ".graphml", ".gexf", ".gml", ".json"}
