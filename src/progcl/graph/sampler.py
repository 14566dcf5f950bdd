"""Neighbor sampling as in GraphSAGE and random walks, in plain torch: no compiled extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from progcl.data.edges import relative_weights, sum_weights
from progcl.errors import InputError, in_range
from progcl.graph.sparse import concat_ranges, row_pointer
from progcl.seeding import hash_pairs

ABSENT = -1  # position of a node that is not in the batch
FRACTION_KEY, FRACTIONS = 0x5EED, 2**20  # seed and number of the random fractions between two neighbors


@dataclass(frozen=True)
class Hop:
    """Messages of one layer as a CSR matrix: from the first `num_sources` nodes of a batch to the first `num_targets`.

    Attributes:
        num_targets: rows
        num_sources: columns
        rowptr: where each target's neighbors begin in `column`, [num_targets + 1]
        column: the neighbors' positions in the batch, [E]
        weight: of the messages [E], over the mean weight of the target's edges; None for 1, also where neighbors were
            drawn by weight
    """

    num_targets: int
    num_sources: int
    rowptr: Tensor
    column: Tensor
    weight: Tensor | None = None

    @property
    def edge_index(self) -> Tensor:
        """From neighbor to target, as positions in the batch, [2, E]."""
        target = torch.arange(self.num_targets, device=self.column.device).repeat_interleave(self.rowptr.diff())
        return torch.stack([self.column.long(), target])


@dataclass(frozen=True)
class SampledSubgraph:
    """Seed nodes and the neighbors that their embedding needs, with the names of PyG's loaders.

    Attributes:
        n_id: node numbers, the seeds first
        batch_size: number of seeds
        hops: one for each layer of the encoder, the widest first
    """

    n_id: Tensor
    batch_size: int
    hops: tuple[Hop, ...]

    @property
    def edge_index(self) -> Tensor:
        """Every edge of every hop once, as positions in `n_id`, [2, E]."""
        edges: Tensor = torch.cat([hop.edge_index for hop in self.hops], dim=1).unique(dim=1)
        return edges


class Drawn(NamedTuple):
    """Neighbors of some nodes, concatenated, their number for each node, and their weights (as those of a `Hop`)."""

    neighbor: Tensor
    counts: Tensor
    weight: Tensor | None = None


class NeighborSampler:
    """Neighbor sampling of GraphSAGE (Hamilton et al., Inductive Representation Learning on Large Graphs, 2017).

    B_L are the seeds; B_{l-1} is B_l with `fanout` neighbors of every node of B_l. Every layer samples anew for every
    node that it embeds (Algorithm 2 there). A node's sample depends on the batch's random key, the layer and the node
    alone: a batch split over processes gets the samples of the whole one.

    In a weighted graph, steps of walks and neighbors with replacement are drawn with probabilities in proportion to the
    weights. Without replacement neighbors are drawn alike, and it is their messages that have weights.

    Args:
        edge_index: messages from source to target, [2, E]
        nodes: number of nodes
        fanouts: neighbors to sample, those of the seeds first
        replace: sample with replacement, `fanout` of every node that has any neighbor; without, all neighbors of a node
            that has fewer
        edge_weight: [E]; None for a graph without weights
    """

    def __init__(
        self,
        edge_index: Tensor,
        nodes: int,
        fanouts: Sequence[int] = (10, 10, 25),
        replace: bool = True,
        edge_weight: Tensor | None = None,
    ) -> None:
        for fanout in fanouts:
            in_range("fanouts", fanout, 1)
        self.fanouts = tuple(fanouts)
        self.replace = replace
        self.num_nodes = nodes
        self.device = edge_index.device
        source, target = edge_index
        self.degree = torch.bincount(target, minlength=nodes)
        self.rowptr = row_pointer(self.degree)
        order = target.argsort(stable=True)
        self.neighbors = source[order].int()  # half the memory for random access
        self.weight: Tensor | None = None
        if edge_weight is not None:
            self.weight = relative_weights(target, edge_weight, nodes)[order]
            self._ends = self.weight.cpu().double().cumsum(0)
            self._strength = sum_weights(target, edge_weight, nodes)
        self._position = torch.full((nodes,), ABSENT, dtype=torch.int32, device=self.device)
        self._is_reached = torch.zeros(nodes, dtype=torch.bool, device=self.device)

    @property
    def strength(self) -> Tensor:
        """Sum of the weights of every node's edges [N]; without weights, its degree."""
        return self.degree if self.weight is None else self._strength

    def loop_weight(self, nodes: Tensor) -> Tensor | int:
        """The weight of self-loops of some nodes [n], as `loop_weights` has it; without weights, 1."""
        if self.weight is None:
            return 1
        degree = self.degree[nodes]
        return torch.where(degree > 0, self._strength[nodes] / degree.clamp_min(1), 1.0)

    def batches(
        self, seeds: Tensor, size: int, generator: torch.Generator, shuffle: bool = True
    ) -> Iterator[SampledSubgraph]:
        """All seeds in batches of `size`; the last may be smaller."""
        order = torch.randperm(len(seeds), generator=generator) if shuffle else torch.arange(len(seeds))
        for batch in seeds[order.to(seeds.device)].split(size):
            yield self.sample(batch, generator)

    def sample(self, seeds: Tensor, generator: torch.Generator) -> SampledSubgraph:
        """A batch of distinct seeds with sampled neighbors; raises `InputError` if a seed comes twice."""
        if len(seeds.unique()) < len(seeds):
            raise InputError("a batch needs different seeds")
        keys = torch.randint(2**31, (len(self.fanouts),), generator=generator).tolist()
        return self._expand(
            seeds, [partial(self._draw_neighbors, fanout=f, key=k) for f, k in zip(self.fanouts, keys, strict=True)]
        )

    def walk(self, nodes: Tensor, draws: Tensor) -> Tensor:
        """The end nodes [n] of random walks from `nodes` [n]; see `paths`."""
        return self.paths(nodes, draws)[:, -1]

    def paths(self, nodes: Tensor, draws: Tensor) -> Tensor:
        """Random walks from `nodes` [n], [n, 1 + steps]; step j goes to neighbor draws[i, j] modulo the degree.

        `draws` [n, steps] are random integers; by weights, they become other neighbors (`_choose_by_weight`). A walk
        stays at a node without neighbors.
        """
        visited = [nodes]
        for draw in draws.unbind(dim=1):
            degree, start = self.degree[visited[-1]], self.rowptr[visited[-1]]
            mask = degree > 0
            edge = self._choose_edges(draw[mask], start[mask], degree[mask])
            visited.append(visited[-1].masked_scatter(mask, self.neighbors[edge].long()))
        return torch.stack(visited, dim=1)

    def induced_edges(self, nodes: Tensor) -> Tensor:
        """The edges between `nodes` [n], ascending, as positions (target, source) among them, [2, E]."""
        return self.weighted_edges(nodes)[0]

    def weighted_edges(self, nodes: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same, and their weights [E] over the mean weight of the target's edges; None for 1."""
        neighbor, counts, weight = self._list_neighbors(nodes)
        is_member = torch.zeros(self.num_nodes, dtype=torch.bool, device=self.device).index_fill_(0, nodes, True)
        entry = is_member.index_select(0, neighbor).nonzero().flatten()
        target = torch.searchsorted(counts.cumsum(0), entry, right=True)
        pairs = torch.stack([target, torch.searchsorted(nodes, neighbor[entry].long())])
        return pairs, None if weight is None else weight[entry]

    def full_neighborhood(self, nodes: Tensor) -> SampledSubgraph:
        """Distinct nodes with all their neighbors, in one hop."""
        return self._expand(nodes, [self._list_neighbors])

    def _expand(self, seeds: Tensor, draws: list[Callable[[Tensor], Drawn]]) -> SampledSubgraph:
        """Apply each draw to the nodes reached so far, and add the neighbors that it returns."""
        n_id, position = seeds, self._position
        position[seeds] = torch.arange(len(seeds), dtype=torch.int32, device=self.device)
        hops = []
        for draw in draws:
            neighbor, counts, weight = draw(n_id)
            num_targets = len(n_id)
            n_id = torch.cat([n_id, self._add_new(neighbor, num_targets)])
            hops.append(Hop(num_targets, len(n_id), row_pointer(counts), position.index_select(0, neighbor), weight))
        position[n_id] = ABSENT
        return SampledSubgraph(n_id, len(seeds), tuple(reversed(hops)))

    def _draw_neighbors(self, nodes: Tensor, fanout: int, key: int) -> Drawn:
        """Sampled neighbors of each node.

        A neighbor is a random integer below 2^32 modulo the degree d: probabilities differ by less than d / 2^32.
        """
        degree, start = self.degree[nodes], self.rowptr[nodes]
        if self.replace:
            mask = degree > 0
            draw = hash_pairs(key, nodes[mask, None], torch.arange(fanout, device=self.device))
            edge = self._choose_edges(draw, start[mask, None], degree[mask, None])
            return Drawn(self.neighbors.index_select(0, edge.flatten()), mask * fanout)
        mask = degree > fanout
        counts = torch.where(mask, fanout, degree)
        edge = concat_ranges(start, counts)
        subset = _draw_distinct(nodes[mask], degree[mask], fanout, key) + start[mask, None]
        edge[mask.repeat_interleave(counts)] = subset.flatten()
        return self._gather(edge, counts)

    def _list_neighbors(self, nodes: Tensor) -> Drawn:
        """All neighbors of each node."""
        counts = self.degree[nodes]
        return self._gather(concat_ranges(self.rowptr[nodes], counts), counts)

    def _gather(self, edge: Tensor, counts: Tensor) -> Drawn:
        weight = None if self.weight is None else self.weight[edge]
        return Drawn(self.neighbors.index_select(0, edge), counts, weight)

    def _choose_edges(self, draw: Tensor, start: Tensor, degree: Tensor) -> Tensor:
        """Edges of nodes, whose edges begin at `start`, by random integers, which may be overwritten."""
        if self.weight is None:
            return draw.remainder_(degree).add_(start)
        return self._choose_by_weight(draw, start, degree)

    def _choose_by_weight(self, draw: Tensor, start: Tensor, degree: Tensor) -> Tensor:
        """Edges with probabilities in proportion to their weights, found by binary search.

        The weights of a node sum to its degree: a number between 0 and that is the choice among neighbors that are
        alike plus a random fraction. Where all are alike, it is that choice.
        """
        choice = draw.remainder(degree)
        fraction = hash_pairs(FRACTION_KEY, draw, choice).bitwise_right_shift_(12)  # few bits: sums are exact
        place = (start + choice).cpu() + fraction.cpu().double() / FRACTIONS
        edge = torch.searchsorted(self._ends, place, right=True).to(start.device)
        return torch.minimum(torch.maximum(edge, start), start + degree - 1)

    def _add_new(self, neighbor: Tensor, size: int) -> Tensor:
        """Nodes that a batch of `size` nodes does not have yet, ascending; they get the positions from `size` on."""
        self._is_reached.index_fill_(0, neighbor.long(), True).logical_and_(self._position == ABSENT)
        new = self._is_reached.nonzero().flatten()
        self._is_reached[new] = False
        self._position[new] = torch.arange(size, size + len(new), dtype=torch.int32, device=self.device)
        return new


def _draw_distinct(nodes: Tensor, total: Tensor, number: int, key: int) -> Tensor:
    """`number` distinct elements of range(total[i]) for every i, all sets equally likely, [n, number].

    Floyd's algorithm (Bentley and Floyd, 1987), vectorized over i.
    """
    draws = hash_pairs(key, nodes, torch.arange(number, device=nodes.device)[:, None])
    chosen = torch.empty(number, len(total), dtype=torch.int32, device=nodes.device)  # a step is a contiguous row
    for step in range(number):
        last = total - number + step
        draw = draws[step].remainder_(last + 1).int()
        is_taken = (chosen[:step] == draw).any(dim=0)
        chosen[step] = torch.where(is_taken, last.int(), draw)
    return chosen.T.long()
