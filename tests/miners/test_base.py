"""What miners tell logs, reports and users about themselves."""

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, Miner, ProGCLMix, ProGCLWeight
from progcl.errors import ProgclWarning
from progcl.miners.base import Plan
from progcl.miners.debiased import DCL
from progcl.miners.mochi import MoCHi
from progcl.miners.ring import Ring
from progcl.posteriors.baselines import Oracle
from progcl.posteriors.beta import BetaMixture
from progcl.testing import toy_views

N = 30


def fit_whole_graph(miner: Miner) -> Miner:
    criterion = InfoNCE(0.4, miner)
    criterion.set_epoch(1)
    criterion(*toy_views(N, 6, seed=0))
    return miner


def fit_batches(miner: Miner, batches: tuple[Tensor, ...], epochs: int) -> Miner:
    criterion = InfoNCE(0.4, miner)
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        h1, h2 = toy_views(N, 6, seed=epoch)
        for nodes in batches:
            criterion(h1[nodes], h2[nodes], nodes=nodes)
    return miner


@pytest.mark.parametrize("kind", [ProGCLWeight, ProGCLMix])
def test_facts_are_the_fitted_mixture(kind: type[ProGCLWeight | ProGCLMix]) -> None:
    miner = kind(start_epoch=1)
    assert miner.facts() == {}
    fit_whole_graph(miner)
    mixture = miner.estimator
    assert isinstance(mixture, BetaMixture)
    assert miner.facts() == {
        "mixture": {
            "alpha": mixture.alpha_.tolist(),
            "beta": mixture.beta_.tolist(),
            "weight": mixture.weight_.tolist(),
            "gain": mixture.gain_,
            "unimodal": False,
            "degenerate": False,
            "range": miner.bounds.tolist(),
        }
    }


def test_facts_of_one_mixture_for_all_batches() -> None:
    batches = torch.arange(N).tensor_split(2)
    assert fit_batches(ProGCLWeight(start_epoch=1), batches, 1).facts() == {}  # still collecting
    facts = fit_batches(ProGCLWeight(start_epoch=1), batches, 2).facts()["mixture"]
    assert set(facts) == {"alpha", "beta", "weight", "gain", "unimodal", "degenerate", "range"}


def test_facts_of_a_mixture_per_batch_are_counts() -> None:
    batches = (torch.arange(14), torch.arange(14, 28), torch.arange(28, N))  # two nodes are too few for a mixture
    with pytest.warns(ProgclWarning, match="no mixture") as caught:
        miner = fit_batches(ProGCLWeight(start_epoch=1, per_batch=True, require_two_modes=True), batches, 1)
    facts = miner.facts()["mixture"]
    assert facts["batches"] == 3
    assert facts["degenerate batches"] == len(caught) < 3
    assert facts["degenerate"] is False
    assert -1 <= facts["range"][0] < facts["range"][1] <= 1


@pytest.mark.parametrize("miner", [Miner(), DCL(), Ring(), MoCHi()])
def test_other_miners_have_no_facts_and_no_remarks(miner: Miner) -> None:
    assert fit_whole_graph(miner).facts() == {}
    assert miner.remarks(epochs=1, batched=True) == []


@pytest.mark.parametrize("miner", [ProGCLWeight(start_epoch=5), ProGCLMix(start_epoch=5), MoCHi(start_epoch=5)])
def test_a_start_after_the_last_epoch_is_remarked(miner: Miner) -> None:
    assert miner.remarks(epochs=5, batched=False) == []
    assert miner.remarks(epochs=4, batched=False) == ["no mining: miner.start_epoch is 5, the last epoch 4"]


def test_collecting_in_batches_starts_an_epoch_later() -> None:
    collects = ["no mining: miner.start_epoch is 5 and collects until the next, the last epoch 5"]
    assert ProGCLWeight(start_epoch=5).remarks(epochs=5, batched=True) == collects
    assert ProGCLWeight(start_epoch=5).remarks(epochs=6, batched=True) == []
    assert ProGCLWeight(start_epoch=5, per_batch=True).remarks(epochs=5, batched=True) == []


def test_labels_are_remarked() -> None:
    miner = ProGCLMix(start_epoch=5, estimator=Oracle(torch.arange(N) % 3))
    labels, late = miner.remarks(epochs=4, batched=False)
    assert "labels" in labels
    assert "no mining" in late


def test_mines_is_whether_the_loss_differs_from_infonce_now() -> None:
    assert not Miner().mines
    assert DCL().mines
    assert Ring().mines
    for miner in (ProGCLWeight(start_epoch=1), MoCHi(start_epoch=1)):
        miner.set_epoch(0)
        assert not miner.mines
        assert fit_whole_graph(miner).mines


def test_bytes_for_mixing_are_those_of_its_tensors() -> None:
    """6 candidates and 9 pairs for each of 40 anchors: lists of both views, numbers, and addresses of both views."""
    columns, like = torch.zeros(6, 40, dtype=torch.int32), torch.zeros(40, 5, dtype=torch.float64)
    plan = Plan(candidates=(columns, columns), pairs=torch.zeros(2, 9, dtype=torch.long))
    per_anchor = 8 * (5 * 6 + 2 * 9) + 2 * 4 * (6 + 9)
    assert plan.mixing_bytes(like) == 2 * 4 * 6 * 40 + 40 * per_anchor
    assert Plan().mixing_bytes(like) == 0
