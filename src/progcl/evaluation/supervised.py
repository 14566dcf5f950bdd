"""Accuracy of networks that were trained with labels, on the same splits as the linear probe's."""

from __future__ import annotations

import torch

from progcl.config.schema import ProbeConfig
from progcl.data.labels import labels_of
from progcl.data.splits import make_splits
from progcl.evaluation.scores import Score
from progcl.graph.loader import GraphInput
from progcl.methods import Method

PROTOCOL = "supervised"


@torch.no_grad()
def score_predictions(method: Method, graph: GraphInput, probe: ProbeConfig) -> Score:
    """Test accuracies of a method that was trained once for each split; nothing is fitted or chosen here.

    Args:
        method: its options say `needs_labels`
        graph: all nodes
        probe: which splits

    Raises:
        ValueError: if it does not predict one row for each split
    """
    labels, splits = labels_of(graph.data), make_splits(graph.data, probe.splits, probe.seed, probe.nodes)
    predicted = method.predict(graph).cpu().numpy()
    tests = [split.test for split in splits]
    accuracies = [100 * float((row[test] == labels[test]).mean()) for row, test in zip(predicted, tests, strict=True)]
    return Score(PROTOCOL, tuple(accuracies))
