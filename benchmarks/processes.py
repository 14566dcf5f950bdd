"""The exact loss of a whole graph in two processes against one, with one thread each, by turns in one run.

    torchrun --nproc-per-node 2 benchmarks/processes.py [NODES]

By default 34,493 nodes, as Coauthor-Physics has, of 128 dimensions. Takes some minutes, and writes
results/bench/processes.json.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tqdm import tqdm

from progcl import InfoNCE, ProGCLWeight
from progcl.bench.measure import align_columns, write_result
from progcl.distributed import connect
from progcl.losses.tiles import Shard
from progcl.miners.base import Miner
from progcl.testing import toy_views

RESULTS = Path(__file__).parents[1] / "results" / "bench"
REPEATS, WIDTH = 2, 128


def main() -> None:
    """In each round, the first process computes alone while the other waits, then both compute a shard each."""
    torch.set_num_threads(1)
    workers = connect()
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 34_493
    views = toy_views(nodes, WIDTH, seed=0, dtype=torch.float32)
    results = {}
    with tqdm(total=2 * REPEATS, unit="round", disable=not workers.is_main) as progress:
        for name, miner in {"none": Miner(), "progcl-weight, after E": ProGCLWeight(start_epoch=1, samples=10)}.items():
            criterion = InfoNCE(0.4, miner)
            criterion.set_epoch(1)
            criterion.miner.prepare(*(torch.nn.functional.normalize(view.detach(), dim=1) for view in views))
            seconds: dict[int, list[float]] = {1: [], workers.size: []}
            for _ in range(REPEATS):
                for size, times in seconds.items():
                    sharded = size > 1
                    criterion.shard = Shard(workers.shard, workers.sum) if sharded else Shard()
                    dist.barrier()
                    start = time.perf_counter()
                    if sharded or workers.is_main:
                        torch.autograd.grad(criterion(*views), views)
                    dist.barrier()
                    times.append(time.perf_counter() - start)
                progress.update()
            alone, shared = (statistics.median(times) for times in seconds.values())
            results[name] = {"s alone": alone, "s shared": shared, "times as fast": alone / shared}
    if workers.is_main:
        settings = {"nodes": nodes, "width": WIDTH, "processes": workers.size, "threads each": 1, "repeats": REPEATS}
        write_result(RESULTS, "processes", settings, results)
        head = [f"{nodes} nodes, {workers.size} processes", *next(iter(results.values()))]
        print(
            align_columns(
                head, [[name, *(f"{value:.2f}" for value in facts.values())] for name, facts in results.items()]
            )
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
