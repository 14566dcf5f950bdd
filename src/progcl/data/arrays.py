"""Readers of files that hold arrays by name: .npz, .npy, .safetensors, .pt, .mtx."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse

from progcl.data.columns import find_column
from progcl.data.matrix_market import read_matrix_market
from progcl.data.tables import RawGraph, Table, as_array, edges_of, numbered_graph
from progcl.data.weights import NO_WEIGHTS, UnusedWeights, refuse_name, to_weights
from progcl.errors import InputError
from progcl.files import load_npy, load_npz, require_counted, require_sized

EDGE_NAMES = ("edge_index", "edges", "edge_list", "edge_indices")
FEATURE_NAMES = ("x", "attr_matrix", "features", "node_features", "feat", "feats", "embeddings", "embedding")
LABEL_NAMES = ("y", "labels", "node_labels", "label", "node_label")
WEIGHT_NAMES = ("edge_weight", "edge_weights")  # as PyG has it
MAYBE_WEIGHTS = ("edge_attr", "weight", "weights")  # used if they are asked for
ID_NAMES = ("ids", "node_ids", "names", "node_names")
CSR_PREFIXES = ("adj_", "attr_", "")
ARRAY_NAMES = {  # arrays that are read; others in the file stay there
    *(*EDGE_NAMES, *FEATURE_NAMES, *LABEL_NAMES, *ID_NAMES, *WEIGHT_NAMES, "num_nodes"),
    *(f"{prefix}{field}" for prefix in CSR_PREFIXES for field in ("data", "indices", "indptr", "shape")),
}
ARRAY_LAYOUTS = (
    "`edge_index` [2, E] or `edges` [E, 2] with `x` and `y`, or a CSR matrix as `adj_data`, `adj_indices`, "
    "`adj_indptr`, `adj_shape`"
)

Arrays = Mapping[str, Any]


def read_npz(path: Path, weight: str | None = None) -> RawGraph:
    """A graph in arrays as numpy or scipy save them."""
    return _to_graph(*_load_npz(path, weight), weight)


def read_safetensors(path: Path, weight: str | None = None) -> RawGraph:
    """A graph in arrays as safetensors saves them."""
    return _to_graph(*_load_safetensors(path), weight)


def read_pt(path: Path, weight: str | None = None) -> RawGraph:
    """A graph in a PyG `Data` or a dict of tensors; nothing that could run code is loaded."""
    return _to_graph(*_load_pt(path, weight), weight)


def read_npy(path: Path, weight: str | None = None) -> RawGraph:
    """Edges [2, E] or [E, 2] in one array."""
    refuse_name(weight, f"`{path}`")
    return numbered_graph(orient_edges(load_npy(path), wide=True))


def read_mtx(path: Path, weight: str | None = None) -> RawGraph:
    """An adjacency matrix in Matrix Market's format."""
    return matrix_graph(read_matrix_market(path), weight)


def matrix_graph(adjacency: Any, weight: str | None = None) -> RawGraph:
    """A graph from an adjacency matrix [N, N], whose entries are the weights of its edges unless `weight` is none."""
    refuse_name(weight, "an adjacency matrix")
    edges, nodes, weights = edges_of(adjacency)
    return numbered_graph(edges, nodes=nodes, weights=None if weight == NO_WEIGHTS else weights)


def read_array_table(path: Path) -> Table:
    """Features, labels and names of nodes in one or several arrays; row i belongs to node i unless there are names."""
    load = {".npz": _load_npz, ".safetensors": _load_safetensors, ".pt": _load_pt}.get(path.suffix.lower())
    if load is None:
        matrix = load_npy(path) if path.suffix.lower() == ".npy" else read_matrix_market(path)
        if matrix.ndim == 0:
            raise InputError(f"`{path}` holds a single number", "save a row for every node")
        return Table({"": matrix}, names_nodes=False)
    arrays, present = load(path)
    ids, y, x = _pick(arrays, ID_NAMES), _pick(arrays, LABEL_NAMES), _pick(arrays, FEATURE_NAMES)
    for prefix in ("attr_", ""):
        x = _csr_matrix(arrays, prefix) if x is None and f"{prefix}indptr" in arrays else x
    columns = {name: array for name, array in {"ids": ids, "y": y, "x": x}.items() if array is not None}
    if x is None and y is None:
        names = ", ".join(sorted(present)) or "no arrays"
        raise InputError(f"there are no features or labels among {names}", "name them `x`, `y`, and `ids` if you like")
    lengths = {name: array.shape[0] for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"arrays of different lengths: {lengths}", "each needs a row for every node")
    return Table(columns, names_nodes=ids is not None)


def orient_edges(edges: Any, wide: bool = True) -> Any:
    """Edges as [2, E]: those given as [E, 2] are transposed; of [2, 2], `wide` says which it is."""
    shape = edges.shape
    is_tall = edges.ndim == 2 and shape[1] == 2 and (shape[0] != 2 or not wide)
    return edges.T if is_tall else edges


