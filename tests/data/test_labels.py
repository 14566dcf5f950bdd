"""Labels that suffice for scoring, and those that do not."""

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.labels import (
    NO_LABEL,
    node_class_names,
    oracle_classes,
    reason_not_to_score,
    require_labels,
    require_training_labels,
)

TWO = torch.arange(400) % 2


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (None, None),
        (TWO, ""),
        (torch.full((400,), -1), "no node has a label"),
        (torch.arange(400) % 50, "50 classes of 400 nodes: too many"),
        ((torch.arange(400) < 99).long(), "99 nodes outside the largest class: too few"),
        ((torch.arange(400) < 100).long(), ""),
        (torch.where(torch.arange(400) < 250, TWO, -1), ""),
    ],
)
def test_reasons_not_to_score(labels: torch.Tensor | None, reason: str | None) -> None:
    found = reason_not_to_score(Data(num_nodes=400) if labels is None else Data(y=labels))
    assert found == reason if not reason else found is not None and reason in found


def test_what_needs_labels_refuses_a_graph_without() -> None:
    bare = Data(num_nodes=3)
    for require in (require_labels, require_training_labels, oracle_classes):
        with pytest.raises(InputError, match="labels"):
            require(bare)
    with pytest.raises(InputError, match="no labels to probe with"):
        require_labels(Data(y=torch.tensor([-1, -1])))
    assert node_class_names(bare) is None
    assert oracle_classes(Data(y=TWO)) is TWO


def test_names_of_classes() -> None:
    assert node_class_names(Data(y=torch.tensor([1, -1, 0]))) == ["1", NO_LABEL, "0"]
    assert node_class_names(Data(y=torch.tensor([1, -1, 0]), classes=["a", "b"])) == ["b", NO_LABEL, "a"]
