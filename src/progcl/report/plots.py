"""Matplotlib plots for the documentation: the weights that losses give to negatives; SVG files with equal bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from progcl.losses.infonce import InfoNCE
from progcl.miners.base import Block

Array = NDArray[np.float64]

BLUE, ORANGE, GRAY = "#3b6ea5", "#d9822b", "#555555"
ANCHORS = 400  # sampled, each against all nodes
BINS = 60
MIN_COUNT = 20  # bins with no more negatives than this have no mean weight
COLUMNS = 3


def draw_weights(losses: dict[str, InfoNCE], views: tuple[Tensor, Tensor], data: Data, path: Path) -> None:
    """Plot the mean weight of negatives by similarity for each loss, over the densities of true and false negatives.

    Plain InfoNCE gives weight 1. Labels serve the densities alone.

    Args:
        losses: by title; their miners are prepared for these views
        views: unit vectors of the two views, [N, d] each
        data: the graph, with labels
        path: SVG file to write
    """
    block, same_class = _sample_block(views, data)
    negative = block.masked(torch.ones_like(block.sim), 0).bool()
    s = block.sim[negative].numpy()
    edges = np.linspace(float(s.min()), float(s.max()), BINS + 1)
    rows = -(-len(losses) // COLUMNS)
    figure = Figure(figsize=(10, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, sharex=True, squeeze=False).flatten()
    for axes, (title, loss) in zip(panels, losses.items(), strict=False):
        weight = loss.effective_weights(replace(block, tau=loss.tau))[negative].numpy()
        labeled = axes is panels[0]  # one legend for all panels
        _draw_densities(axes, s, same_class[negative].numpy(), edges, labeled)
        _draw_mean_weight(axes, s, weight, edges, labeled)
        axes.set_title(title)
    for axes in panels[len(losses) :]:
        axes.set_axis_off()
    figure.supxlabel("cosine of anchor and negative")
    figure.supylabel("weight, InfoNCE = 1")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    save_svg(figure, path)


def save_svg(figure: Figure, path: Path) -> None:
    """Write a figure; equal content gives equal bytes."""
    with matplotlib.rc_context({"svg.hashsalt": "progcl"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _sample_block(views: tuple[Tensor, Tensor], data: Data) -> tuple[Block, Tensor]:
    """A block of random anchors, and whether anchor and candidate share a class, [b, 2, N]."""
    anchors = torch.randperm(len(views[0]), generator=torch.Generator().manual_seed(0))[:ANCHORS]
    sim = torch.stack([views[0][anchors] @ bank.T for bank in (views[1], views[0])], dim=1)
    same_class = ((data.y[anchors, None] == data.y) & (data.y >= 0))[:, None].expand_as(sim)
    pos = (views[0] * views[1]).sum(dim=1)[anchors]
    return Block(sim, pos, (views[1], views[0]), anchors, 0, tau=1), same_class


def _draw_densities(axes: Axes, s: Array, same_class: NDArray[np.bool_], edges: Array, labeled: bool) -> None:
    background = axes.twinx()
    for members, color, kind in ((~same_class, BLUE, "true"), (same_class, ORANGE, "false")):
        counts, _ = np.histogram(s[members], edges)
        label = f"density of {kind} negatives (by label)" if labeled else None
        background.stairs(counts / counts.sum(), edges, fill=True, color=color, alpha=0.25, label=label)
    background.set_axis_off()


def _draw_mean_weight(axes: Axes, s: Array, weight: Array, edges: Array, labeled: bool) -> None:
    counts, _ = np.histogram(s, edges)
    totals, _ = np.histogram(s, edges, weights=weight)
    centers = (edges[1:] + edges[:-1]) / 2
    populated = counts > MIN_COUNT
    mean = totals[populated] / counts[populated]
    axes.plot(centers[populated], mean, color="black", linewidth=1.5, label="weight" if labeled else None)
    axes.axhline(1, color=GRAY, linewidth=0.8, linestyle=":")
    axes.set_ylim(min(0, 1.1 * mean.min()), 1.1 * max(1, mean.max()))
    axes.spines["top"].set_visible(False)
