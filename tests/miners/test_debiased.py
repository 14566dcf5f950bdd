"""DCL and HCL against loops written from their formulas, and in their limits."""

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.miners.debiased import DCL, HCL
from support.naive import debiased, infonce, unit_views

N = 11


def views() -> tuple[Tensor, Tensor]:
    return unit_views(N, 5, seed=0)


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("class_prior", [0.0, 0.1, 0.6])
def test_dcl_is_its_formula(tau: float, class_prior: float) -> None:
    value = InfoNCE(tau, DCL(class_prior))(*views()).item()
    assert value == pytest.approx(debiased(*views(), tau, class_prior, 0), rel=1e-10)


def test_dcl_keeps_its_lower_bound() -> None:
    """With nine of ten negatives expected to be false, each counts e^(-1/τ), the least that it can."""
    h1, h2 = views()
    tau, n = 0.5, 2 * (N - 1)
    positive = (h1 * h2).sum(dim=1).detach() / tau
    expected = torch.log1p(n * torch.exp(-1 / tau - positive)).mean().item()
    assert InfoNCE(tau, DCL(0.9))(h1, h2).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("concentration", [0.0, 0.5, 2.0])
def test_hcl_is_its_formula(tau: float, concentration: float) -> None:
    value = InfoNCE(tau, HCL(0.1, concentration))(*views()).item()
    assert value == pytest.approx(debiased(*views(), tau, 0.1, concentration), rel=1e-10)


@pytest.mark.parametrize("miner", [DCL(0), HCL(0, 0)], ids=["dcl", "hcl"])
def test_limits_are_infonce(miner: Miner) -> None:
    assert InfoNCE(0.4, miner)(*views()).item() == pytest.approx(infonce(*views(), 0.4), rel=1e-12)


def test_hcl_without_concentration_is_dcl() -> None:
    one, other = (InfoNCE(0.4, miner)(*views()).item() for miner in (HCL(0.2, 0), DCL(0.2)))
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("miner", [DCL(0.1), HCL(0.1, 1.5)], ids=["dcl", "hcl"])
def test_gradcheck(miner: Miner) -> None:
    assert torch.autograd.gradcheck(InfoNCE(0.4, miner, block_size=4), unit_views(6, 4, seed=0))


@pytest.mark.parametrize("miner", [Miner(), DCL(), HCL()], ids=["none", "dcl", "hcl"])
@pytest.mark.parametrize("tau", [0.05, 0.1])
def test_small_losses_keep_their_digits_without_closed_form(miner: Miner, tau: float) -> None:
    h1, h2 = (h.detach() for h in views())
    exact = InfoNCE(tau, miner, fast=False)(h1, h2).item()
    assert InfoNCE(tau, miner, fast=False)(h1.float(), h2.float()).item() == pytest.approx(exact, rel=1e-4)


def test_options_out_of_range() -> None:
    with pytest.raises(InputError, match="class_prior"):
        DCL(1)
    with pytest.raises(InputError, match="concentration"):
        HCL(0.1, -1)
