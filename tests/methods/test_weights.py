"""Weights of edges in every method: equal ones change no bit, nor does a common factor; others change the result."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl import InputError, fit
from progcl.config.methods import METHODS
from progcl.data.synthetic import csbm
from progcl.methods.neighbors import weighted_rates
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=90, degree=12, homophily=0.95, signal=3)
TINY: dict[str, Any] = {"miner__name": "none", "encoder__hidden": 8, "train__epochs": 3, "probe__protocol": "none"}
BATCHES = {"batch__size": 30, "batch__fanouts": [4, 3]}
CASES: dict[str, dict[str, Any]] = {
    **{name: {"method__name": name} for name, entry in METHODS.items() if "weights" in entry.options.supports},
    **{f"{name} in batches": {"method__name": name, **BATCHES} for name in ("grace", "neighbors", "sage")},
    "mean of sampled neighbors": {"method__name": "grace", "encoder__name": "sage", **BATCHES},
    "sampled without replacement": {"method__name": "grace", **BATCHES, "batch__replace": False},
    "inductive": {"method__name": "grace", "data__inductive": True},
    "sage encoder": {"method__name": "bgrl", "encoder__name": "sage"},
    "hop table": {"method__name": "grace", "encoder__name": "hops", "method__walk": 2, "method__drop_edges": [0, 0]},
    "slow nodes": {"method__name": "dgi", "method__half_hop": 0.7},
    "anchors": {"method__name": "neighbors", "train__anchors": 40},
    "all blocks": {
        **{"method__name": "neighbors", "method__holdout": 0.2, "encoder__name": "svd", "encoder__hops": [0]},
        **{"output__smooth": [0, 1], "output__features": True, "output__structure": 8, "output__blocks": "auto"},
    },
    **{f"gca by {name}": {"method__name": "gca", "method__centrality": name} for name in ("pagerank", "eigenvector")},
    **{name: {"method__name": name, "method__walk_length": 8} for name in ("deepwalk", "deepwalk-features")},
    "deepwalk in batches": {"method__name": "deepwalk", "method__walk_length": 8, **BATCHES},
    "node2vec": {"method__name": "node2vec", "method__p": 0.5, "method__q": 2.0, "method__walk_length": 8},
}
READ_NO_EDGES = {"raw", "mlp"}
REFUSED = [name for name in METHODS if "weights" not in METHODS[name].options.supports and name != "simclr"]


def with_weights(weight: Tensor) -> Data:
    data = copy.copy(DATA)
    data.edge_weight = weight
    return data


def symmetric_weights() -> Tensor:
    """Between 0 and 2, the same for both directions."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(90, 90, generator=generator)
    source, target = DATA.edge_index
    return (numbers + numbers.T)[source, target]


def embed(case: str, data: Data) -> Tensor:
    trainer = Trainer(small(**{**TINY, **CASES[case]}), data)
    list(trainer.run(3))
    return trainer.embed()


@pytest.mark.parametrize("case", CASES)
def test_weights_are_used_and_neither_ones_nor_their_scale_change_a_bit(case: str) -> None:
    weight = symmetric_weights()
    plain, weighted = embed(case, DATA), embed(case, with_weights(weight))
    assert torch.equal(embed(case, with_weights(torch.ones_like(weight))), plain)
    assert torch.equal(embed(case, with_weights(4 * weight)), weighted)  # a power of two: no rounding
    assert torch.equal(weighted, plain) == (case in READ_NO_EDGES)


@pytest.mark.parametrize("name", REFUSED)
def test_methods_that_cannot_use_weights_say_so(name: str) -> None:
    config = small(**TINY, method__name=name)
    with pytest.raises(InputError, match=f"method `{name}` takes all edges alike.*\n\nhint: --data.weight none"):
        Trainer(config, with_weights(symmetric_weights()))
    assert fit(config, data=with_weights(torch.full((DATA.num_edges,), 3.0))).embeddings is not None  # all alike


def test_positives_are_kept_in_proportion_to_their_weight() -> None:
    pairs, edges = torch.tensor([1, 4, 5, 9]), torch.tensor([4, 9, 1])
    rates = weighted_rates(pairs, edges, torch.tensor([0.5, 3.0, 1.0]), rate=0.4)
    assert rates.tolist() == pytest.approx([0.4, 1 - 0.6 * 0.5, 0.4, 0.0])
    kept = weighted_rates(torch.arange(3), torch.arange(3), torch.tensor([0.25, 0.5, 1.0]), rate=0.2)
    assert (1 - kept).tolist() == pytest.approx([0.2, 0.4, 0.8])
