"""Pictures of what a run has learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.data import Data

from progcl.losses.infonce import InfoNCE
from progcl.miners.base import Block
from progcl.report.mixture import MixturePlot

BLUE, ORANGE, GREY = "#3b6ea5", "#d9822b", "#555555"


def draw_mixture(curves: MixturePlot, path: Path) -> None:
    """Similarities of negatives at epoch E, the fitted mixture over them, and p(true | s)."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    colors = (GREY,) if len(curves.density) == 1 else (BLUE, ORANGE)
    for (name, density), color in zip(curves.density.items(), colors, strict=True):
        edges = np.linspace(0, 1, len(density) + 1)
        axes.stairs(density, edges, fill=True, color=color, alpha=0.35, label=name)
    for (name, density), color in zip(curves.fitted.items(), (BLUE, ORANGE), strict=False):
        axes.plot(curves.grid, density, color=color, linewidth=1.8, label=f"fitted: {name}")
    axes.set(xlabel=f"similarity at epoch {curves.start_epoch}, normalized", ylabel="density", xlim=(0, 1))
    if curves.probability is not None:
        right = axes.twinx()
        right.plot(curves.grid, curves.probability, color=GREY, linestyle="--", linewidth=1.2, label="p(true | s)")
        right.set(ylim=(0, 1.05), ylabel="p(true | s)")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    for side in figure.axes:
        side.spines["top"].set_visible(False)
    save_svg(figure, path)


def draw_weights(losses: dict[str, InfoNCE], views: tuple[Tensor, Tensor], data: Data, path: Path) -> None:
    """How much each loss pushes a negative away, against its similarity, over the densities of true and false ones.

    1 is what plain InfoNCE does. The miners are to be prepared for these views; labels are drawn, never used.
    """
    anchors = torch.randperm(len(views[0]), generator=torch.Generator().manual_seed(0))[:400]
    sim = torch.stack([views[0][anchors] @ bank.T for bank in (views[1], views[0])], dim=1)
    same_class = (data.y[anchors, None] == data.y)[:, None].expand_as(sim)
    pos = (views[0] * views[1]).sum(dim=1)[anchors]
    block = Block(sim, pos, (views[1], views[0]), anchors, 0, tau=1)
    negative = block.masked(torch.ones_like(sim), 0).bool()
    edges = np.linspace(float(sim[negative].min()), float(sim[negative].max()), 61)
    figure = Figure(figsize=(10, 2.6 * -(-len(losses) // 3)), layout="constrained")
    panels = figure.subplots(-(-len(losses) // 3), 3, sharex=True, squeeze=False).flatten()
    for axes, (name, loss) in zip(panels, losses.items(), strict=False):
        weight = loss.push(replace(block, tau=loss.tau))
        behind = axes.twinx()
        for members, color, kind in ((~same_class, BLUE, "true"), (same_class, ORANGE, "false")):
            number, _ = np.histogram(sim[negative & members], edges)
            text = f"density of {kind} negatives (by label)" if axes is panels[0] else None
            behind.stairs(number / number.sum(), edges, fill=True, color=color, alpha=0.25, label=text)
        behind.set_axis_off()
        number, _ = np.histogram(sim[negative], edges)
        total, _ = np.histogram(sim[negative], edges, weights=weight[negative])
        centers = (edges[1:] + edges[:-1]) / 2
        seen = number > 20
        mean = total[seen] / number[seen]
        axes.plot(centers[seen], mean, color="black", linewidth=1.5, label="weight" if axes is panels[0] else None)
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(title=name, ylim=(min(0, 1.1 * mean.min()), 1.1 * max(1, mean.max())))
        axes.spines["top"].set_visible(False)
    for axes in panels[len(losses) :]:
        axes.set_axis_off()
    figure.supxlabel("cosine of anchor and negative")
    figure.supylabel("weight, InfoNCE = 1")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    save_svg(figure, path)


def save_svg(figure: Figure, path: Path) -> None:
    """Write a picture, with the same bytes for the same content."""
    with matplotlib.rc_context({"svg.hashsalt": "progcl"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
