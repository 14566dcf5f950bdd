"""Edges in the form that training expects: in both directions, unique and sorted, with their weights beside them."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, contains_self_loops, to_undirected

from progcl.data.tables import as_array
from progcl.data.weights import NO_WEIGHTS, UnusedWeights, to_weights, validate_weights
from progcl.errors import InputError, count_noun, suggest

EDGE_ATTRIBUTES = ("edge_weight", "edge_forward")  # one for each edge
WEIGHT_RATIO = 1000  # a largest weight this many times the median is worth a remark


class Edges(NamedTuple):
    """Every edge once in each direction.

    Attributes:
        pairs: [2, E], sorted, without self-loops
        weight: of every edge [E], the same in both directions; None if all are alike
        forward: of a directed graph, the weight of the edge from source to target as it was given, 0 if there is none
            in this direction, [E]; None for an undirected graph
        remarks: what was changed, one sentence each
    """

    pairs: Tensor
    weight: Tensor | None
    forward: Tensor | None
    remarks: list[str]


def prepare_edges(edges: Tensor, weight: Tensor | None, nodes: int, directed: bool = False) -> Edges:
    """Bring edges [2, E] into the form that training expects.

    Weights of duplicate edges are added; where both directions of an edge have weights, their mean is that of the
    edge. Edges of weight 0 are left out. Weights that are all equal are left out: nothing depends on their scale.

    Raises:
        InputError: if there are no edges
    """
    remarks: list[str] = []
    if weight is not None and bool((weight == 0).any()):
        is_zero = weight == 0
        remarks.append(f"{count_noun(int(is_zero.sum()), 'edge')} of weight 0 left out")
        edges, weight = edges[:, ~is_zero], weight[~is_zero]
    if weight is None and not directed and is_undirected_and_sorted(edges, nodes):
        return Edges(edges, None, None, remarks)
    proper = edges[0] != edges[1]
    if not proper.any():
        raise InputError("the graph has no edges", "without any, the features are all there is to embed")
    if loops := int((~proper).sum()):
        remarks.append(f"{count_noun(loops, 'self-loop')} left out: every node sees itself anyway")
        edges, weight = edges[:, proper], None if weight is None else weight[proper]
    given = edges.size(1)
    if weight is None:
        arcs, arc_weight = coalesce(edges, num_nodes=nodes), None
        index: Tensor = to_undirected(arcs, num_nodes=nodes)
    else:
        arcs, arc_weight = coalesce(edges, weight.double(), nodes, reduce="sum")
        index, weight = to_undirected(arcs, arc_weight, nodes, reduce="mean")
    if duplicates := given - arcs.size(1):
        what = "left out" if weight is None else "joined with others: their weights are added"
        remarks.append(f"{count_noun(duplicates, 'duplicate edge')} {what}")
    if arcs.size(1) < index.size(1) and not directed:
        remarks.append("every edge is used in both directions")
    remarks += [] if arc_weight is None or directed else _describe_directions(arcs, arc_weight, nodes)
    forward = _forward_weights(arcs, arc_weight, index, nodes, remarks) if directed else None
    return Edges(index, _drop_equal(weight, remarks), forward, remarks)


def read_edge_weight(data: Data, edges: int) -> Tensor | None:
    """The weights [E] of a graph in memory; None without any.

    Raises:
        InputError: if there is not one number for each edge, or if one is missing, negative or infinite
    """
    if data.get("edge_weight") is None:
        return None
    weights = to_weights(as_array(data.edge_weight), edges, "edge_weight")
    validate_weights(weights, lambda row: f"edge number {row} has weight {weights[row]:g}")
    return torch.from_numpy(weights)


def choose_edge_weight(data: Data, name: str | None) -> dict[str, Any]:
    """`edge_weight` of a graph in memory: the attribute `name`, or its own if that is None; and remarks.

    Raises:
        InputError: if there is no such attribute
    """
    if name == NO_WEIGHTS:
        return {}
    if name is not None and data.get(name) is None:
        raise InputError(f"the graph has no attribute `{name}`", suggest(name, list(data.to_dict())))
    weight = data.get(name or "edge_weight")
    if weight is None and data.get("edge_attr") is not None and len(data.edge_attr) == data.edge_attr.numel():
        return {"remarks": [UnusedWeights(["edge_attr"], "attribute")]}
    return {} if weight is None else {"edge_weight": weight}


def loop_weights(row: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """The weight of every node's self-loop [N]: the mean weight of its edges, 1 without any.

    A node counts for itself as much as its average neighbor, as in a graph without weights, where all weigh 1; and
    nothing depends on the scale of the weights.

    Args:
        row: the node that every edge belongs to, [E]
        weight: of the edges, [E]
        nodes: N
    """
    degree = torch.bincount(row, minlength=nodes)
    return torch.where(degree > 0, sum_weights(row, weight, nodes) / degree.clamp_min(1), 1.0)


def sum_weights(row: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """Sum of the weights [E] of every row [N]; on the CPU in double precision: the same on every device."""
    return torch.bincount(row.cpu(), weight.cpu().double(), minlength=nodes).to(weight.device, weight.dtype)


def relative_weights(row: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """The weights [E] over the mean weight of the node that an edge belongs to: those of a node sum to its degree."""
    return weight / loop_weights(row, weight, nodes)[row]


def mirror_edges(data: Data) -> tuple[Tensor, Tensor | None]:
    """Edges in both directions, and their weights; None without any."""
    weight, nodes = data.get("edge_weight"), int(data.num_nodes)
    if weight is None:
        return to_undirected(data.edge_index, num_nodes=nodes), None
    edges, weight = to_undirected(data.edge_index, weight, nodes, reduce="mean")
    return edges, weight


def list_arcs(data: Data) -> tuple[Tensor, Tensor]:
    """The edges [2, A] of a directed graph in their own direction, and their weights [A].

    A graph that is not directed has both directions of every edge.
    """
    if data.get("edge_forward") is None:
        weight = data.get("edge_weight")
        return data.edge_index, data.edge_index.new_ones(data.num_edges).float() if weight is None else weight
    exists = data.edge_forward > 0
    return data.edge_index[:, exists], data.edge_forward[exists]


def select_edges(data: Data, kept: Tensor) -> dict[str, Tensor]:
    """`edge_index` and what belongs to it, for the edges that a mask [E] keeps."""
    chosen = {name: data[name][kept] for name in EDGE_ATTRIBUTES if data.get(name) is not None}
    return {"edge_index": data.edge_index[:, kept], **chosen}


def edge_checksum(data: Data, start: int = 0) -> int:
    """Checksum of edges, their weights and directions."""
    for name in ("edge_index", *EDGE_ATTRIBUTES):
        if data.get(name) is not None:
            start = zlib.crc32(data[name].cpu().contiguous().numpy().data, start)
    return start


def is_undirected_and_sorted(edges: Tensor, nodes: int) -> bool:
    """Whether `prepare_edges` would change nothing in edges without weights.

    In O(E) where `torch_geometric.utils.is_undirected` sorts: edges in ascending order are a CSR matrix, whose
    transpose scipy makes by counting; 14 M directed edges take 0.5 s, sorting them 9 s.
    """
    source, target = edges
    same_row = source[1:] == source[:-1]
    ascending = (source[1:] > source[:-1]) | (same_row & (target[1:] > target[:-1]))
    if not edges.size(1) or not ascending.all() or contains_self_loops(edges):
        return False
    pointer = np.zeros(nodes + 1, dtype=np.int64)
    pointer[1:] = torch.bincount(source, minlength=nodes).cumsum(0).numpy()
    ones = np.ones(edges.size(1), dtype=np.int8)
    adjacency = scipy.sparse.csr_matrix((ones, target.numpy(), pointer), (nodes, nodes))
    transpose = adjacency.tocsc()
    same_degrees = np.array_equal(adjacency.indptr, transpose.indptr)
    return same_degrees and np.array_equal(adjacency.indices, transpose.indices)


def _drop_equal(weight: Tensor | None, remarks: list[str]) -> Tensor | None:
    """Weights in single precision; None if all are equal."""
    if weight is None:
        return None
    weight = weight.float()
    low, high = (float(bound) for bound in weight.aminmax())
    if low == high:
        remarks.append("all edges have the same weight: they are used without")
        return None
    remarks.append(f"edges have weights from {low:g} to {high:g}")
    median = float(weight.median())
    if high > WEIGHT_RATIO * median:
        ratio = f"the largest weight is {high / median:,.0f} times the median"
        remarks.append(f"{ratio}: a few edges decide; logarithms may serve better")
    return weight


def _describe_directions(arcs: Tensor, weight: Tensor, nodes: int) -> list[str]:
    """A remark if the two directions of edges have different weights."""
    key = arcs[0] * nodes + arcs[1]  # ascending
    reverse = arcs[1] * nodes + arcs[0]
    place = torch.searchsorted(key, reverse).clamp_max_(len(key) - 1)
    different = int(((key[place] == reverse) & (weight[place] != weight)).sum()) // 2
    if not different:
        return []
    return [f"the two directions of {count_noun(different, 'edge')} have different weights: their mean is used"]


def _forward_weights(
    arcs: Tensor, weight: Tensor | None, index: Tensor, nodes: int, remarks: list[str]
) -> Tensor | None:
    """`Edges.forward`; None if every edge has its reverse with the same weight."""
    key, place = (pairs[0] * nodes + pairs[1] for pairs in (arcs, index))
    forward = torch.zeros(index.size(1))
    forward[torch.searchsorted(place, key)] = 1.0 if weight is None else weight.float()
    backward = torch.empty_like(forward)
    backward[torch.searchsorted(place, index[1] * nodes + index[0])] = forward
    if torch.equal(forward, backward):
        remarks.append("every edge has its reverse: that the graph is directed changes nothing")
        return None
    remarks.append("features of several hops are taken also along the edges and against them")
    return forward
