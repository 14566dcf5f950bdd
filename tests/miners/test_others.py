"""DCL, HCL, Ring and MoCHi against loops written from their formulas, and in their limits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.losses.infonce import OneWay
from progcl.miners.base import Block
from progcl.miners.debiased import DCL, HCL
from progcl.miners.mochi import MoCHi
from progcl.miners.ring import Ring
from support.naive import clusters, debiased, infonce, loss, mochi, ring, unit

N, D = 11, 5


def views(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two noisy looks at the same nodes, as unit vectors."""
    h = clusters(N, D, seed)
    first, second = (torch.nn.functional.normalize(h + 0.3 * unit(N, D, seed + k), dim=1) for k in (1, 2))
    return first.requires_grad_(), second.requires_grad_()


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("class_prior", [0.0, 0.1, 0.6])
def test_dcl_is_its_formula(tau: float, class_prior: float) -> None:
    value = InfoNCE(tau, DCL(class_prior))(*views()).item()
    assert value == pytest.approx(debiased(*views(), tau, class_prior, 0), rel=1e-10)


def test_dcl_keeps_its_lower_bound() -> None:
    """With half of all negatives expected to be false, nothing is left but the least that they can weigh."""
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


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.1, 0.9), (0.0, 0.5), (0.45, 0.55), (0.3, 1.0)])
@pytest.mark.parametrize("fast", [True, False])
def test_ring_is_its_definition(low: float, high: float, fast: bool) -> None:
    value = InfoNCE(0.4, Ring(low, high), fast=fast)(*views()).item()
    assert value == pytest.approx(ring(*views(), 0.4, low, high), rel=1e-10)


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


@pytest.mark.parametrize(
    "miner", [DCL(0), HCL(0, 0), Ring(0, 1), MoCHi(synthetic=0, with_anchor=0), MoCHi(start_epoch=5)]
)
def test_limits_are_infonce(miner: Miner) -> None:
    assert InfoNCE(0.4, miner)(*views()).item() == pytest.approx(infonce(*views(), 0.4), rel=1e-12)


def test_hcl_without_concentration_is_dcl() -> None:
    one, other = (InfoNCE(0.4, miner)(*views()).item() for miner in (HCL(0.2, 0), DCL(0.2)))
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DCL(0.1),
        lambda: HCL(0.1, 1.5),
        lambda: Ring(0.2, 0.8),
        lambda: MoCHi(hardest=4, synthetic=6, with_anchor=3),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(make: Callable[[], Miner], fast: bool) -> None:
    def repeated(h1: Tensor, h2: Tensor) -> Tensor:
        value: Tensor = InfoNCE(0.4, make(), block_size=4, fast=fast)(h1, h2)
        return value

    assert torch.autograd.gradcheck(repeated, views())


@pytest.mark.parametrize(("n", "tile"), [(2, 1), (5, 2), (57, 16), (57, 100)])
@pytest.mark.parametrize("memory", [0, 0.05, 1000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_rings_closed_form(n: int, tile: int, memory: float, dtype: torch.dtype, tolerance: float) -> None:
    results = []
    for fast in (True, False):
        criterion = InfoNCE(0.4, Ring(0.15, 0.8), memory=memory, fast=fast)
        criterion.workspace.tile = tile
        h1, h2 = (clusters(n, 8, seed, noise=0.4).to(dtype).requires_grad_() for seed in (1, 2))
        value = criterion(h1, h2)
        results.append([value.detach(), *torch.autograd.grad(value, (h1, h2))])
        assert (criterion.plan() is not None) == fast
    for ours, theirs in zip(*results, strict=True):
        assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def test_the_ring_narrows() -> None:
    miner = Ring(0.2, 0.6, anneal=10)
    widths = []
    for epoch in (0, 5, 10, 50):
        miner.set_epoch(epoch)
        widths.append(miner.quantiles)
    assert widths == [(0, 1), (0.1, pytest.approx(0.8)), (0.2, pytest.approx(0.6)), (0.2, pytest.approx(0.6))]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: DCL(1), "class_prior"),
        (lambda: HCL(0.1, -1), "concentration"),
        (lambda: Ring(-0.1), "low"),
        (lambda: Ring(0.1, 1.1), "high"),
        (lambda: Ring(0.5, 0.5), "below"),
        (lambda: Ring(anneal=-1), "anneal"),
        (lambda: MoCHi(hardest=0), "hardest"),
        (lambda: MoCHi(with_anchor=-1), "with_anchor"),
    ],
)
def test_options_out_of_range(make: Callable[[], Miner], name: str) -> None:
    with pytest.raises(InputError, match=name):
        make()


