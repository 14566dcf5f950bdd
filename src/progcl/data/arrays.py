"""Readers of files that hold arrays by name: .npz, .safetensors, .pt."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data

from progcl.data.tables import RawGraph, as_array, edges_of, numbered_graph
from progcl.errors import InputError


def read_npz(path: Path) -> RawGraph:
    """Arrays as numpy or scipy save them."""
    if not zipfile.is_zipfile(path):
        raise zipfile.BadZipFile("it is no archive of arrays")
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return _from_arrays({name: file[name] for name in ARRAY_NAMES & set(file.files)}, file.files)


def read_safetensors(path: Path) -> RawGraph:
    """Arrays as safetensors saves them."""
    from safetensors.numpy import load_file

    arrays = load_file(path)
    return _from_arrays(arrays, arrays)


def read_pt(path: Path) -> RawGraph:
    """A PyG `Data` or a dict of tensors; nothing that could run code is loaded."""
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    allowed = torch.serialization.get_safe_globals()  # PyG's own may be among them, and stay so afterwards
    missing = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in allowed]
    with warnings.catch_warnings(), torch.serialization.safe_globals(missing):
        warnings.filterwarnings("ignore", message="Detected pickle protocol")
        content = torch.load(path, map_location="cpu", weights_only=True)
    content = content.to_dict() if isinstance(content, Data) else content
    if not isinstance(content, Mapping):
        raise InputError(f"`{path}` holds a {type(content).__name__}", "save a PyG Data or a dict of tensors")
    arrays = {name: as_array(content[name]) for name in ARRAY_NAMES & set(content) if content[name] is not None}
    return _from_arrays(arrays, [str(name) for name in content])


def _from_arrays(arrays: Mapping[str, Any], present: Collection[str]) -> RawGraph:
    """A graph from arrays in one of the two usual layouts; edges are indices of rows, whatever the nodes' names."""
    ids, y, x = (
        next((arrays[name] for name in names if name in arrays), None)
        for names in (("ids", "node_ids"), ("y", "labels"), ("x", "attr_matrix", "features"))
    )
    x = _csr_matrix(arrays, "attr_") if x is None and "attr_indptr" in arrays else x
    nodes = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    prefix = next((prefix for prefix in ("adj_", "") if f"{prefix}indptr" in arrays), None)
    if "edge_index" in arrays:
        edges = arrays["edge_index"]
    elif prefix is not None:
        edges, nodes = edges_of(_csr_matrix(arrays, prefix))
    else:
        names = ", ".join(sorted(present)) or "no arrays"
        raise InputError(f"there are no edges among {names}", f"needed: {ARRAY_LAYOUTS}")
    return numbered_graph(edges, x, y, ids, nodes)


def _csr_matrix(arrays: Mapping[str, Any], prefix: str) -> Any:
    for name in ("indices", "indptr", "shape"):
        if f"{prefix}{name}" not in arrays:
            raise InputError(f"`{prefix}indptr` without `{prefix}{name}`", f"needed: {ARRAY_LAYOUTS}")
    indices, pointer, shape = (arrays[f"{prefix}{name}"] for name in ("indices", "indptr", "shape"))
    values = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    matrix = scipy.sparse.csr_matrix((values, indices, pointer), tuple(shape.tolist()))
    matrix.check_format()
    return matrix


ARRAY_LAYOUTS = (
    "`edge_index` [2, E] with `x` and `y`, or a CSR matrix as `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`"
)


ARRAY_NAMES = {  # arrays that are read; others in the file stay there
    *("edge_index", "x", "y", "ids", "node_ids", "num_nodes", "labels", "features", "attr_matrix"),
    *(f"{prefix}{field}" for prefix in ("adj_", "attr_", "") for field in ("data", "indices", "indptr", "shape")),
}
