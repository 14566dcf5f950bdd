"""Samples of similarities, to which mixtures are fitted."""

import pytest
import torch

from progcl.miners.similarities import sample_similarities, sample_similarities_only
from progcl.testing import toy_views
from support.naive import cosines

N = 90


def test_a_sample_has_similarities_of_other_nodes_and_no_more_than_the_fit_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("progcl.miners.similarities.MAX_SAMPLE", 4 * N)
    own, other = (torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(N, 6, seed=2))
    sample, low, high = sample_similarities_only(own, other, 100, torch.Generator().manual_seed(0))
    assert sample.shape == (N, 4)
    assert (low, high) == (sample.min().item(), sample.max().item())
    distance = (torch.tensor(cosines(own, other), dtype=torch.float64)[:, None] - sample[:, :, None]).abs()  # [N, 4, N]
    assert (distance.min(dim=2).values < 1e-9).all()
    assert (distance.diagonal(dim1=0, dim2=2) > 1e-12).all()


def test_a_sample_of_few_nodes_has_the_range_of_all_negatives_and_never_the_positive() -> None:
    own, other = (torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(N, 6, seed=3))
    sample, low, high = sample_similarities(own, other, 50, torch.Generator().manual_seed(0))
    every = torch.tensor(cosines(own, other), dtype=torch.float64)
    negatives = every[~torch.eye(N, dtype=torch.bool)].view(N, N - 1)
    distance = (negatives[:, None] - sample[:, :, None]).abs()  # [N, 50, N - 1]
    assert (distance.min(dim=2).values < 1e-9).all()
    assert ((every.diagonal()[:, None] - sample).abs() > 1e-12).all()
    assert (low, high) == pytest.approx((negatives.min().item(), negatives.max().item()))
    assert len(distance.argmin(dim=2).unique()) == N - 1  # any of them may be drawn
