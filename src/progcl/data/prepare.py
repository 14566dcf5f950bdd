"""The one door for graphs: whatever is trained on has passed `prepare`."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from scipy.sparse import issparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_scipy_sparse_matrix

from progcl.data.classes import find_unknown
from progcl.data.edges import (
    EDGE_ATTRIBUTES,
    Edges,
    edge_checksum,
    is_undirected_and_sorted,
    prepare_edges,
    read_edge_weight,
)
from progcl.data.homophily import describe_homophily
from progcl.data.images import is_images, prepare_images
from progcl.data.mapped import CHUNK_ROWS, map_rows
from progcl.data.rows import (
    ROWS_PER_CHUNK,
    column_ranges,
    from_scipy,
    from_tensor,
    is_sparse,
    split_rows,
    take_rows,
    unit_rows,
)
from progcl.data.walk_factors import WalkFactors
from progcl.errors import InputError, count_noun

SCALE_RATIO = 20  # a column this many times larger than the median column dominates distances: worth a remark
NODE_ATTRIBUTES = ("y", "ids", "train_mask", "val_mask", "test_mask")  # one row for each node
DATA_HINT = "Data(x=[N, F] features, edge_index=[2, E] node pairs)"


def prepare(data: Data, directed: bool = False, walks: WalkFactors | None = None) -> Data:
    """Validate a graph, and bring it into the form that training expects.

    Edges become undirected (stored in both directions), sorted and unique, without self-loops. A graph in this form
    keeps its `edge_index`: this is checked in O(E) without sorting, so that graphs of 100 M edges pass quickly. Weights
    of edges (`edge_weight` [E]) are added up for duplicates, and averaged over the two directions of an edge. Nodes
    without features get structural ones. Features in a mapped file (`np.memmap`, or `mapped=True`) are never copied;
    sparse ones that are wide stay sparse, and are rows of a CSR matrix.
    Other attributes are kept (`ids`, `classes`, masks, ...), except those of edges, which nothing uses. Images, which
    have `image_shape`, have no edges.

    Args:
        data: the graph
        directed: keep the direction of edges for features of several hops, as `edge_forward`
        walks: of another graph, to compute features from the edges that are comparable; those of this one if not given

    Returns:
        A new `Data` on the CPU with `x` [N, F] in float32, `edge_index` [2, E], `edge_weight` [E] if there are
        different weights, `edge_forward` [E] for a directed graph (the weight of an edge in its direction, 0 if it is
        given in the other one alone), `y` [N] if there are labels (NaN and negative ones become -1, which is unknown),
        `mapped`, `structural` (whether the features were computed from the edges, by the factors `walks`), and
        `remarks`: what was changed or is unusual, one sentence each.

    Raises:
        InputError: if shapes, types or node numbers do not fit, if features or weights are not finite, if a weight is
            negative, or if there are no edges
    """
    if is_images(data):
        return prepare_images(data)
    edges, x = _to_edges(data), _to_features(data)
    nodes = _count_nodes(data, x, edges)
    _validate(data, edges, nodes)
    attributes = data.to_dict()
    of_edges = [key for key in attributes if key.startswith("edge_")]
    clean = Data(**{key: value for key, value in attributes.items() if key not in of_edges})
    clean.edge_index, weight, forward, remarks = _find_edges(data, edges, nodes, directed)
    given = zip(EDGE_ATTRIBUTES, (weight, forward), strict=True)
    clean.update({name: value for name, value in given if value is not None})
    if unused := [key for key in of_edges if key not in ("edge_index", *EDGE_ATTRIBUTES)]:
        remarks.append(f"edge attributes are not used: {', '.join(unused)}")
    clean.num_nodes = nodes
    clean.mapped = isinstance(data.get("x"), np.memmap) or bool(data.get("mapped"))
    clean.structural = x is None or bool(data.get("structural"))
    if x is None:
        clean.walks = walks or WalkFactors.fit(clean)
        clean.x = clean.walks.structural_features(clean)
        what = "computed from the edges, the degree and walk vectors"
        remarks.append(f"no features given: {clean.x.size(1)} {what}")
    else:
        clean.x = x
        low, high = column_ranges(x)
        if not (low.isfinite() & high.isfinite()).all():
            _require_finite(x, data.get("ids"))
        remarks += [] if clean.structural else _describe_features(x, low, high, clean.mapped, _is_encoded(data))
    if data.get("y") is not None:
        clean.y = torch.from_numpy(find_unknown(torch.as_tensor(data.y).cpu().numpy()))
    remarks += _describe_components(clean.edge_index, nodes) + describe_homophily(clean)
    clean.remarks = list(dict.fromkeys([*data.get("remarks", []), *remarks]))  # a prepared graph repeats some
    return clean


def normalize_features(data: Data) -> Data:
    """Scale every row of the features to an L1 norm of 1, in place; of mapped features, keep the factors instead.

    Pixels of images stay as they are.
    """
    if is_images(data):
        return data
    if is_sparse(data.x):
        data.x = from_scipy(unit_rows(data.x, "l1"))
    elif data.get("mapped"):
        norms = torch.cat([rows.abs().sum(dim=1) for rows in data.x.split(CHUNK_ROWS)])
        data.row_scale = norms.clamp_min(1e-12).reciprocal()
    else:
        for rows in data.x.split(ROWS_PER_CHUNK):
            rows.copy_(torch.nn.functional.normalize(rows, p=1, dim=1))
    return data


def fingerprint(data: Data, directions: Tensor | None = None) -> int:
    """Checksum of features and edges, so that a run is not resumed on another graph; and of a given projection."""
    checksum = 0
    for rows in split_rows(data.x, ROWS_PER_CHUNK):
        checksum = zlib.crc32(rows.contiguous().numpy().data, checksum)
    checksum = edge_checksum(data, checksum)
    return checksum if directions is None else zlib.crc32(directions.contiguous().numpy().data, checksum)


def _to_edges(data: Data) -> Tensor:
    if data.get("edge_index") is None:
        raise InputError("the graph has no `edge_index`", DATA_HINT)
    edges = torch.as_tensor(data.edge_index).cpu()
    if edges.dim() != 2 or len(edges) != 2 or edges.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8):
        raise InputError(f"edges need to be integers [2, E] (got {edges.dtype} {list(edges.shape)})", DATA_HINT)
    return edges.long()


def _to_features(data: Data) -> Tensor | None:
    """Features [N, F] in float32; None without any."""
    x = data.get("x")
    if x is None:
        return None
    x = map_rows(x) if isinstance(x, np.memmap) else from_scipy(x) if issparse(x) else torch.as_tensor(x).detach().cpu()
    x = from_tensor(x)
    if x.dim() != 2:
        raise InputError(f"features need to be [N, F] (got {list(x.shape)})", DATA_HINT)
    return x.float() if x.size(1) else None


def _count_nodes(data: Data, x: Tensor | None, edges: Tensor) -> int:
    """N: the rows of features, else `num_nodes`, else the length of `y` or `ids`, else by the largest node number."""
    nodes: int | None = data.get("num_nodes")
    if x is not None:
        if nodes is not None and nodes != len(x):
            raise InputError(f"features {list(x.shape)} for {nodes} nodes", "they need a row for every node")
        return len(x)
    attributes = [data.get(name) for name in ("y", "ids")]
    lengths = [nodes, *(len(value) for value in attributes if value is not None)]
    largest = int(edges.max()) + 1 if edges.numel() else 0
    return int(next((length for length in lengths if length is not None), largest))


def _validate(data: Data, edges: Tensor, nodes: int) -> None:
    if nodes < 2:
        raise InputError(f"a graph needs at least 2 nodes (got {nodes})", "is there more than a header in the file?")
    if edges.numel():
        low, high = (int(bound) for bound in edges.aminmax())
        if low < 0 or high >= nodes:
            hint = f"nodes are numbered from 0 to {nodes - 1}"
            raise InputError(f"an edge names node {low if low < 0 else high}, which does not exist", hint)
    for name in NODE_ATTRIBUTES:
        values = data.get(name)
        length = 0 if values is None else values.numel() if name == "y" and isinstance(values, Tensor) else len(values)
        if values is not None and length != nodes:
            raise InputError(f"`{name}` has {length} values for {nodes} nodes", "every node needs one")


def _find_edges(data: Data, edges: Tensor, nodes: int, directed: bool) -> Edges:
    """Edges in both directions with their weights; those of a prepared directed graph stay as they are."""
    forward = data.get("edge_forward")
    if forward is None:
        return prepare_edges(edges, read_edge_weight(data, edges.size(1)), nodes, directed)
    if len(forward) != edges.size(1) or not is_undirected_and_sorted(edges, nodes):
        raise InputError("`edge_forward` does not belong to these edges", "prepare(data, directed=True) makes it")
    return Edges(edges, data.get("edge_weight"), forward, [])


def _require_finite(x: Tensor, ids: list[str] | None) -> None:
    """Raise `InputError` with the place of the first NaN or infinite value."""
    for start, chunk in enumerate(split_rows(x, ROWS_PER_CHUNK)):
        rows = chunk.numpy()
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
            node = start * ROWS_PER_CHUNK + row
            where = f"{rows[row, column]} of node `{ids[node] if ids else node}` in column {column + 1}"
            hint = "fill them in, or leave the columns out"
            raise InputError(f"the features hold NaN or infinite values, first {where}", hint)


def _is_encoded(data: Data) -> bool:
    """Whether features were made of columns that were scaled, one-hot or hashed."""
    return any(feature["kind"] != "numbers" or feature["center"] for feature in data.get("plan", []))


def _describe_features(x: Tensor, low: Tensor, high: Tensor, mapped: bool, encoded: bool) -> list[str]:
    """Remarks on constant columns and columns of another scale, unless they were encoded; and on repeated rows."""
    remarks = []
    if (constant := int((low == high).sum())) and not encoded:
        remarks.append(f"{count_noun(constant, 'feature')} of {x.size(1):,} the same for all nodes")
    scales = torch.maximum(low.abs(), high.abs())
    scales = scales[scales > 0]
    if not encoded and len(scales) and scales.max() > SCALE_RATIO * scales.median():
        ratio = float(scales.max() / scales.median())
        remarks.append(f"the largest feature is {ratio:,.0f} times the median and hides others: rescale the columns")
    if mapped:  # rows would need another pass over the file
        return remarks
    unit = (torch.nn.functional.normalize(rows, dim=1) for rows in split_rows(x, ROWS_PER_CHUNK))
    first = torch.nn.functional.normalize(take_rows(x, torch.zeros(1, dtype=torch.long)), dim=1)
    if all(bool((rows == first).all()) for rows in unit):  # most often the first chunk decides
        remarks.append("scaled to length 1, the features of all nodes are the same: they tell nothing")
    rows = (row for chunk in split_rows(x, ROWS_PER_CHUNK) for row in chunk.numpy())
    hashes = np.fromiter((hash(row.tobytes()) for row in rows), np.int64, len(x))
    if repeated := len(x) - len(np.unique(hashes)):
        remarks.append(f"{count_noun(repeated, 'node')} with the same features as another node")
    return remarks


def _describe_components(edges: Tensor, nodes: int) -> list[str]:
    """Remarks on isolated nodes and on several connected components."""
    remarks = []
    if isolated := int((torch.bincount(edges[0], minlength=nodes) == 0).sum()):
        remarks.append(f"{count_noun(isolated, 'isolated node')}: embedded by the features alone")
    adjacency = to_scipy_sparse_matrix(edges, num_nodes=nodes)
    # Edges go both ways, so strong components are the connected ones; they need no transpose of the matrix
    components = connected_components(adjacency, directed=True, connection="strong")[0] - isolated
    if components > 1:
        remarks.append(f"{components:,} connected components: across them, nodes are compared by features alone")
    return remarks
