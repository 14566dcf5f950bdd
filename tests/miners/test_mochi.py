"""MoCHi against a loop written from its definition, and in its limits."""

from typing import Any

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.miners.mochi import MoCHi
from support.naive import infonce, loss, mochi, unit_views

N = 11


def views() -> tuple[Tensor, Tensor]:
    return unit_views(N, 5, seed=0)


@pytest.mark.parametrize("count", [3, N - 1, 99])
def test_mochi_is_its_definition(count: int) -> None:
    miner = MoCHi(hardest=count, synthetic=9, with_anchor=4)
    value = InfoNCE(0.4, miner)(*views()).item()
    drawn = {name: getattr(miner, name).tolist() for name in ("shares", "partners", "anchor_shares")}
    assert min(drawn["anchor_shares"]) > 0
    assert max(drawn["anchor_shares"]) < 0.5
    h1, h2 = views()
    extras = [mochi(own, other, count, drawn, miner.pairs.tolist()) for own, other in ((h1, h2), (h2, h1))]
    expected = loss(h1, h2, 0.4, [[[1.0] * N] * N] * 2, extras)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("miner", [MoCHi(synthetic=0, with_anchor=0), MoCHi(start_epoch=5)], ids=["none", "warm-up"])
def test_limits_are_infonce(miner: Miner) -> None:
    assert InfoNCE(0.4, miner)(*views()).item() == pytest.approx(infonce(*views(), 0.4), rel=1e-12)


@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(fast: bool) -> None:
    def repeated(h1: Tensor, h2: Tensor) -> Tensor:
        miner = MoCHi(hardest=4, synthetic=6, with_anchor=3)  # a new one draws the same
        value: Tensor = InfoNCE(0.4, miner, block_size=4, fast=fast)(h1, h2)
        return value

    assert torch.autograd.gradcheck(repeated, unit_views(6, 4, seed=0))


def test_the_gradient_between_opposite_nodes_is_finite() -> None:
    h = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    criterion = InfoNCE(0.4, MoCHi(hardest=1, synthetic=50, with_anchor=50))
    for _ in range(50):  # mixed with the anchor, a node may be close to zero
        (grad,) = torch.autograd.grad(criterion(h, h), h)
        assert grad.isfinite().all()


def test_a_loop_without_set_epoch_is_warned() -> None:
    criterion = InfoNCE(0.4, MoCHi(start_epoch=2))
    for _ in range(2):
        criterion(*views())
    with pytest.warns(UserWarning, match="set_epoch"):
        criterion(*views())


@pytest.mark.parametrize("options", [{"hardest": 0}, {"with_anchor": -1}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        MoCHi(**options)
