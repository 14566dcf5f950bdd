"""Run under torchrun by test_distributed.py: compare losses with those of one process; or kill a worker of a run."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from progcl import fit, load_config
from progcl.cli import main as cli
from progcl.data.synthetic import csbm
from progcl.distributed import Workers, connect, restart_count
from progcl.errors import ProgclWarning
from progcl.miners import MINERS
from progcl.miners.frozen import FrozenPosterior
from progcl.training.trainer import Record, Trainer

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
NEIGHBORS = {
    **{"method.name": "neighbors", "encoder.name": "svd", "encoder.hops": [0], "encoder.dropout": 0.2},
    "batch.size": 41,
}
SHAPES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {  # changes of the configuration, and miners
    "batches": (BATCHES, tuple(MINERS)),
    "fixed batches": ({**BATCHES, "batch.variant": "paper"}, ("progcl-weight", "progcl-mix")),
    "full graph": ({}, tuple(MINERS)),
    "hops": ({**HOPS, "batch.size": 41}, ("none", "progcl-weight")),
    "hops, full table": (HOPS, ("none",)),
    "anchors": ({"train.anchors": 61}, ("none", "progcl-weight", "progcl-mix")),
    "gca": ({"method.name": "gca"}, ("none", "progcl-weight")),
    "neighbors": (NEIGHBORS, ("none", "progcl-weight", "progcl-mix")),
    "neighbors, sigmoid": ({**NEIGHBORS, "method.objective": "sigmoid"}, ("none",)),
    "neighbors, anchors": ({"method.name": "neighbors", "train.anchors": 61}, ("none", "hcl")),
    "merit": ({"method.name": "merit"}, ("none", "progcl-weight")),
}
EPOCHS, KILLED = 12, 7


def compare_losses(workers: Workers) -> None:
    """Print the largest difference of losses and gradients for every shape and miner."""
    data = csbm(nodes=131, degree=15, homophily=0.95, signal=3, seed=0)
    for shape, (changes, miners) in SHAPES.items():
        for miner in miners:
            config = load_config("csbm", {**SHARED, **changes, "miner.name": miner}, strict=False)
            single, sharded = Trainer(config, data), Trainer(config, data, workers=workers)
            difference = max(differences(single, sharded, epochs=3))
            fitted_miners = [each for each in sharded.method.miners() if isinstance(each, FrozenPosterior)]
            fitted = fitted_miners[0].fitted if fitted_miners else torch.zeros(1, dtype=torch.float64)
            fits = [torch.empty_like(fitted) for _ in range(workers.size)]
            dist.all_gather(fits, fitted)
            same = all(torch.equal(fitted, other) for other in fits)
            if workers.is_main:
                print(f"{shape}\t{miner}\t{difference:.3e}\t{same}", flush=True)
    check_gather(workers)


def differences(single: Trainer, sharded: Trainer, epochs: int) -> Iterator[float]:
    """Of the losses of every step, and of the gradients relative to their size."""
    for epoch in range(1, epochs + 1):
        for trainer in (single, sharded):
            trainer.method.set_epoch(epoch)
        for losses in zip(steps(single, epoch), steps(sharded, epoch), strict=True):
            yield abs(losses[0] - losses[1])
            for one, other in zip(single.method.parameters(), sharded.method.parameters(), strict=True):
                if one.requires_grad:
                    assert one.grad is not None
                    assert other.grad is not None
                    yield float((one.grad - other.grad).abs().max()) / (1 + float(one.grad.abs().max()))
                other.data.copy_(one.data)  # so that rounding errors do not accumulate


def steps(trainer: Trainer, epoch: int) -> Iterator[float]:
    """Run the steps of an epoch, and yield their losses."""
    assert trainer.optimizer is not None
    for batch in trainer.method.batches(epoch):
        yield trainer._step(trainer.optimizer, batch, epoch, progress=0.0)


def check_gather(workers: Workers) -> None:
    """Shards of two and three rows are gathered, and the gradient goes back to the process that has the row."""
    rows = torch.full((2 + workers.rank, 3), float(workers.rank), requires_grad=True)
    gathered = workers.gather(rows, 5)
    (gathered * torch.arange(5.0)[:, None]).sum().backward()
    assert gathered[:, 0].tolist() == [0, 0, 1, 1, 1]
    assert rows.grad is not None
    assert rows.grad[:, 0].tolist() == ([0, 2] if workers.is_main else [4, 6, 8])
    assert workers.broadcast(lambda: workers.rank) == 0


def run_and_die_once(killed: Path, undisturbed: Path) -> None:
    """Run in the first folder, and kill the main process in an epoch; torchrun restarts both, and each run ends."""

    epochs: list[int] = []

    def log_and_die(record: Record) -> None:
        epochs.append(record.epoch)
        if record.epoch == KILLED and restart_count() == 0:
            print(f"killed after epoch {KILLED}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    changes = {"train.epochs": EPOCHS, "train.checkpoint_every": 2, "miner.start_epoch": 5, "probe.splits": 2}
    options = {"data.nodes": 150, **BATCHES, **changes}
    fit(load_config("csbm", options), out=killed, on_epoch=log_and_die)
    if epochs and epochs[0] == KILLED:  # the checkpoint is that of the epoch before
        print("resumed", flush=True)
    cli.main(["train", "csbm", *(f"--{key}={value}" for key, value in options.items()), "--out", str(undisturbed)])


def main() -> None:
    """`losses`, or `restart` and two folders."""
    warnings.simplefilter("ignore", ProgclWarning)
    torch.set_num_threads(1)
    workers = connect()
    if sys.argv[1] == "losses":
        compare_losses(workers)
    else:
        run_and_die_once(Path(sys.argv[2]), Path(sys.argv[3]))
    dist.barrier()
    # Destroying DistributedDataParallel after the process group may deadlock.
    os._exit(0)


if __name__ == "__main__":
    main()
