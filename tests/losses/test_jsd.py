"""SIGNA's loss, and the same with a sigmoid, against a loop from their definition."""

import pytest
import torch

from progcl import InputError
from progcl.losses.jsd import NeighborJSD
from support.naive import naive_jsd, unit

N = 11
PAIRS = torch.tensor([[0, 0, 3, 3, 5, 9, 9, 9, 10], [1, 4, 0, 0, 5, 0, 1, 2, 7]])  # a repeated pair, a self pair


@pytest.mark.parametrize("tau", [None, 0.03, 0.25, 10.0])
@pytest.mark.parametrize("block_size", [None, 1, 4])
def test_the_loss_is_its_definition(block_size: int | None, tau: float | None) -> None:
    h = 3 * unit(N, 5, 0)
    assert NeighborJSD(tau, block_size)(h, PAIRS).item() == pytest.approx(naive_jsd(h, PAIRS, tau), rel=1e-9)


@pytest.mark.parametrize("tau", [None, 0.25])
def test_the_gradient_is_that_of_the_loss(tau: float | None) -> None:
    h = unit(N, 5, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: NeighborJSD(tau, 4)(rows, PAIRS), [h])


@pytest.mark.parametrize("tau", [None, 0.25])
def test_rows_without_negatives_and_without_positives(tau: float | None) -> None:
    everyone = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    h = unit(4, 3, 2).requires_grad_()
    for pairs in (everyone, everyone[:, :0]):
        loss = NeighborJSD(tau=tau)(h, pairs)
        (grad,) = torch.autograd.grad(loss, h)
        assert loss.isfinite()
        assert grad.isfinite().all()
    with pytest.raises(InputError, match="N ≥ 2"):
        NeighborJSD()(h[:1], everyone[:, :0])


@pytest.mark.parametrize("tau", [0.0, -1.0, 0.02, 11.0])
def test_a_temperature_out_of_range_is_refused(tau: float) -> None:
    with pytest.raises(InputError, match="tau"):
        NeighborJSD(tau)
