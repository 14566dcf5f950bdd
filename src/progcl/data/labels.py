"""Labels of a graph: their values, the names of classes, and whether they suffice for scoring."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from progcl.errors import InputError

Labels = NDArray[np.int64]

NO_LABEL = "no label"  # what a report calls the class of a node that has none

MIN_MINORITY_NODES = 100  # nodes outside the largest class, so that a tenth of the nodes is sure to have some


def oracle_classes(data: Data) -> Tensor:
    """Labels [N] for the `oracle` estimator, which uses them by definition: for analysis, never for a result."""
    if data.get("y") is None:
        raise InputError("`oracle` needs labels, and the graph has none", "choose another --miner.estimator")
    labels: Tensor = data.y
    return labels


def node_class_names(data: Data) -> list[str] | None:
    """Name of the class of every node [N], for the report, or `NO_LABEL`; None without labels."""
    if data.get("y") is None:
        return None
    names = data.get("classes")
    return [NO_LABEL if label < 0 else names[label] if names else str(label) for label in data.y.tolist()]


def require_labels(data: Data) -> None:
    """Raise `InputError` if there are no labels to probe with."""
    if data.get("y") is None or not bool((data.y >= 0).any()):
        raise InputError("the data has no labels to probe with", "set --probe.protocol none")


def require_training_labels(data: Data) -> None:
    """Raise `InputError` if there are no labels to train with."""
    if data.get("y") is None:
        raise InputError("the data has no labels to train with", "choose a method that needs none: `progcl ls methods`")


def reason_not_to_score(data: Data) -> str | None:
    """Why the labels do not suffice for splits; empty if they do, None if there are no labels."""
    if data.get("y") is None:
        return None
    known = data.y[data.y >= 0]
    if not len(known):
        return "no node has a label: the embedding is not scored"
    minority, classes = len(known) - int(torch.bincount(known).max()), len(known.unique())
    if 10 * classes > len(known):
        return f"{classes} classes of {len(known)} nodes: too many to score the embedding"
    if minority < MIN_MINORITY_NODES:
        return f"{minority} nodes outside the largest class: too few to score the embedding"
    return ""


def labels_of(data: Data) -> Labels:
    """Labels of all nodes [N] as a numpy array; negative ones are unknown."""
    labels: Labels = data.y.cpu().numpy()
    return labels


def count_classes(data: Data) -> int:
    """Number of classes; 0 without labels."""
    return 0 if data.get("y") is None else max(0, int(data.y.max()) + 1)
