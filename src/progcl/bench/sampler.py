"""Times neighbor sampling on a random graph of Reddit's size, on one thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from progcl.bench.measure import align_columns, time_by_turns, write_result
from progcl.graph.sampler import NeighborSampler
from progcl.progress import bar


@dataclass(frozen=True)
class SamplerBench:
    """What to measure.

    Args:
        nodes: number of nodes
        edges: number of undirected edges
        batch: seed nodes per batch
        batches: batches per round
        repeats: timed rounds; the median is reported
    """

    nodes: int = 232_965
    edges: int = 11_600_000
    batch: int = 256
    batches: int = 20
    repeats: int = 5

    def run(self, out: Path) -> str:
        """Measure, write sampler.json, and return the table."""
        generator = torch.Generator().manual_seed(0)
        pairs = torch.randint(self.nodes, (2, self.edges), generator=generator)
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
        samplers = {
            f"{'with' if replace else 'without'} replacement": NeighborSampler(edge_index, self.nodes, replace=replace)
            for replace in (True, False)
        }
        seeds = torch.randperm(self.nodes, generator=generator)[: self.batch * self.batches]

        def draw(sampler: NeighborSampler) -> None:
            for _ in sampler.batches(seeds, self.batch, generator):
                pass

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        sides = {name: partial(draw, sampler) for name, sampler in samplers.items()}
        with bar(True, total=2 * (self.repeats + 1), desc="bench sampler", unit="run") as progress:
            seconds = time_by_turns(sides, self.repeats, progress)
        torch.set_num_threads(threads)
        number = -(-len(seeds) // self.batch)
        speeds = {name: number / median for name, median in seconds.items()}
        fanouts = next(iter(samplers.values())).fanouts
        settings = {**vars(self), "fanouts": fanouts, "sampling threads": 1}
        path = write_result(out, "sampler", settings, {"batches per second": speeds})
        shape = f"{self.nodes} nodes, {2 * self.edges} edges, {'-'.join(map(str, fanouts))}, {self.batch} seeds"
        rows = [[name, f"{speed:.1f}"] for name, speed in speeds.items()]
        return f"{align_columns([shape, 'batches/s'], rows)}\n\nwritten: {path}"
