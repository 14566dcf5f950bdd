"""Posteriors to compare a fitted one with: random, a function of the similarity, and the true classes."""

import numpy as np
import pytest
import torch
from scipy import stats

from progcl import InputError, ProGCLWeight
from progcl.posteriors.baselines import Oracle, Random, Tuned


def test_tuned_is_one_minus_s() -> None:
    s = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(Tuned().fit(s).predict_proba(s), torch.stack([1 - s, s], dim=1))


def test_random_is_uniform_and_belongs_to_the_pair() -> None:
    nodes = torch.arange(400)
    s = torch.zeros(400, 400, dtype=torch.float64)
    p = Random(seed=3).for_pairs(s, nodes[:, None], nodes)
    assert stats.kstest(p.flatten(), "uniform").pvalue > 0.01
    for shifted in (p.roll(1, 0), p.roll(1, 1), p.T):
        assert abs(np.corrcoef(p.flatten(), shifted.flatten())[0, 1]) < 0.01
    some = torch.tensor([5, 399, 0])
    assert torch.equal(Random(seed=3).for_pairs(s[:3, :2], some[:, None], some[:2]), p[some][:, some[:2]])
    assert not torch.equal(Random(seed=4).for_pairs(s, nodes[:, None], nodes), p)
    assert stats.kstest(Random().fit(s).predict_proba(s)[:, 0], "uniform").pvalue > 0.01


def test_the_oracle_knows_classes() -> None:
    oracle = Oracle(torch.tensor([0, 1, 0, -1, -1]))
    nodes = torch.arange(5)
    p = oracle.for_pairs(torch.zeros(5, 5), nodes[:, None], nodes)
    assert p.tolist()[0] == [0, 1, 0, 1, 1]
    assert p.tolist()[3] == [1, 1, 1, 1, 1]  # unknown is unlike any other, also unknown
    with pytest.raises(InputError, match="labels"):
        ProGCLWeight(estimator="oracle")
    with pytest.raises(InputError, match="nodes"):
        oracle.predict_proba(torch.zeros(2))
