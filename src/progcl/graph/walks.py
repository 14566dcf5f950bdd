"""Random walks, of first order as in DeepWalk and of second order as in node2vec, and batches of them.

A walk depends on the seed, the epoch and its start node alone: it is the same in whatever batch it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops

from progcl.errors import InputError
from progcl.graph.batching import prefetch
from progcl.graph.sampler import NeighborSampler
from progcl.seeding import HASH_RANGE, derive_seed, hash_pairs

BATCHES_PER_DRAW = 32  # whose walks are drawn together: a step of many walks costs little more than of few


class RandomWalker:
    """Walks of a given length over a graph without its self-loops; a walk stays at a node without neighbors.

    From node v, reached from t, a walk goes to neighbor x with a probability in proportion to 1/p if x = t, to 1 if x
    is a neighbor of t, and to 1/q otherwise; with p = q = 1, all neighbors are equally probable. In a weighted graph,
    all that is multiplied by the weight of the edge from v to x.

    A neighbor is proposed uniformly, or by weight, and accepted with what p and q give it over the largest of these
    (Yang et al., KnightKing: A Fast Distributed Graph Random Walk Engine, 2019): memory is linear in the edges, where
    tables of all transitions are not.

    Args:
        edge_index: undirected, [2, E]
        nodes: number of nodes
        p: return parameter
        q: in-out parameter
        seed: of all walks
        edge_weight: [E]; None for a graph without weights
    """

    def __init__(
        self,
        edge_index: Tensor,
        nodes: int,
        p: float = 1.0,
        q: float = 1.0,
        seed: int = 0,
        edge_weight: Tensor | None = None,
    ) -> None:
        edges, weight = remove_self_loops(edge_index, edge_weight)
        self.sampler = NeighborSampler(edges, nodes, fanouts=[], edge_weight=weight)
        self.return_weight, self.out_weight = 1 / p, 1 / q
        self.largest = max(1.0, self.return_weight, self.out_weight)
        self.seed = seed
        self.is_second_order = p != 1 or q != 1
        self._edges = self._sort_edges() if self.is_second_order else None

    @property
    def degree(self) -> Tensor:
        """Number of neighbors of each node [N]."""
        return self.sampler.degree

    def walk(self, starts: Tensor, length: int, epoch: int) -> Tensor:
        """One walk from each start node [n]: node numbers [n, length], the start first."""
        walks = torch.empty(length, len(starts), dtype=torch.long, device=starts.device)  # a step is a contiguous row
        walks[0] = starts
        for step in range(1, length):
            key = derive_seed(self.seed, f"{epoch}:{step}")
            if step == 1 or not self.is_second_order:
                walks[step] = self._propose(walks[step - 1], starts, key, trial=0)
            else:
                walks[step] = self._step_second_order(walks[step - 2], walks[step - 1], starts, key)
        return walks.T

    def _propose(self, nodes: Tensor, starts: Tensor, key: int, trial: int) -> Tensor:
        """A neighbor of each node [n], drawn uniformly or by weight."""
        return self.sampler.walk(nodes, hash_pairs(key, starts, torch.tensor(2 * trial, device=starts.device))[:, None])

    def _step_second_order(self, before: Tensor, nodes: Tensor, starts: Tensor, key: int) -> Tensor:
        """The next node of each walk [n]: propose and reject until all have one."""
        after, trial = self._propose(nodes, starts, key, 0), 0
        left = (self.degree[nodes] > 1).nonzero().flatten()  # others have no choice
        while len(left):
            if trial:
                after[left] = self._propose(nodes[left], starts[left], key, trial)
            second = torch.tensor(2 * trial + 1, device=starts.device)
            uniform = hash_pairs(key, starts[left], second) / HASH_RANGE
            left = left[uniform * self.largest >= self._weigh(before[left], after[left])]
            trial += 1
        return after

    def _weigh(self, before: Tensor, after: Tensor) -> Tensor:
        """Unnormalized probability [n] of each proposed node, by its distance to the node before."""
        weight = torch.where(self._are_adjacent(before, after), 1.0, self.out_weight)
        return weight.masked_fill_(after == before, self.return_weight)

    def _sort_edges(self) -> Tensor:
        """Every edge as one number, ascending [E]."""
        sampler = self.sampler
        target = torch.arange(sampler.num_nodes, device=sampler.device).repeat_interleave(sampler.degree)
        edges: Tensor = (target * sampler.num_nodes + sampler.neighbors).sort().values
        return edges

    def _are_adjacent(self, first: Tensor, second: Tensor) -> Tensor:
        """Whether there is an edge between the nodes of each pair [n]."""
        assert self._edges is not None
        number = first * self.sampler.num_nodes + second
        position = torch.searchsorted(self._edges, number).clamp_max_(len(self._edges) - 1)
        return self._edges[position] == number


@dataclass(frozen=True)
class WalkBatch:
    """Walks, and nodes to contrast them with.

    Attributes:
        seeds: start nodes [n]
        walks: node numbers [n, length]
        noise: nodes [n, m] drawn at random, those of a walk being shared by all its nodes
    """

    seeds: Tensor
    walks: Tensor
    noise: Tensor


class WalkLoader:
    """Every node with neighbors begins one walk an epoch: shuffled batches, drawn in a thread ahead of their use.

    Noise is drawn with probabilities in proportion to degree^(3/4), or to the sum of a node's weights in place of it.

    Args:
        walker: draws the walks
        length: nodes of a walk
        noise: nodes drawn for each walk
        size: walks of a batch
        steps: batches of an epoch; None for all walks

    Raises `InputError` if the graph has no edges.
    """

    def __init__(self, walker: RandomWalker, length: int, noise: int, size: int, steps: int | None = None) -> None:
        self.walker = walker
        self.length = length
        self.noise = noise
        self.size = size
        self.starts = walker.degree.nonzero().flatten()
        if not len(self.starts):
            raise InputError("the graph has no edges to walk along")
        full_pass = -(-len(self.starts) // size)
        self.steps = min(full_pass, steps or full_pass)
        share = walker.sampler.strength.cpu().double().pow(0.75).cumsum(0)
        self._noise_ends = (share / share[-1] * HASH_RANGE).round().long().to(walker.degree.device)

    def batches(self, epoch: int) -> Iterator[WalkBatch]:
        """The batches of an epoch."""
        generator = torch.Generator().manual_seed(derive_seed(self.walker.seed, f"order:{epoch}"))
        order = torch.randperm(len(self.starts), generator=generator)[: self.steps * self.size]
        chunks = self.starts[order.to(self.starts.device)].split(BATCHES_PER_DRAW * self.size)
        for batches in prefetch(lambda number: self.draw(chunks[number], epoch), len(chunks)):
            yield from batches

    def draw(self, starts: Tensor, epoch: int) -> list[WalkBatch]:
        """The walks from some nodes, in batches."""
        walks, noise = self.walker.walk(starts, self.length, epoch), self.draw_noise(starts, epoch)
        splits = (tensor.split(self.size) for tensor in (starts, walks, noise))
        return [WalkBatch(*tensors) for tensors in zip(*splits, strict=True)]

    def draw_noise(self, starts: Tensor, epoch: int) -> Tensor:
        """Noise [n, m] of the walks from nodes [n]."""
        key, column = derive_seed(self.walker.seed, f"noise:{epoch}"), torch.arange(self.noise, device=starts.device)
        return torch.searchsorted(self._noise_ends, hash_pairs(key, starts[:, None], column), right=True)
