"""Which nodes a step contrasts: shuffled batches, made ready in a thread while others are computed with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import torch
from torch import Tensor

from progcl.distributed import shard_slice
from progcl.errors import InputError

BatchT = TypeVar("BatchT")


PREFETCHED = 2  # batches made ready while others are computed with


class BatchLoader(ABC, Generic[BatchT]):
    """Batches of nodes, every epoch's a function of the seed and the epoch.

    Args:
        all_seeds: the nodes that are met
        size: nodes of a batch
        seed: of order and draws
        steps: batches of an epoch; None for as many as meet every node
        fixed: the same batches in the same order in every epoch
        part: which part of every batch to take, and of how many equal ones
    """

    def __init__(
        self,
        all_seeds: Tensor,
        size: int,
        seed: int,
        steps: int | None = None,
        fixed: bool = False,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.all_seeds = all_seeds
        self.size = size
        self.seed = seed
        self.fixed = fixed
        self.part = part
        whole = len(all_seeds) // size + (len(all_seeds) % size > 1)  # one node alone has no negatives
        if not whole:
            raise InputError(f"a contrast needs at least 2 nodes to train on (got {len(all_seeds)})")
        self.steps = min(whole, steps or whole)

    @abstractmethod
    def draw(self, seeds: Tensor, own: Tensor, key: int) -> BatchT:
        """What a step sees that contrasts `seeds`, of which this process embeds its `own`; `key` seeds its draws."""

    def batches(self, epoch: int) -> Iterator[BatchT]:
        """What the steps of an epoch see."""
        generator = torch.Generator().manual_seed(self.seed if self.fixed else _epoch_seed(self.seed, epoch))
        order = torch.randperm(len(self.all_seeds), generator=generator)
        keys = torch.randint(2**62, (self.steps,), generator=generator.manual_seed(_epoch_seed(self.seed, epoch)))

        def make(number: int) -> BatchT:
            seeds = self.all_seeds[order[number * self.size : (number + 1) * self.size]].sort().values
            return self.draw(seeds, seeds[shard_slice(len(seeds), self.part)], int(keys[number]))

        yield from prefetch(make, self.steps)


def prefetch(make: Callable[[int], BatchT], number: int) -> Iterator[BatchT]:
    """`make` called on 0, 1, ... in another thread, a few calls before the results are needed."""
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(make, index) for index in range(min(PREFETCHED, number)))
        try:
            for index in range(PREFETCHED, number + PREFETCHED):
                made = waiting.popleft().result()
                if index < number:
                    waiting.append(thread.submit(make, index))
                yield made
        finally:
            thread.shutdown(cancel_futures=True)


def _epoch_seed(seed: int, epoch: int) -> int:
    return (seed * 1_000_003 + epoch) % 2**63
