import math

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.losses.infonce import OneWay, default_memory
from progcl.miners.base import Block, iterate_blocks
from progcl.miners.debiased import HCL
from progcl.testing import toy_views
from support.naive import clusters, infonce, unit, unit_views


@pytest.mark.parametrize(("n", "tau"), [(2, 0.1), (7, 0.4), (16, 2.0)])
def test_infonce_is_its_definition(n: int, tau: float) -> None:
    h1, h2 = 3 * unit(n, 5, seed=0), unit(n, 5, seed=1)
    assert InfoNCE(tau)(h1, h2).item() == pytest.approx(infonce(h1, h2, tau), rel=1e-10)


@pytest.mark.parametrize("n", [2, 5, 33])
def test_parallel_embeddings_have_a_closed_form(n: int) -> None:
    """All 2N-1 candidates of an anchor are equal: log(2N-1)."""
    h = torch.ones(n, 4, dtype=torch.float64)
    assert InfoNCE(0.3)(h, 2 * h).item() == pytest.approx(math.log(2 * n - 1), rel=1e-12)


def test_orthogonal_embeddings_have_a_closed_form() -> None:
    n, tau = 6, 0.5
    h = torch.eye(n, dtype=torch.float64)
    expected = math.log(math.exp(1 / tau) + 2 * (n - 1)) - 1 / tau
    assert InfoNCE(tau)(h, h).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("block_size", [1, 7, 20, 50])
def test_blocks_change_neither_loss_nor_gradient(block_size: int) -> None:
    def run(size: int) -> tuple[Tensor, Tensor, Tensor]:
        h1, h2 = (clusters(20, 6, seed).requires_grad_() for seed in (0, 1))
        loss = InfoNCE(0.4, block_size=size)(h1, h2)
        return loss.detach(), *torch.autograd.grad(loss, (h1, h2))

    for dense, blocked in zip(run(20), run(block_size), strict=True):
        torch.testing.assert_close(dense, blocked, rtol=1e-12, atol=1e-14)


def test_gradcheck() -> None:
    h1, h2 = (clusters(6, 4, seed).requires_grad_() for seed in (0, 1))
    assert torch.autograd.gradcheck(InfoNCE(0.3, block_size=4), (h1, h2))


def test_gradient_reaches_one_view_alone() -> None:
    h1, h2 = clusters(6, 4, 0).requires_grad_(), clusters(6, 4, 1)
    both = InfoNCE(0.3)(h1, h2.clone().requires_grad_())
    one_view = InfoNCE(0.3)(h1, h2)
    (first,), (second,) = torch.autograd.grad(both, h1), torch.autograd.grad(one_view, h1)
    torch.testing.assert_close(first, second)
    with torch.no_grad():
        assert not InfoNCE(0.3)(h1, h2).requires_grad


def test_a_sharp_temperature_stays_finite_in_float32() -> None:
    h = torch.cat([torch.eye(4), -torch.eye(4)]).requires_grad_()
    loss = InfoNCE(0.03)(h, -h)
    loss.backward()
    assert loss.item() == pytest.approx(infonce(h.detach().double(), -h.detach().double(), 0.03), rel=1e-5)
    assert h.grad is not None
    assert h.grad.isfinite().all()


def test_easy_negatives_keep_their_digits_beside_the_anchor() -> None:
    """Taking e^0 for the anchor away again would leave nothing of e^-33 in float32."""
    h = torch.stack([torch.eye(3)[0], -torch.eye(3)[0]])
    exact = InfoNCE(0.06)(h.double(), h.double()).item()
    assert InfoNCE(0.06)(h, h).item() == pytest.approx(exact, rel=1e-4)


class Half(Miner):
    """Every negative counts half, and one synthetic negative has similarity 0."""

    def __init__(self, banks: int) -> None:
        super().__init__()
        self.banks = banks

    def weight(self, block: Block) -> Tensor:
        return torch.full((len(block.rows), self.banks, block.sim.size(2)), 0.5, dtype=block.sim.dtype)

    def extra(self, block: Block) -> Tensor:
        return block.sim.new_zeros(len(block.rows), 1)


@pytest.mark.parametrize("banks", [1, 2])
def test_a_users_own_miner(banks: int) -> None:
    h = torch.eye(5, dtype=torch.float64)
    expected = math.log(math.exp(2) + 0.5 * 8 + 1) - 2
    assert InfoNCE(0.5, miner=Half(banks))(h, h).item() == pytest.approx(expected, rel=1e-12)


