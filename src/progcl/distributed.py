"""Data-parallel processes on one machine or many, as started by torchrun; without it, a single process."""

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
TIMEOUT = timedelta(hours=1)  # of a collective operation: the main process may prepare data while others wait


@dataclass(frozen=True)
class Workers:
    """The processes of a run; all hold the same parameters, draw the same random numbers and see the same losses.

    Attributes:
        rank: of this process
        size: world size
    """

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the process that writes and prints."""
        return self.rank == 0

    @property
    def shard(self) -> tuple[int, int]:
        """(rank, world size): the shard of the work that this process does."""
        return self.rank, self.size

    def sum(self, *tensors: Tensor) -> None:
        """All-reduce: sum each tensor over all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, local_rows: Tensor, total: int) -> Tensor:
        """All-gather: all `total` rows, of which every process has its shard; a gradient flows back.

        The loss of these rows has to be the same in every process. The gradient of a row goes back to its process,
        times the world size, so that the mean that DistributedDataParallel takes is the loss's gradient.
        """
        if self.size == 1:
            return local_rows
        rows: Tensor = _AllGather.apply(local_rows, total, self)  # type: ignore[no-untyped-call]
        return rows

    def local_main_first(self, make: Callable[[], Value]) -> Value:
        """`make()`, run on the first rank of each host before the others: it may write files that these read."""
        if self.size == 1:
            return make()
        if os.environ.get("LOCAL_RANK", "0") == "0":
            value = make()
            dist.barrier()
            return value
        dist.barrier()
        return make()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in one process at least."""
        if self.size == 1:
            return flag
        flags = torch.tensor([int(flag)])
        self.sum(flags)
        return bool(flags)

    def broadcast(self, make: Callable[[], Value]) -> Value:
        """`make()` of rank 0, in every process; the value is pickled."""
        if self.size == 1:
            return make()
        values: list[Any] = [make() if self.is_main else None]
        dist.broadcast_object_list(values)
        value: Value = values[0]
        return value


SINGLE_PROCESS = Workers()


def shard_slice(total: int, shard: tuple[int, int]) -> slice:
    """Which of `total` rows belong to a shard (rank, world size); sizes differ by at most 1."""
    rank, size = shard
    return slice(total * rank // size, total * (rank + 1) // size)


def world_size() -> int:
    """Number of processes that torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def connect() -> Workers:
    """Initialize the process group if torchrun has started several processes."""
    if world_size() == 1:
        return SINGLE_PROCESS
    if not dist.is_initialized():
        store, rank, size = next(iter(dist.rendezvous("env://", timeout=TIMEOUT)))  # type: ignore[attr-defined]
        # torchrun's store survives a restart, with the addresses of the processes that died: each attempt has a prefix.
        attempt = dist.PrefixStore(f"attempt-{restart_count()}", store)  # type: ignore[attr-defined]
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=attempt, rank=rank, world_size=size, timeout=TIMEOUT)
    return Workers(dist.get_rank(), dist.get_world_size())


def job_id() -> str:
    """Identifies torchrun's job; the same after it has restarted its processes."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{platform.node()}, process {os.getppid()}" if name == "none" else name


def restart_count() -> int:
    """How often torchrun has restarted the processes because one had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local_rows: Tensor, total: int, workers: Workers) -> Tensor:
        shards = [shard_slice(total, (rank, workers.size)) for rank in range(workers.size)]
        lengths = [shard.stop - shard.start for shard in shards]
        padded = torch.cat([local_rows, local_rows.new_zeros(max(lengths) - len(local_rows), *local_rows.shape[1:])])
        received = [torch.empty_like(padded) for _ in shards]
        dist.all_gather(received, padded)
        ctx.local_slice, ctx.size = shards[workers.rank], workers.size
        return torch.cat([rows[:length] for rows, length in zip(received, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0][ctx.local_slice] * ctx.size, None, None
