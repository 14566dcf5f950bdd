"""Times the loss against dense autograd and its own matrix products; time and memory by the number of nodes."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from progcl.bench.dense import DenseInfoNCE
from progcl.bench.measure import align_columns, measure_peak, time_by_turns, write_result
from progcl.errors import InputError
from progcl.losses.infonce import InfoNCE
from progcl.losses.tiles import TILE_SIDE
from progcl.miners import MINERS, PROPOSED
from progcl.miners.base import Miner
from progcl.miners.frozen import FrozenPosterior
from progcl.progress import bar
from progcl.report.plots import BLUE, GRAY, ORANGE, save_svg
from progcl.training.files import write_atomically

TAU = 0.3
CLASSES = 8
COLORS = {"none": GRAY, "progcl-weight": BLUE, "progcl-mix": ORANGE}


@dataclass(frozen=True)
class LossBench:
    """What to measure.

    Args:
        nodes: number of nodes at which the sides are compared
        width: dimensions of the vectors
        repeats: timed rounds; the median is reported
        sizes: numbers of nodes at which time and memory are measured, with the smallest workspace
        dense_up_to: largest of the sizes at which dense autograd is measured, too
    """

    nodes: int = 7650
    width: int = 128
    repeats: int = 5
    sizes: tuple[int, ...] = (2048, 4096, 8192, 16384, 34493)
    dense_up_to: int = 8192

    def run(self, out: Path) -> str:
        """Measure, write loss.json and loss.svg, and return the tables."""
        dense_sizes = [size for size in self.sizes if size <= self.dense_up_to]
        steps = len(PROPOSED) * (3 * (self.repeats + 1) + len(self.sizes) + len(dense_sizes))
        with bar(True, total=steps, desc="bench loss", unit="run") as progress:
            compared = {name: self._compare(name, progress) for name in PROPOSED}
            growth = [
                self._measure_alone(name, size, side, progress)
                for side, sizes in (("progcl", self.sizes), ("dense", dense_sizes))
                for size in sizes
                for name in PROPOSED
            ]
        exponents = {name: self._exponents(name, growth) for name in PROPOSED}
        results = {"compared": compared, "growth": growth, "exponents": exponents}
        path = write_result(out, "loss", {**vars(self), "tau": TAU, "memory of growth": 0}, results)
        write_atomically(out / "loss.svg", lambda temporary: draw_growth(growth, temporary))
        return f"{self._format_tables(compared, growth, exponents)}\n\nwritten: {path} and loss.svg"

    def _compare(self, name: str, progress: Any) -> dict[str, float]:
        views = make_views(self.nodes, self.width)
        loss = make_fitted_loss(name, views)
        dense = DenseInfoNCE(TAU, loss.miner if isinstance(loss.miner, FrozenPosterior) else None)
        sides: dict[str, Callable[[], object]] = {
            "progcl": lambda: run_step(loss, views),
            "dense autograd": lambda: run_step(dense, views),
            "matrix products": Products(self.nodes, self.width),
        }
        progress.set_description(f"bench loss, {name}")
        seconds = time_by_turns(sides, self.repeats, progress)
        speedup = seconds["dense autograd"] / seconds["progcl"]
        return {**seconds, "speed-up": speedup, "over products": seconds["progcl"] / seconds["matrix products"]}

    def _measure_alone(self, name: str, nodes: int, side: str, progress: Any) -> dict[str, Any]:
        """Seconds and peak memory in a fresh process."""
        progress.set_description(f"bench loss, {nodes} nodes")
        progress.set_postfix_str(f"{side} {name}")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            measured = pool.submit(measure_alone, name, nodes, self.width, side == "dense").result()
        progress.update()
        return {"miner": name, "nodes": nodes, "side": side, **measured}

    def _exponents(self, name: str, growth: list[dict[str, Any]]) -> dict[str, float | None]:
        """Exponents of time and memory in the number of nodes: slopes of the logarithms."""
        rows = [row for row in growth if row["miner"] == name and row["side"] == "progcl"]
        if len(rows) < 2 or any(not row["peak_mb"] for row in rows):
            return {"seconds": None, "peak_mb": None}
        logs = np.log([[row["nodes"], row["seconds"], row["peak_mb"]] for row in rows]).T
        return {key: round(float(np.polyfit(logs[0], logs[k], 1)[0]), 2) for k, key in ((1, "seconds"), (2, "peak_mb"))}

    def _format_tables(self, compared: Any, growth: list[dict[str, Any]], exponents: Any) -> str:
        head = [
            f"N = {self.nodes}, d = {self.width}",
            "progcl",
            "dense autograd",
            "speed-up",
            "products",
            "over products",
        ]
        rows = [
            [
                name,
                f"{row['progcl']:.2f} s",
                f"{row['dense autograd']:.2f} s",
                f"{row['speed-up']:.1f}x",
                f"{row['matrix products']:.2f} s",
                f"{row['over products']:.2f}x",
            ]
            for name, row in compared.items()
        ]
        sizes = ["memory 0", *(str(size) for size in self.sizes), "exponent"]
        cells: list[list[str]] = []
        for side in ("progcl", "dense"):
            for name in PROPOSED:
                for key, unit in (("seconds", "s"), ("peak_mb", "MB")):
                    value_at = {row["nodes"]: row[key] for row in growth if (row["miner"], row["side"]) == (name, side)}
                    values = [_format_cell(value_at.get(size), unit) for size in self.sizes]
                    last = exponents[name][key] if side == "progcl" else None
                    cells.append([f"{side} {name}", *values, "" if last is None else f"{last:.2f}"])
        return align_columns(head, rows) + (f"\n\n{align_columns(sizes, cells)}" if self.sizes else "")


def _format_cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.{2 if unit == 's' else 0}f} {unit}"


class Products:
    """The matrix products that no exact loss can avoid: each similarity once, and two gradients from it."""

    def __init__(self, nodes: int, width: int) -> None:
        side = min(nodes, math.ceil(nodes / math.ceil(nodes / TILE_SIDE)))
        self.vectors, self.out = torch.rand(side, width), torch.empty(side, side)
        self.grad = torch.zeros(side, width)
        self.number = round(2 * nodes**2 / side**2)

    def __call__(self) -> None:
        """Run them."""
        for _ in range(self.number):
            torch.mm(self.vectors, self.vectors.T, out=self.out)
            self.grad.addmm_(self.out, self.vectors)
            self.grad.addmm_(self.out.T, self.vectors)


def make_views(nodes: int, width: int) -> tuple[Tensor, Tensor]:
    """Two noisy views of unit vectors around a few class centers, [nodes, width] each."""
    generator = torch.Generator().manual_seed(0)

    def noise() -> Tensor:
        return torch.randn(nodes, width, generator=generator) / math.sqrt(width)

    base = normalize(torch.eye(width)[torch.arange(nodes) % min(CLASSES, width)] + 0.6 * noise(), dim=1)
    return base + 0.5 * noise(), base + 0.5 * noise()


def make_fitted_loss(name: str, views: tuple[Tensor, Tensor], memory: float | None = None) -> InfoNCE:
    """A loss whose miner has passed epoch E."""
    make: Callable[..., Miner] = MINERS[name]
    loss = InfoNCE(TAU, make() if name == "none" else make(start_epoch=1, prior=0.15), memory=memory)
    loss.set_epoch(1)
    with torch.no_grad():
        loss(*views)
    if isinstance(loss.miner, FrozenPosterior) and not loss.miner.active:
        raise InputError(f"{len(views[0])} nodes are too few for a mixture", "give more --nodes or another --width")
    return loss


def run_step(loss: Callable[[Tensor, Tensor], Tensor], views: tuple[Tensor, Tensor]) -> None:
    """Compute the loss and its gradient."""
    h1, h2 = (view.detach().requires_grad_() for view in views)
    loss(h1, h2).backward()


def measure_alone(name: str, nodes: int, width: int, dense: bool) -> dict[str, float | None]:
    """Seconds of a step after E, and its peak memory above the inputs, in this process."""
    run_step(make_fitted_loss(name, make_views(64, width)), make_views(64, width))  # libraries allocate at first use
    views = make_views(nodes, width)
    seconds = []

    def run() -> None:
        loss = make_fitted_loss(name, views, memory=None if dense else 0)
        side = DenseInfoNCE(TAU, loss.miner if isinstance(loss.miner, FrozenPosterior) else None) if dense else loss
        if dense:
            loss.workspace.clear()  # the fit's buffers do not belong to the dense side
        for _ in range(2 if nodes < 10_000 else 1):
            start = time.perf_counter()
            run_step(side, views)
            seconds.append(time.perf_counter() - start)

    peak = measure_peak(run)
    return {"seconds": min(seconds), "peak_mb": peak}


def draw_growth(growth: list[dict[str, Any]], path: Path) -> None:
    """Plot time and memory by the number of nodes."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    for axes, (key, label) in zip(
        figure.subplots(1, 2),
        (("seconds", "seconds for loss and gradient, `memory` 0"), ("peak_mb", "peak MB above the inputs")),
        strict=True,
    ):
        for name, color in COLORS.items():
            for side, style in (("progcl", "o-"), ("dense", "s--")):
                rows = [row for row in growth if (row["miner"], row["side"]) == (name, side) and row[key] is not None]
                series = f"{'dense autograd' if side == 'dense' else 'progcl'}, {name}"
                axes.plot([row["nodes"] for row in rows], [row[key] for row in rows], style, color=color, label=series)
        if growth:
            sizes = sorted({row["nodes"] for row in growth})
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.minorticks_off()
        axes.set(xlabel="nodes", ylabel=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=8
    )
    save_svg(figure, path)