def _load_npz(path: Path, weight: str | None = None) -> tuple[Arrays, Collection[str]]:
    return load_npz(path, ARRAY_NAMES | {weight or ""})


def _load_safetensors(path: Path) -> tuple[Arrays, Collection[str]]:
    from safetensors.numpy import load_file

    arrays = load_file(path)  # its header is checked against the file's size
    for array in arrays.values():
        require_counted(max(array.shape, default=0), path.stat().st_size, "rows")
    return arrays, arrays


def _load_pt(path: Path, weight: str | None = None) -> tuple[Arrays, Collection[str]]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    size, source = path.stat().st_size, cast(Any, path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            require_sized(sum(info.file_size for info in archive.infolist()), size, "its tensors")
    else:
        source = io.BytesIO(path.read_bytes())  # of a file, a declared length is allocated before it is read
    allowed = torch.serialization.get_safe_globals()  # PyG's own may be among them, and stay so afterwards
    missing = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in allowed]
    with warnings.catch_warnings(), torch.serialization.safe_globals(missing):
        warnings.filterwarnings("ignore", message="Detected pickle protocol")
        content = torch.load(source, map_location="cpu", weights_only=True)
    content = content.to_dict() if isinstance(content, Data) else content
    content = {"x": content} if isinstance(content, torch.Tensor) else content
    if not isinstance(content, Mapping):
        raise InputError(f"`{path}` holds a {type(content).__name__}", "save a PyG Data or a dict of tensors")
    for value in content.values():
        if isinstance(value, torch.Tensor):  # sizes and strides may repeat one number a billion times
            require_counted(max(value.shape, default=0), size, "rows")
            require_sized(value.numel() * value.element_size() if value.layout == torch.strided else 0, size)
    names = (ARRAY_NAMES | {weight or ""}) & set(content)
    arrays = {name: as_array(content[name]) for name in names if content[name] is not None}
    return arrays, [str(name) for name in content]


def _pick(arrays: Arrays, names: Collection[str]) -> Any:
    return next((arrays[name] for name in names if name in arrays), None)


def _to_graph(arrays: Arrays, present: Collection[str], weight: str | None = None) -> RawGraph:
    """A graph from arrays in one of the usual layouts; edges are indices of rows, whatever the nodes' names.

    Weights are the array `weight`; else `edge_weight`, or the entries of a CSR matrix.
    """
    ids, y, x = _pick(arrays, ID_NAMES), _pick(arrays, LABEL_NAMES), _pick(arrays, FEATURE_NAMES)
    x = _csr_matrix(arrays, "attr_") if x is None and "attr_indptr" in arrays else x
    nodes = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    prefix = next((prefix for prefix in ("adj_", "") if f"{prefix}indptr" in arrays), None)
    name = next((name for name in EDGE_NAMES if name in arrays), None)
    entries = None
    if name is not None:
        edges = orient_edges(arrays[name], wide=name == "edge_index")
    elif prefix is not None:
        edges, nodes, entries = edges_of(_csr_matrix(arrays, prefix))
    else:
        names = ", ".join(sorted(present)) or "no arrays"
        raise InputError(f"there are no edges among {names}", f"needed: {ARRAY_LAYOUTS}")
    weights, remarks = _find_weights(arrays, present, weight, entries, edges.shape[-1])
    return replace(numbered_graph(edges, x, y, ids, nodes, weights), remarks=remarks)


def _find_weights(
    arrays: Arrays, present: Collection[str], weight: str | None, entries: Any, edges: int
) -> tuple[Any, tuple[str, ...]]:
    """Weights [E] by name, or the entries of the adjacency matrix, or None; and a remark on others."""
    if weight == NO_WEIGHTS:
        return None, ()
    if weight is not None:
        name = find_column([str(name) for name in present], weight, "the file", "--weight")
        return to_weights(arrays[name], edges, name), ()
    for name in (name for name in WEIGHT_NAMES if name in arrays):
        return to_weights(arrays[name], edges, name), (f"weights of edges are read from `{name}`",)
    unused = [name for name in MAYBE_WEIGHTS if name in present] if entries is None else []
    return entries, (UnusedWeights(unused, "array"),) if unused else ()


def _csr_matrix(arrays: Arrays, prefix: str) -> Any:
    for name in ("indices", "indptr", "shape"):
        if f"{prefix}{name}" not in arrays:
            raise InputError(f"`{prefix}indptr` without `{prefix}{name}`", f"needed: {ARRAY_LAYOUTS}")
    indices, pointer, shape = (arrays[f"{prefix}{name}"] for name in ("indices", "indptr", "shape"))
    values = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    matrix = scipy.sparse.csr_matrix((values, indices, pointer), tuple(shape.tolist()))
    matrix.check_format()
    return matrix
