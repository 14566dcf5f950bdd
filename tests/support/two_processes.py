"""Run by two processes in test_distributed: the same training split and alone, step by step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from progcl import load_config
from progcl.data.synthetic import csbm
from progcl.distributed import connect
from progcl.errors import ProgclWarning
from progcl.miners import MINERS
from progcl.miners.frozen import FrozenPosterior
from progcl.training.trainer import Trainer

SHARED: dict[str, Any] = {
    "miner.start_epoch": 2,
    "miner.hardest": 10,
    "miner.synthetic": 10,
    "encoder.hidden": 8,
    "loss.block_size": 32,
    "train.lr": 0.01,
}
BATCHES = {"batch.size": 41, "batch.fanouts": [3, 3], "encoder.name": "sage"}
HOPS = {"encoder.name": "hops", "encoder.hops": [0, 1, 2], "method.drop_edges": [0.0, 0.0]}
SHAPES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "batches": (BATCHES, tuple(MINERS)),
    "fixed batches": ({**BATCHES, "batch.variant": "paper"}, ("progcl-weight", "progcl-mix")),
    "whole": ({}, tuple(MINERS)),
    "hops": ({**HOPS, "batch.size": 41}, ("none", "progcl-weight")),
    "hops, whole": (HOPS, ("none",)),
    "anchors": ({"train.anchors": 61}, ("none", "progcl-weight", "progcl-mix")),
}


def main() -> None:
    """Print the worst difference of losses and gradients for every shape and miner."""
    warnings.simplefilter("ignore", ProgclWarning)
    torch.set_num_threads(1)
    workers = connect()
    data = csbm(nodes=131, degree=15, homophily=0.95, signal=3, seed=0)
    for shape, (changes, miners) in SHAPES.items():
        for miner in miners:
            config = load_config("csbm", {**SHARED, **changes, "miner.name": miner})
            alone, split = Trainer(config, data), Trainer(config, data, workers=workers)
            worst = 0.0
            for epoch in range(1, 4):
                for training in (alone, split):
                    training.method.set_epoch(epoch)
                for losses in zip(steps(alone, epoch), steps(split, epoch), strict=True):
                    worst = max(worst, abs(losses[0] - losses[1]))
                    pairs = zip(alone.method.parameters(), split.method.parameters(), strict=True)
                    for one, other in pairs:
                        assert one.grad is not None
                        assert other.grad is not None
                        scale = 1 + float(one.grad.abs().max())
                        worst = max(worst, float((one.grad - other.grad).abs().max()) / scale)
                        other.data.copy_(one.data)  # rounding does not add up
            fitted = (
                split.miner.fitted if isinstance(split.miner, FrozenPosterior) else torch.zeros(1, dtype=torch.float64)
            )
            everywhere = [torch.empty_like(fitted) for _ in range(workers.size)]
            dist.all_gather(everywhere, fitted)
            same = all(torch.equal(fitted, other) for other in everywhere)
            if workers.is_main:
                print(f"{shape}\t{miner}\t{worst:.3e}\t{same}", flush=True)
    rows = torch.full((2 + workers.rank, 3), float(workers.rank), requires_grad=True)
    gathered = workers.gather(rows, 5)
    (gathered * torch.arange(5.0)[:, None]).sum().backward()
    assert gathered[:, 0].tolist() == [0, 0, 1, 1, 1]
    assert rows.grad is not None
    assert rows.grad[:, 0].tolist() == ([0, 2] if workers.is_main else [4, 6, 8])
    assert workers.broadcast(lambda: workers.rank) == 0
    dist.barrier()
    # A DistributedDataParallel that dies after destroy_process_group may wait for a thread that waits for it.
    os._exit(0)


def steps(training: Trainer, epoch: int) -> Iterator[float]:
    """The losses of an epoch, a step each time that one is asked for."""
    for part in training.graph.batches(epoch):
        yield training._step(part, epoch)


if __name__ == "__main__":
    main()
