"""A user's graph made ready: edges once in both directions, features if it has none, and what is odd about it said."""

from __future__ import annotations

import copy
import zlib

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from progcl.data.mapped import map_rows
from progcl.data.structure import structural_features
from progcl.errors import InputError

CHUNK = 2**14  # rows of features that are looked at together
SCALES = 1000  # how much larger one column may be than another before somebody should know


def prepare(data: Data) -> Data:
    """A graph in the form that training expects, with `remarks`: what a user may not expect, a sentence each.

    `made` says whether its features are made of its edges.
    """
    nodes = int(data.num_nodes)
    if nodes < 2:
        raise InputError(f"a graph needs at least 2 nodes (got {nodes})", "is there more than a head in the file?")
    edges, odd = _both_ways(data.edge_index, nodes)
    remarks = [*data.get("remarks", []), *odd]
    made = Data(edge_index=edges, num_nodes=nodes)
    for name in ("y", "ids", "classes"):
        if data.get(name) is not None:
            made[name] = data[name]
    made.made = data.get("x") is None
    if made.made:
        made.x = structural_features(edges, nodes)
        said = "the degree, and where random walks end"
        remarks.append(f"no features given: {made.x.size(1)} made of the edges, {said}")
    else:
        made.x = data.x.float()
        require_finite(made.x)
        remarks += _about_features(made.x)
    made.remarks = [*remarks, *_describe_shape(edges, nodes)]
    return made


def _both_ways(edge_index: Tensor, nodes: int) -> tuple[Tensor, list[str]]:
    """Every edge once in both directions, without loops."""
    proper = edge_index[:, edge_index[0] != edge_index[1]]
    if not proper.size(1):
        raise InputError("the graph has no edges", "without any, the features are all there is to embed")
    loops, once = edge_index.size(1) - proper.size(1), coalesce(proper, num_nodes=nodes)
    edges: Tensor = to_undirected(once, num_nodes=nodes)
    remarks = []
    if loops:
        remarks.append(f"{counted(loops, 'self-loop')} left out: every node sees itself anyway")
    if repeated := proper.size(1) - once.size(1):
        remarks.append(f"{counted(repeated, 'duplicate edge')} left out")
    if once.size(1) < edges.size(1):
        remarks.append("every edge is used in both directions")
    return edges, remarks


def _describe_shape(edges: Tensor, nodes: int) -> list[str]:
    degree = torch.bincount(edges[0], minlength=nodes)
    remarks = []
    if isolated := int((degree == 0).sum()):
        remarks.append(f"{counted(isolated, 'isolated node')}: embedded by the features alone")
    links = coo_matrix((torch.ones(edges.size(1)).numpy(), edges.numpy()), (nodes, nodes))
    parts = connected_components(links, directed=False)[0] - isolated
    if parts > 1:
        remarks.append(f"{parts:,} parts without edges between them: their nodes are compared by features alone")
    return remarks


def _about_features(x: Tensor) -> list[str]:
    remarks = []
    low, high = x.amin(dim=0), x.amax(dim=0)
    if constant := int((low == high).sum()):
        remarks.append(f"{counted(constant, 'feature')} of {x.size(1):,} the same for all nodes")
    sizes = torch.maximum(low.abs(), high.abs())
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() > SCALES * sizes.median():
        ratio = float(sizes.max() / sizes.median())
        remarks.append(
            f"the largest feature is {ratio:,.0f} times a usual one and will hide others: rescale the columns"
        )
    if repeated := len(x) - len({hash(row.tobytes()) for row in x.numpy()}):
        remarks.append(f"{counted(repeated, 'node')} with features that another node has, too")
    return remarks


def require_finite(x: Tensor) -> None:
    """Raise `InputError` where features are missing; rows are looked at in parts, for they may lie in a mapped file."""
    if not all(part.isfinite().all() for part in x.split(CHUNK)):
        raise InputError("the features hold NaN or infinite values", "fill them in, or leave the columns out")


def counted(number: int, name: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {name}{'s' if number != 1 else ''}"


def normalized(data: Data) -> Data:
    """Each row of the features with absolute sum 1; of mapped features, the factors are kept instead."""
    if data.get("mapped"):
        sums = torch.cat([part.abs().sum(dim=1) for part in data.x.split(CHUNK)])
        data.row_scale = sums.clamp_min(1e-12).reciprocal()
    else:
        data.x = torch.nn.functional.normalize(data.x, p=1, dim=1)
    return data


def checked(data: Data) -> Data:
    """A user's graph in the form that training expects; raise `InputError` where that cannot be had."""
    for name in ("x", "edge_index"):
        if data.get(name) is None:
            raise InputError(f"the graph has no `{name}`", "Data(x=[N, F] features, edge_index=[2, E] node pairs)")
    mapped = isinstance(data.x, np.memmap)
    x, edges, labels = map_rows(data.x) if mapped else data.x, data.edge_index, data.get("y")
    if x.dim() != 2 or edges.dim() != 2 or len(edges) != 2 or edges.is_floating_point():
        shapes = f"x {list(x.shape)}, edge_index {list(edges.shape)} {edges.dtype}"
        raise InputError(f"the graph needs x [N, F] and whole numbers edge_index [2, E] (got {shapes})")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(x):
        raise InputError(f"edge_index names node {int(edges.max())}, x has {len(x)} rows", "nodes count from 0")
    require_finite(x)
    if labels is not None and labels.numel() != len(x):
        raise InputError(f"y has {labels.numel()} values for {len(x)} nodes")
    clean = copy.copy(data)
    clean.x, clean.edge_index, clean.mapped = x.float(), edges.long(), mapped
    if labels is not None:
        clean.y = labels.flatten().long()
    return clean


def fingerprint(data: Data) -> int:
    """A number that tells graphs apart, so that a run is not resumed on another one."""
    parts = (data.x.contiguous().numpy(), data.edge_index.contiguous().numpy())
    return zlib.crc32(parts[1].data, zlib.crc32(parts[0].data))
