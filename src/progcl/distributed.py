"""Several processes, on one machine or many, as torchrun starts them; alone, nothing happens here."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Value = TypeVar("Value")
PATIENCE = timedelta(hours=1)  # of a process that waits for another


@dataclass(frozen=True)
class Workers:
    """The processes of a run; all hold the same parameters, draw the same random numbers and see the same losses."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    @property
    def part(self) -> tuple[int, int]:
        """Which part of the work is this process's, and of how many."""
        return self.rank, self.size

    def sum(self, *tensors: Tensor) -> None:
        """Add up what every process holds, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, own: Tensor, total: int) -> Tensor:
        """All `total` rows, of which every process has its portion; a loss of these is to be the same in every process.

        A row's gradient goes back to the process that it came from, times the number of processes: an average over
        them, as DistributedDataParallel takes it, then is the gradient of the loss.
        """
        if self.size == 1:
            return own
        rows: Tensor = _Gather.apply(own, total, self)  # type: ignore[no-untyped-call]
        return rows

    def local_main_first(self, make: Callable[[], Value]) -> Value:
        """What `make` gives, called in one process of every machine before the others: it may write files."""
        if self.size == 1:
            return make()
        if os.environ.get("LOCAL_RANK", "0") == "0":
            value = make()
            dist.barrier()
            return value
        dist.barrier()
        return make()

    def broadcast(self, make: Callable[[], Value]) -> Value:
        """What `make` gives in the leading process, in every process."""
        if self.size == 1:
            return make()
        answer: list[Any] = [make() if self.is_main else None]
        dist.broadcast_object_list(answer)
        value: Value = answer[0]
        return value


SINGLE_PROCESS = Workers()


def shard_slice(total: int, part: tuple[int, int]) -> slice:
    """Which of `total` rows belong to a part, and of how many parts."""
    number, parts = part
    return slice(total * number // parts, total * (number + 1) // parts)


def processes() -> int:
    """How many processes torchrun has started; 1 if it has not."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def connect() -> Workers:
    """Join the processes that torchrun has started, if it has."""
    if processes() == 1:
        return SINGLE_PROCESS
    if not dist.is_initialized():
        store, rank, size = next(iter(dist.rendezvous("env://", timeout=PATIENCE)))  # type: ignore[attr-defined]
        # torchrun's store outlives a restart, with the addresses of processes that are dead.
        fresh = dist.PrefixStore(f"attempt-{restarts()}", store)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=fresh, rank=rank, world_size=size, timeout=PATIENCE)
    return Workers(dist.get_rank(), dist.get_world_size())


def job() -> str:
    """What tells torchrun's job from others, and stays when it starts its processes again."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{platform.node()}, process {os.getppid()}" if name == "none" else name


def restarts() -> int:
    """How often torchrun has started the processes again because one had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: int, workers: Workers) -> Tensor:
        places = [shard_slice(total, (rank, workers.size)) for rank in range(workers.size)]
        numbers = [place.stop - place.start for place in places]
        padded = torch.cat([own, own.new_zeros(max(numbers) - len(own), *own.shape[1:])])
        rows = [torch.empty_like(padded) for _ in places]
        dist.all_gather(rows, padded)
        ctx.place, ctx.size = places[workers.rank], workers.size
        return torch.cat([part[:number] for part, number in zip(rows, numbers, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0][ctx.place] * ctx.size, None, None
