"""Sections that do not go together are refused before anything is loaded."""

from typing import Any

import pytest

from progcl import InputError, load_config

HOPS = {"encoder.name": "hops", "method.drop_edges": [0.0, 0.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch.size": 40, "train.anchors": 20, "batch.fanouts": [2, 2]}, "as a whole"),
        ({"batch.size": 40, "batch.fanouts": [1, 2, 3]}, "3 `batch.fanouts` for 2 `encoder.layers`"),
        ({"batch.size": 40, "batch.variant": "paper", "batch.steps": 2}, "leave out nodes"),
        ({"batch.size": 40, "batch.fanouts": "many"}, r"as in \"\[10, 10, 25\]\""),
        ({"batch.size": 1, "batch.fanouts": [2, 2]}, "batch.size"),
        ({"batch.size": 40, "batch.fanouts": [2, 0]}, "batch.fanouts"),
        ({"data.inductive": True}, "held-out nodes"),
        ({"data.directed": True}, "nothing in this run reads the direction of edges"),
        ({**HOPS, "method.drop_edges": [0.1, 0.0]}, "before training: no edges can be dropped"),
        ({"method.walk": 2}, "`method.walk` needs encoder `hops`"),
        ({**HOPS, "method.walk": -1}, "`method.walk` needs to be at least 0"),
        ({"train.patience": 0}, "`train.patience` needs to be at least 1"),
    ],
)
def test_sections_that_do_not_go_together_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config("csbm", changes)


def test_the_same_sections_without_the_mistake_are_accepted() -> None:
    config = load_config("csbm", {**HOPS, "method.walk": 2, "batch.size": 40, "train.patience": 1})
    assert (config.view_walk, config.samples_neighbors) == (2, False)
    assert load_config("csbm", {"batch.size": 40, "encoder.layers": 3}).fanouts == [10, 10, 25]