def test_blocks_cover_every_row_once() -> None:
    for nodes, size in ((10, 3), (10, 10), (10, 99), (3, None)):
        rows = [row for block in iterate_blocks(nodes, size) for row in range(nodes)[block]]
        assert rows == list(range(nodes))


@pytest.mark.parametrize("tau", [0, 0.02, 11, float("nan")])
def test_temperature_out_of_range(tau: float) -> None:
    with pytest.raises(InputError, match=r"`tau` needs to be in \[0.03, 10\]"):
        InfoNCE(tau)


@pytest.mark.parametrize("miner", ["progcl-weight", Half])
def test_a_miner_has_to_be_a_miner(miner: object) -> None:
    with pytest.raises(InputError, match="needs to be a Miner"):
        InfoNCE(miner=miner)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "second"), [((4, 3), (5, 3)), ((1, 3), (1, 3)), ((4,), (4,))])
def test_shapes_that_do_not_fit(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="same shape"):
        InfoNCE()(torch.ones(first), torch.ones(second))


def test_one_way_is_one_direction() -> None:
    """Averaged over both directions and with both banks, it is InfoNCE."""
    h1, h2 = unit_views(11, 5, seed=0)
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


def test_one_way_passes_gradcheck() -> None:
    h1, h2 = unit_views(6, 4, seed=0)
    h3, _ = unit_views(6, 4, seed=9)
    assert torch.autograd.gradcheck(lambda a, b, c: OneWay(0.4, HCL(), block_size=4)(a, b, c), (h1, h2, h3))


def test_one_way_needs_no_gradient_of_the_targets() -> None:
    h1, h2 = unit_views(6, 4, seed=0)
    both, alone = OneWay(0.4)(h1, h2), OneWay(0.4)(h1, h2.detach())
    torch.testing.assert_close(*(torch.autograd.grad(loss, h1)[0] for loss in (both, alone)))


def test_an_overridden_mass_takes_the_generic_path() -> None:
    class Doubled(InfoNCE):
        def mass(self, block: Block) -> Tensor:
            return 2 * super().mass(block)

    h1, h2 = unit_views(11, 5, seed=0)
    assert Doubled(0.4)(h1, h2).item() == pytest.approx(Doubled(0.4, fast=False)(h1, h2).item(), rel=1e-12)
    assert Doubled(0.4)(h1, h2).item() > InfoNCE(0.4)(h1, h2).item()


def test_a_miner_that_forgets_its_base_class_is_refused() -> None:
    class Forgetful(Miner):
        def __init__(self) -> None:
            pass

    with pytest.raises(InputError, match="`Forgetful` is not initialized"):
        InfoNCE(0.4, Forgetful())


def test_one_anchor_has_nothing_to_be_contrasted_with() -> None:
    with pytest.raises(InputError, match=r"at least 2 anchors \(got 1\)"):
        InfoNCE(0.4)(*toy_views(8, 4, seed=0), anchors=torch.tensor([3]))


def test_nodes_and_anchors_exclude_each_other() -> None:
    criterion, nodes, views = InfoNCE(0.4), torch.arange(11), unit_views(11, 5, seed=0)
    with pytest.raises(InputError, match="as a whole"):
        criterion(*views, anchors=nodes[:5], nodes=nodes)
    with pytest.raises(InputError, match="11 rows"):
        criterion(*views, nodes=nodes[:5])


@pytest.mark.parametrize("factor", [1.0, 2.0, -0.5])
def test_the_gradient_grows_with_what_follows_the_loss(factor: float) -> None:
    h1, h2 = toy_views(8, 4, seed=0)
    (once,) = torch.autograd.grad(InfoNCE(0.4)(h1, h2), h1)
    (scaled,) = torch.autograd.grad(factor * InfoNCE(0.4)(h1, h2), h1)
    assert torch.allclose(scaled, factor * once, rtol=1e-12)


def test_weights_of_another_shape_are_refused() -> None:
    class Scalar(Miner):
        def weight(self, block: Block) -> Tensor:
            return torch.ones(3)

    with pytest.raises(InputError, match=r"weights need the shape \[8, 1, 8\] or \[8, 2, 8\] \(got \[3\]\)"):
        InfoNCE(0.4, Scalar())(*toy_views(8, 4, seed=0))


@pytest.mark.parametrize(("pages", "expected"), [(10**9, 1e9), (10**6, 4096 * 10**5), (None, 1e9)])
def test_buffers_take_a_tenth_of_a_small_machine(
    pages: int | None, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sysconf(name: str) -> int:
        if pages is None:
            raise OSError
        return {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}[name]

    monkeypatch.setattr("os.sysconf", sysconf)
    assert default_memory() == expected
    assert default_memory(20) == 20e6
