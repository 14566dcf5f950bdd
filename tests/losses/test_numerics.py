"""Losses in every precision: float32 against float64 at all temperatures, half precision, and what is refused."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.losses.infonce import OneWay
from progcl.losses.jsd import NeighborJSD
from progcl.losses.numerics import row_loss
from progcl.miners import DCL, HCL, MoCHi, ProGCLMix, ProGCLWeight, Ring
from progcl.posteriors import Posterior
from support.naive import unit


class Falling(Posterior):
    """Not fitted: a mixture of float32 similarities is another one than that of float64."""

    def posterior(self, s: Tensor) -> Tensor:
        return 1 - s / 2


FROZEN: dict[str, Any] = {"start_epoch": 0, "estimator": Falling()}
MINERS: dict[str, Callable[[], Miner]] = {
    "none": Miner,
    "dcl": DCL,
    "hcl": HCL,
    "ring": partial(Ring, 0.2, 0.8),
    "mochi": partial(MoCHi, hardest=5, synthetic=6, with_anchor=3),
    "weight": partial(ProGCLWeight, **FROZEN),
    "released weight": partial(ProGCLWeight, **FROZEN, variant="released"),
    "mix": partial(ProGCLMix, **FROZEN, hardest=5, synthetic=6),
    "released mix": partial(ProGCLMix, **FROZEN, hardest=5, variant="released"),
}
PAIRS = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 3]])


def views(n: int, kind: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    first = unit(n, 4, seed=n)
    second = {"independent": unit(n, 4, seed=n + 100), "equal": first, "opposite": -first, "zero": 0 * first}[kind]
    return [h.to(dtype, copy=True).requires_grad_() for h in (first, second)]


def evaluate(criterion: InfoNCE, h: list[Tensor]) -> list[Tensor]:
    criterion.set_epoch(1)
    loss = criterion(*h)
    return [loss.detach(), *torch.autograd.grad(loss, h)]


@pytest.mark.parametrize("name", MINERS)
@pytest.mark.parametrize("tau", [0.03, 0.4, 10])
def test_float32_is_float64_up_to_rounding(name: str, tau: float) -> None:
    for n in (2, 3, 9):
        for kind in ("independent", "equal", "opposite"):
            for fast in (True, False):
                single, double = (
                    evaluate(InfoNCE(tau, MINERS[name](), fast=fast), views(n, kind, dtype))
                    for dtype in (torch.float32, torch.float64)
                )
                for ours, exact in zip(single, double, strict=True):
                    assert ours.dtype == torch.float32
                    error = (ours - exact).abs().max().item()
                    assert error <= 3e-5 * max(exact.abs().max().item(), 1), (n, kind, fast)


@pytest.mark.parametrize("name", MINERS)
def test_gradients_are_finite_where_vectors_are_zero_or_alike(name: str) -> None:
    for kind in ("zero", "equal", "opposite"):
        for fast in (True, False):
            for value in evaluate(InfoNCE(0.03, MINERS[name](), fast=fast), views(2, kind, torch.float32)):
                assert value.isfinite().all(), (kind, fast)


@pytest.mark.parametrize("tau", [0.03, 0.4, 10])
@pytest.mark.parametrize("n", [2, 6])
@pytest.mark.parametrize("make", [DCL, HCL, partial(MoCHi, hardest=3, synthetic=4, with_anchor=2)])
def test_gradcheck_of_the_generic_path(make: Callable[[], Miner], n: int, tau: float) -> None:
    """Of rows whose negatives and positive weigh alike: others have gradients below the check's own errors."""
    h = [(torch.ones(n, 4, dtype=torch.float64) + tau / 2 * unit(n, 4, seed)).requires_grad_() for seed in (0, 1)]
    criterion = InfoNCE(tau, make())

    def loss(*h: Tensor) -> Tensor:
        if isinstance(criterion.miner, MoCHi):
            criterion.miner.generator.manual_seed(0)
        value: Tensor = criterion(*h)
        return value

    assert torch.autograd.gradcheck(loss, h, eps=1e-7 * tau, atol=1e-4, rtol=1e-3)


def test_the_loss_of_a_row_is_its_definition() -> None:
    for mass in (0.0, 1e-29, 0.3, 7.0, 1e4):
        for sim in (-1.0, 0.2, 1.0):
            for tau in (0.03, 0.4, 10):
                expected = math.log1p(mass / math.exp((sim - 1) / tau))
                value = row_loss(torch.tensor(mass, dtype=torch.float64), torch.tensor(sim, dtype=torch.float64), tau)
                assert value.item() == pytest.approx(expected, rel=1e-13)


