"""Shuffled batches of seed nodes, prefetched in a thread."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from progcl.distributed import shard_slice
from progcl.errors import InputError

BatchT = TypeVar("BatchT")
LoaderT = TypeVar("LoaderT", bound="BatchLoader[Any]")


PREFETCH_DEPTH = 2  # batches loaded ahead of the one in use


class PairedSeeds(NamedTuple):
    """Seed nodes [n], ascending, and pairs of them (anchor, positive) as positions [2, P]."""

    nodes: Tensor
    pairs: Tensor


Pairing: TypeAlias = Callable[[Tensor, int], PairedSeeds]  # from the seeds of a batch and a random key


class BatchLoader(ABC, Generic[BatchT]):
    """Shuffled batches of seed nodes; those of an epoch depend on the seed and the epoch alone.

    Args:
        all_seeds: the nodes to iterate over
        size: nodes of a batch
        seed: of shuffling and sampling
        steps: batches of an epoch; None for a full pass over all seeds
        fixed: the same batches in the same order in every epoch
        shard: (rank, world size): which of as many equal slices of every batch this process embeds

    Raises `InputError` if there are fewer than two seeds.
    """

    def __init__(
        self,
        all_seeds: Tensor,
        size: int,
        seed: int,
        steps: int | None = None,
        fixed: bool = False,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.all_seeds = all_seeds
        self.size = size
        self.seed = seed
        self.fixed = fixed
        self.shard = shard
        self.max_steps = steps
        self.steps = self._count_steps()

    def restrict(self: LoaderT, seeds: Tensor) -> LoaderT:
        """The same graph in batches of some of its nodes."""
        other = copy.copy(self)
        other.all_seeds = seeds.to(self.all_seeds.device)
        other.steps = other._count_steps()
        return other

    def _count_steps(self) -> int:
        """Batches of an epoch."""
        nodes = len(self.all_seeds)
        full_pass = nodes // self.size + (nodes % self.size > 1)  # a batch of one node has no negatives
        if not full_pass:
            raise InputError(f"a batch needs at least 2 nodes to train on (got {nodes})")
        return min(full_pass, self.max_steps or full_pass)

    @abstractmethod
    def draw(self, seeds: Tensor, local_seeds: Tensor, key: int, pairs: Tensor | None = None) -> BatchT:
        """The batch that contrasts `seeds`, of which this process embeds `local_seeds`; `key` seeds its sampling."""

    def batches(self, epoch: int, pair: Pairing | None = None) -> Iterator[BatchT]:
        """The batches of an epoch; `pair` adds nodes to the seeds, and names the positives among them."""
        generator = torch.Generator().manual_seed(self.seed if self.fixed else _epoch_seed(self.seed, epoch))
        order = torch.randperm(len(self.all_seeds), generator=generator).to(self.all_seeds.device)
        keys = torch.randint(2**62, (self.steps,), generator=generator.manual_seed(_epoch_seed(self.seed, epoch)))

        def load(number: int) -> BatchT:
            seeds = self.all_seeds[order[number * self.size : (number + 1) * self.size]].sort().values
            seeds, pairs = (seeds, None) if pair is None else pair(seeds, int(keys[number]))
            return self.draw(seeds, seeds[shard_slice(len(seeds), self.shard)], int(keys[number]), pairs)

        yield from prefetch(load, self.steps)


def prefetch(load: Callable[[int], BatchT], number: int) -> Iterator[BatchT]:
    """load(0), ..., load(number - 1), each called in a thread `PREFETCH_DEPTH` items ahead of its use."""
    with ThreadPoolExecutor(1) as thread:
        queue = deque(thread.submit(load, index) for index in range(min(PREFETCH_DEPTH, number)))
        try:
            for index in range(PREFETCH_DEPTH, number + PREFETCH_DEPTH):
                batch = queue.popleft().result()
                if index < number:
                    queue.append(thread.submit(load, index))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)


def _epoch_seed(seed: int, epoch: int) -> int:
    return (seed * 1_000_003 + epoch) % 2**63
