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
        ({"batch.size": 40, "encoder.dropout": 0.2}, "encoder `gcn` has no dropout in batches"),
        ({"method.name": "neighbors", "batch.size": 40, "batch.variant": "paper"}, "are never the same"),
        (
            {"data.inductive": True, "probe.nodes": "heldout", "output.structure": 16, "batch.size": 40},
            "walk vectors of unseen nodes are not known",
        ),
        ({"method.half_hop": 0.5, "encoder.name": "mlp"}, "encoder `mlp` passes no messages for slow nodes"),
        ({"method.half_hop": 0.5, "batch.size": 40}, "sampled neighbors have no slow nodes"),
        ({"output.blocks": "auto"}, "needs to be something beside the learned vectors"),
        ({"output.blocks": "auto", "output.features": True}, "`output.blocks` auto needs edges to judge by"),
        ({"method.name": "neighbors", "method.holdout": 0.1}, "would see the edges that `method.holdout` keeps"),
        ({"output.dim": 0}, "`output.dim` needs to be at least 1"),
        ({"output.clusters": 0}, "`output.clusters` needs to be at least 1"),
        ({"output.smooth": [1, 1]}, "`output.smooth` must rise"),
        ({"loss.block_size": 0}, "`loss.block_size` needs to be at least 1"),
        ({"loss.memory": -1}, "`loss.memory` needs to be at least 0"),
        ({"miner.name": "ring", "miner.low": 0.5, "miner.high": 0.5}, "needs to be below `high` .got 0.5 and 0.5."),
    ],
)
def test_sections_that_do_not_go_together_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config("csbm", changes)


def test_the_same_sections_without_the_mistake_are_accepted() -> None:
    config = load_config("csbm", {**HOPS, "method.walk": 2, "batch.size": 40, "train.patience": 1})
    assert (config.view_walk, config.samples_neighbors) == (2, False)
    assert load_config("csbm", {"batch.size": 40, "encoder.layers": 3}).fanouts == [10, 10, 25]