def losses() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    return {
        "views": InfoNCE(0.4),
        "generic": InfoNCE(0.4, fast=False),
        "one way": OneWay(0.4),
        "positives": lambda h, _: InfoNCE(0.4)(h, positives=PAIRS),
        "jsd": lambda h, _: NeighborJSD()(h, PAIRS),
        "sigmoid": lambda h, _: NeighborJSD(0.25)(h, PAIRS),
    }


@pytest.mark.parametrize("name", losses())
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    half = views(9, "independent", dtype)
    exact = [h.detach().float().requires_grad_() for h in half]
    ours, theirs = losses()[name](half[0], half[1]), losses()[name](exact[0], exact[1])
    assert ours.dtype == dtype
    assert ours == theirs.to(dtype)
    (gradient,), (expected,) = torch.autograd.grad(ours, half[:1]), torch.autograd.grad(theirs, exact[:1])
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, expected.to(dtype))


@pytest.mark.parametrize("name", losses())
def test_autocast_changes_nothing(name: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        h = views(9, "independent", dtype)
        expected = losses()[name](h[0], h[1])
        with torch.autocast("cpu", torch.bfloat16):
            value = losses()[name](h[0], h[1])
        assert value.dtype == dtype
        assert torch.equal(value, expected)
        gradients = [torch.autograd.grad(loss, h[:1])[0] for loss in (value, expected)]
        assert torch.equal(*gradients)


def test_autocast_fits_the_same_mixture() -> None:
    fits = []
    for enabled in (False, True):
        criterion = InfoNCE(0.4, ProGCLWeight(start_epoch=0))
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            criterion(*views(40, "independent", torch.float32))
        assert isinstance(criterion.miner, ProGCLWeight)
        fits.append(criterion.miner.fitted)
    assert torch.equal(*fits)


@pytest.mark.parametrize("name", MINERS)
def test_any_default_type_will_do(name: str) -> None:
    def run(dtype: torch.dtype) -> list[Tensor]:
        return evaluate(InfoNCE(0.4, MINERS[name]()), views(9, "independent", dtype))

    torch.set_default_dtype(torch.float64)
    try:
        results = [run(dtype) for dtype in (torch.float32, torch.float64)]
    finally:
        torch.set_default_dtype(torch.float32)
    for single, double in zip(*results, strict=True):
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-6)


def refused() -> dict[str, tuple[Tensor, Tensor, str]]:
    h = torch.ones(3, 2)
    nan, infinite, long = h.clone(), h.clone(), h.clone()
    nan[1, 0], infinite[2, 1], long[2] = torch.nan, -torch.inf, 1e30
    return {
        "rows": (h, torch.ones(4, 2), r"same shape .*\[3, 2\] and \[4, 2\]"),
        "width": (h, torch.ones(3, 3), "same shape"),
        "types": (h, h.double(), "one floating-point type .*float32 and torch.float64"),
        "integers": (h.long(), h.long(), "one floating-point type .*int64"),
        "complex": (h.to(torch.complex64), h.to(torch.complex64), "one floating-point type .*complex64"),
        "nan": (h, nan, "row 1 of the embeddings is not finite"),
        "infinite": (infinite, h, "row 2 of the embeddings is not finite"),
        "long": (long, h, "row 2 of the embeddings is too long"),
        "one node": (h[:1], h[:1], "N ≥ 2"),
    }


@pytest.mark.parametrize("case", refused())
def test_bad_input_is_refused(case: str) -> None:
    first, second, message = refused()[case]
    for loss in (InfoNCE(0.4), InfoNCE(0.4, DCL()), OneWay(0.4)):
        with pytest.raises(InputError, match=message):
            loss(first, second)


@pytest.mark.parametrize("case", ["integers", "nan"])
def test_bad_input_of_one_view_is_refused(case: str) -> None:
    _, bad, message = refused()[case]
    with pytest.raises(InputError, match=message):
        InfoNCE(0.4)(bad, positives=PAIRS[:, :3])
    with pytest.raises(InputError, match=message):
        NeighborJSD()(bad, PAIRS[:, :3])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_gradients_of_a_zero_row_are_finite(dtype: torch.dtype) -> None:
    h = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    h[2] = 0
    one, other = h.clone().requires_grad_(), h.flip(0).requires_grad_()
    for grad in torch.autograd.grad(InfoNCE(tau=0.03)(one, other), [one, other]):
        assert grad.isfinite().all()