def test_one_way_is_one_side() -> None:
    """Averaged over both directions and with both banks, it is InfoNCE."""
    h1, h2 = views()
    criterion = OneWay(0.4)
    both = (criterion(h1, h2, h2, h1) + criterion(h2, h1, h1, h2)) / 2
    torch.testing.assert_close(both, InfoNCE(0.4)(h1, h2), rtol=1e-12, atol=0)
    one_bank = criterion(h1, h2).item()
    sim = (h1 @ h2.T / 0.4).detach()
    assert one_bank == pytest.approx((sim.logsumexp(dim=1) - sim.diagonal()).mean().item(), rel=1e-12)
    within = criterion(h1, h2, h1).item()
    sim = (h1 @ h1.T / 0.4).detach().fill_diagonal_(-torch.inf)
    positive = ((h1 * h2).sum(dim=1) / 0.4).detach()
    expected = torch.logaddexp(positive, sim.logsumexp(dim=1)) - positive
    assert within == pytest.approx(expected.mean().item(), rel=1e-12)


def test_one_way_gradcheck() -> None:
    h1, h2 = views()
    h3, _ = views(seed=9)
    assert torch.autograd.gradcheck(lambda a, b, c: OneWay(0.4, HCL(), block_size=4)(a, b, c), (h1, h2, h3))
    frozen = OneWay(0.4)(h1, h2.detach())
    assert torch.autograd.grad(frozen, h1)[0].isfinite().all()


@pytest.mark.parametrize("tile", [1, 16, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_ring_keeps_equals_on_both_paths(tile: int, dtype: torch.dtype) -> None:
    h = unit(5, 6, seed=3)[torch.arange(60) % 5].to(dtype)
    values = []
    for fast in (True, False):
        criterion = InfoNCE(0.4, Ring(0.2, 0.7), block_size=tile, fast=fast)
        values.append(criterion(h, h).item())
    values.append(InfoNCE(0.4, Ring(0.2, 0.7))(h, h).item())
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert values[0] == pytest.approx(values[2], rel=1e-5)


def test_the_narrowest_ring_keeps_one() -> None:
    assert InfoNCE(0.4, Ring(0, 1e-12))(*views()).isfinite()


@pytest.mark.parametrize("miner", [Miner(), DCL(), HCL()])
@pytest.mark.parametrize("tau", [0.05, 0.1])
def test_small_losses_keep_their_digits_without_closed_form(miner: Miner, tau: float) -> None:
    h1, h2 = (h.detach() for h in views())
    exact = InfoNCE(tau, miner, fast=False)(h1, h2).item()
    assert InfoNCE(tau, miner, fast=False)(h1.float(), h2.float()).item() == pytest.approx(exact, rel=1e-4)


def test_mochi_between_opposite_nodes_is_finite() -> None:
    h = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    criterion = InfoNCE(0.4, MoCHi(hardest=1, synthetic=50, with_anchor=50))
    for _ in range(50):
        (grad,) = torch.autograd.grad(criterion(h, h), h)
        assert grad.isfinite().all()


@pytest.mark.parametrize("miner", [MoCHi(start_epoch=2), Ring(anneal=2)])
def test_a_loop_that_forgets_set_epoch_is_told(miner: Miner) -> None:
    criterion = InfoNCE(0.4, miner)
    for _ in range(2):
        criterion(*views())
    with pytest.warns(UserWarning, match="set_epoch"):
        criterion(*views())


def test_a_changed_mass_is_heeded() -> None:
    class Doubled(InfoNCE):
        def mass(self, block: Block) -> Tensor:
            return 2 * super().mass(block)

    h1, h2 = views()
    assert Doubled(0.4)(h1, h2).item() == pytest.approx(Doubled(0.4, fast=False)(h1, h2).item(), rel=1e-12)
    assert Doubled(0.4)(h1, h2).item() > InfoNCE(0.4)(h1, h2).item()
