"""Neighborhoods of some nodes, drawn as GraphSAGE draws them, in plain torch: no compiled extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from progcl.errors import InputError, in_range
from progcl.graph.sparse import ranges, row_pointer
from progcl.seeding import hash_pairs

NOWHERE = -1


@dataclass(frozen=True)
class Hop:
    """Messages of one layer: the first `targets` nodes of a batch hear from some of the first `sources`.

    Attributes:
        starts: where each target's neighbors begin in `index`, [targets + 1]
        index: the neighbors' positions in the batch, [E]
    """

    targets: int
    sources: int
    starts: Tensor
    index: Tensor

    @property
    def edge_index(self) -> Tensor:
        """From neighbor to target, as positions in the batch, [2, E]."""
        target = torch.arange(self.targets, device=self.index.device).repeat_interleave(self.starts.diff())
        return torch.stack([self.index.long(), target])


@dataclass(frozen=True)
class SampledSubgraph:
    """Some nodes and what they need to be embedded, in the manner of PyG's loaders.

    Attributes:
        n_id: nodes by number, the seeds first
        batch_size: how many seeds there are
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


class NeighborSampler:
    """Draw neighbors of neighbors: B_L = seeds, and B_{l-1} = B_l and `fanout` neighbors of every node of B_l.

    Every layer draws anew for every node that it embeds, as in GraphSAGE (Algorithm 2 there). What a node draws depends
    on the batch's random number, on layer and node alone: a batch split over processes draws what it draws in one.

    Args:
        edge_index: messages from source to target, [2, E]
        nodes: number of nodes
        fanouts: neighbors to draw, of the seeds first
        replace: draw with replacement, `fanout` of every node that has any neighbor; without, all neighbors of a node
            that has fewer
    """

    def __init__(
        self, edge_index: Tensor, nodes: int, fanouts: Sequence[int] = (10, 10, 25), replace: bool = True
    ) -> None:
        for fanout in fanouts:
            in_range("fanouts", fanout, 1)
        self.fanouts = tuple(fanouts)
        self.replace = replace
        self.nodes = nodes
        source, target = edge_index
        self.degree = torch.bincount(target, minlength=nodes)
        self.starts = row_pointer(self.degree)
        self.neighbors = source[target.argsort(stable=True)].int()  # half the memory to jump about in
        self._position = torch.full((nodes,), NOWHERE, dtype=torch.int32)
        self._reached = torch.zeros(nodes, dtype=torch.bool)

    def batches(
        self, seeds: Tensor, size: int, generator: torch.Generator, shuffle: bool = True
    ) -> Iterator[SampledSubgraph]:
        """All seeds in batches of `size`; the last may be smaller."""
        order = torch.randperm(len(seeds), generator=generator) if shuffle else torch.arange(len(seeds))
        for part in seeds[order].split(size):
            yield self.sample(part, generator)

    def sample(self, seeds: Tensor, generator: torch.Generator) -> SampledSubgraph:
        """A batch of different seeds."""
        if len(seeds.unique()) < len(seeds):
            raise InputError("a batch needs different seeds")
        keys = torch.randint(2**31, (len(self.fanouts),), generator=generator).tolist()
        return self._reach(
            seeds, [partial(self._draw, fanout=f, key=k) for f, k in zip(self.fanouts, keys, strict=True)]
        )

    def walk(self, nodes: Tensor, draws: Tensor) -> Tensor:
        """Where walks from the nodes end that take a neighbor by each of their `draws` [nodes, steps], whole numbers.

        A node without neighbors is not left.
        """
        for draw in draws.unbind(dim=1):
            degree, start = self.degree[nodes], self.starts[nodes]
            left = degree > 0
            place = draw[left].remainder(degree[left]) + start[left]
            nodes = nodes.masked_scatter(left, self.neighbors[place].long())
        return nodes

    def neighborhood(self, nodes: Tensor) -> SampledSubgraph:
        """Different nodes with all their neighbors, in one hop."""
        return self._reach(nodes, [self._all])

    def _reach(self, seeds: Tensor, draws: list[Callable[[Tensor], tuple[Tensor, Tensor]]]) -> SampledSubgraph:
        """What one draw after the other adds to the seeds."""
        n_id, position = seeds, self._position
        position[seeds] = torch.arange(len(seeds), dtype=torch.int32)
        hops = []
        for draw in draws:
            neighbor, counts = draw(n_id)
            targets = len(n_id)
            n_id = torch.cat([n_id, self._new(neighbor, targets)])
            hops.append(Hop(targets, len(n_id), row_pointer(counts), position.index_select(0, neighbor)))
        position[n_id] = NOWHERE
        return SampledSubgraph(n_id, len(seeds), tuple(reversed(hops)))

    def _draw(self, nodes: Tensor, fanout: int, key: int) -> tuple[Tensor, Tensor]:
        """Neighbors of each node, one node's after the other's, and how many each has.

        A neighbor is drawn by a remainder of 2^32: the odds of d neighbors differ by less than d in these many.
        """
        degree, start = self.degree[nodes], self.starts[nodes]
        if self.replace:
            some = degree > 0
            chance = hash_pairs(key, nodes[some, None], torch.arange(fanout))
            place = chance.remainder_(degree[some, None]).add_(start[some, None])
            return self.neighbors.index_select(0, place.flatten()), some * fanout
        many = degree > fanout
        counts = torch.where(many, fanout, degree)
        place = ranges(start, counts)
        chosen = _distinct(nodes[many], degree[many], fanout, key) + start[many, None]
        place[many.repeat_interleave(counts)] = chosen.flatten()
        return self.neighbors.index_select(0, place), counts

    def _all(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        counts = self.degree[nodes]
        return self.neighbors.index_select(0, ranges(self.starts[nodes], counts)), counts

    def _new(self, neighbor: Tensor, known: int) -> Tensor:
        """The nodes that the batch does not have yet, ascending; they get the positions after those `known`."""
        self._reached.index_fill_(0, neighbor.long(), True).logical_and_(self._position == NOWHERE)
        new = self._reached.nonzero().flatten()
        self._reached[new] = False
        self._position[new] = torch.arange(known, known + len(new), dtype=torch.int32)
        return new


def _distinct(nodes: Tensor, total: Tensor, number: int, key: int) -> Tensor:
    """`number` different ones of range(total[i]) for every i, all sets equally probable, [n, number] (Floyd's way)."""
    chance = hash_pairs(key, nodes, torch.arange(number)[:, None])
    chosen = torch.empty(number, len(total), dtype=torch.int32)  # a step is a row, one after the other in memory
    for step in range(number):
        last = total - number + step
        drawn = chance[step].remainder_(last + 1).int()
        taken = (chosen[:step] == drawn).any(dim=0)
        chosen[step] = torch.where(taken, last.int(), drawn)
    return chosen.T.long()
