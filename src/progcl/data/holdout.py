"""Links that are kept from everything, to score an embedding by where there are no labels."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from progcl.errors import InputError, in_range
from progcl.seeding import derive_seed, hash_pairs

SHARE = 0.1
ROUGH = 100  # held-out links below which scores are rough


def hold_out_links(data: Data, share: float = SHARE, seed: int = 0) -> Data:
    """A copy of a graph without some of its edges, which are its attribute `heldout` [2, H], one direction of each.

    They are chosen before anything is computed from the graph, by a hash of the seed and their two nodes. Every node
    keeps the edge with its largest hash, so none becomes isolated; the only edge of a node is therefore never held out.

    Args:
        data: a graph, prepared or not; attributes of edges go with their edges
        share: of the edges to hold out; fewer where most nodes have but one edge
        seed: of the choice

    Raises:
        InputError: if no edge can be held out, or if there are no other pairs to tell them from
    """
    in_range("share", share, 0, 0.9, "a share, such as 0.1")
    edges = torch.as_tensor(data.edge_index).long()
    nodes = int(max(int(data.num_nodes or 0), int(edges.max()) + 1 if edges.numel() else 0))
    low, high = edges.min(dim=0).values, edges.max(dim=0).values
    pairs = coalesce(torch.stack([low, high])[:, low != high], num_nodes=nodes)
    if 2 * pairs.size(1) == nodes * (nodes - 1):
        raise InputError("an edge joins any two nodes: there is nothing to tell links from", "use another graph")
    heldout = _choose(pairs, nodes, share, seed)
    if not heldout.size(1):
        hint = "every node keeps an edge: hold links out of a graph with more of them"
        raise InputError(f"no link of {pairs.size(1):,} can be held out", hint)
    is_kept = ~torch.isin(low * nodes + high, heldout[0] * nodes + heldout[1])
    kept = copy.copy(data)  # PyG's `edge_subgraph` would take any list as long as the edges for one of theirs
    for key, value in data.to_dict().items():
        if key.startswith("edge_") and key != "edge_index":
            kept[key] = torch.as_tensor(value)[is_kept]
    kept.edge_index, kept.heldout, kept.num_nodes = edges[:, is_kept], heldout, data.num_nodes
    kept.remarks = [*data.get("remarks", []), _describe(heldout.size(1), pairs.size(1))]
    return kept


def _choose(pairs: Tensor, nodes: int, share: float, seed: int) -> Tensor:
    """Of the edges [2, E] in one direction, those with the smallest hashes that are not the largest of either end."""
    key = hash_pairs(derive_seed(seed, "heldout links"), *pairs)
    largest = torch.full((nodes,), -1).scatter_reduce(0, pairs.flatten(), key.repeat(2), "amax")
    free = (key < largest[pairs[0]]) & (key < largest[pairs[1]])
    order = key[free].argsort(stable=True)[: max(1, round(share * pairs.size(1)))]
    return pairs[:, free][:, order.sort().values]


def _describe(heldout: int, edges: int) -> str:
    rough = f" ({heldout} are few: the scores are rough)" if heldout < ROUGH else ""
    what = f"{heldout:,} of {edges:,} edges are kept from everything, to score the embedding by{rough}"
    return f"{what}: to use it, embed again with all edges"
