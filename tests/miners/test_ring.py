"""Ring against a loop written from its definition, on both paths, and with equal similarities."""

from typing import Any

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError
from progcl.miners.ring import Ring
from support.naive import clusters, infonce, ring, unit, unit_views


def views() -> tuple[Tensor, Tensor]:
    return unit_views(11, 5, seed=0)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.1, 0.9), (0.0, 0.5), (0.45, 0.55), (0.3, 1.0)])
@pytest.mark.parametrize("fast", [True, False])
def test_ring_is_its_definition(low: float, high: float, fast: bool) -> None:
    value = InfoNCE(0.4, Ring(low, high), fast=fast)(*views()).item()
    assert value == pytest.approx(ring(*views(), 0.4, low, high), rel=1e-10)


def test_the_full_ring_is_infonce() -> None:
    assert InfoNCE(0.4, Ring(0, 1))(*views()).item() == pytest.approx(infonce(*views(), 0.4), rel=1e-12)


@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(fast: bool) -> None:
    criterion = InfoNCE(0.4, Ring(0.2, 0.8), block_size=4, fast=fast)
    assert torch.autograd.gradcheck(criterion, unit_views(6, 4, seed=0))


@pytest.mark.parametrize(
    ("n", "tile", "memory", "dtype"),
    [
        (2, 1, 0, torch.float64),
        (5, 2, 0.05, torch.float64),
        (57, 16, 0, torch.float64),
        (57, 16, 0.05, torch.float32),
        (57, 16, 1000, torch.float64),
        (57, 100, 0, torch.float32),
        (57, 100, 1000, torch.float64),
    ],
)
def test_both_paths_agree(n: int, tile: int, memory: float, dtype: torch.dtype) -> None:
    results = []
    for fast in (True, False):
        criterion = InfoNCE(0.4, Ring(0.15, 0.8), memory=memory, fast=fast)
        criterion.workspace.tile = tile
        h1, h2 = (clusters(n, 8, seed, noise=0.4).to(dtype).requires_grad_() for seed in (1, 2))
        value = criterion(h1, h2)
        results.append([value.detach(), *torch.autograd.grad(value, (h1, h2))])
        assert (criterion.plan() is not None) == fast
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    for ours, theirs in zip(*results, strict=True):
        assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def test_the_ring_narrows() -> None:
    miner = Ring(0.2, 0.6, anneal=10)
    quantiles = []
    for epoch in (0, 5, 10, 50):
        miner.set_epoch(epoch)
        quantiles.append(miner.quantiles)
    assert quantiles == [(0, 0.5), (0.1, pytest.approx(0.55)), (0.2, 0.6), (0.2, 0.6)]


@pytest.mark.parametrize("negatives", [100, 1000, 2048])
@pytest.mark.parametrize("epoch", [0, 1, 37, 100, 500])
def test_the_default_is_the_ring_of_the_original(negatives: int, epoch: int) -> None:
    """Outer radius from all negatives to the most similar tenth; of these, the most similar tenth is left out."""
    miner = Ring()
    miner.set_epoch(epoch)
    outer = (1 - 0.9 * min(1, epoch / 100)) * negatives
    low, high = miner.quantiles
    assert (1 - low) * negatives == pytest.approx(outer)
    assert (1 - high) * negatives == pytest.approx(0.1 * outer)


def test_the_middle_leaves_out_both_ends_at_once() -> None:
    assert Ring(keep="middle").quantiles == (0.1, 0.9)
    assert Ring(keep="middle", high=0.8).quantiles == (0.1, 0.8)
    assert Ring(low=0.1, high=0.9).quantiles == (0.1, 0.9)  # no annealing where a width is given
    assert Ring(low=0.5).quantiles == (0.5, 0.99)
    assert Ring(low=0.5, anneal=10).quantiles[0] == 0


@pytest.mark.parametrize("tile", [1, 16, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_similarities_are_kept_alike_on_both_paths(tile: int, dtype: torch.dtype) -> None:
    h = unit(5, 6, seed=3)[torch.arange(60) % 5].to(dtype)
    fast, generic = (InfoNCE(0.4, Ring(0.2, 0.7), block_size=tile, fast=fast)(h, h).item() for fast in (True, False))
    assert fast == pytest.approx(generic, rel=1e-5)
    assert fast == pytest.approx(InfoNCE(0.4, Ring(0.2, 0.7))(h, h).item(), rel=1e-5)


def test_the_narrowest_ring_keeps_the_least_similar_negative() -> None:
    h1, h2 = (h.detach() for h in views())
    losses = []
    for own, other in ((h1, h2), (h2, h1)):
        negatives = torch.stack([own @ other.T, own @ own.T]).masked_fill(torch.eye(11, dtype=torch.bool), torch.inf)
        least = negatives.amin(dim=(0, 2))
        losses.append(torch.nn.functional.softplus((least - (own * other).sum(dim=1)) / 0.4))
    assert InfoNCE(0.4, Ring(0, 1e-12))(h1, h2).item() == pytest.approx(torch.cat(losses).mean().item(), rel=1e-10)


def test_a_loop_without_set_epoch_is_warned() -> None:
    criterion = InfoNCE(0.4, Ring(anneal=2))
    for _ in range(2):
        criterion(*views())
    with pytest.warns(UserWarning, match="set_epoch"):
        criterion(*views())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": -0.1}, "low"),
        ({"high": 1.1}, "high"),
        ({"low": 0.5, "high": 0.5}, "below"),
        ({"high": 0.5}, "below"),
        ({"anneal": -1}, "anneal"),
        ({"keep": "outer"}, "known: hard, middle"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ring(**options)
