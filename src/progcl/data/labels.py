"""Labels of a graph: whether there are any, what they are called, and whether they suffice to score with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.splits import Labels
from progcl.errors import InputError


def oracle_classes(data: Data) -> Tensor:
    """The labels, for an estimator that was asked for by name to use them: for analysis, never for a result."""
    if data.get("y") is None:
        raise InputError("`oracle` needs labels, and the graph has none", "choose another --miner.estimator")
    labels: Tensor = data.y
    return labels


def names_of_classes(data: Data) -> list[str] | None:
    """What every node's class is called, for pictures; None without labels."""
    if data.get("y") is None:
        return None
    names = data.get("classes")
    return [names[number] if names else str(number) for number in data.y.tolist()]


OTHERS = 100  # nodes outside the largest class, so that a tenth of the nodes is sure to have some


def require_labels(data: Data) -> None:
    """Raise `InputError` where there is nothing to probe with."""
    if data.get("y") is None:
        raise InputError("the data has no labels to probe with", "set --probe.protocol none")


def too_few(data: Data) -> str | None:
    """Why a graph's labels cannot be relied on to make splits; empty if they can, None if there are no labels."""
    if data.get("y") is None:
        return None
    others, classes = len(data.y) - int(torch.bincount(data.y).max()), len(data.y.unique())
    if 10 * classes > len(data.y):
        return f"{classes} classes of {len(data.y)} nodes: too many to score the embedding"
    return f"{others} nodes outside the largest class: too few to score the embedding" if others < OTHERS else ""


def labels_of(data: Data) -> Labels:
    """The classes of all nodes, [N]."""
    labels: Labels = data.y.cpu().numpy()
    return labels
