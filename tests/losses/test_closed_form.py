"""The closed form against the generic path, which is tested against the paper's equations elsewhere."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, ProGCLMix, ProGCLWeight
from progcl.losses.weights import MIN_ROUNDED_NODES
from progcl.miners.base import Block, Miner
from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors import Posterior
from support.naive import clusters

TAU = 0.4
MAKERS: dict[str, Callable[[], Miner]] = {
    "none": Miner,
    "weight": lambda: ProGCLWeight(start_epoch=1, samples=20, prior=0.2),
    "mix": lambda: ProGCLMix(start_epoch=1, samples=20, prior=0.2, hardest=15, synthetic=25),
}
SHAPES: list[tuple[int, int, float, torch.dtype]] = [  # nodes, side of a tile, megabytes, precision
    (2, 1, 1000, torch.float64),
    (5, 2, 0, torch.float64),
    (40, 16, 0.05, torch.float64),
    (57, 16, 0, torch.float64),
    (57, 16, 0.05, torch.float32),
    (57, 16, 1000, torch.float64),
    (57, 100, 0, torch.float32),
    (57, 100, 1000, torch.float64),
    (150, 32, 0, torch.float32),
    (150, 32, 0.05, torch.float64),
    (150, 32, 1000, torch.float32),
]


def views(n: int, seed: int, dtype: torch.dtype = torch.float64, d: int = 8) -> tuple[Tensor, Tensor]:
    first, second = (clusters(n, d, 10 * seed + view, noise=0.4).to(dtype).requires_grad_() for view in (0, 1))
    return first, second


def run(criterion: InfoNCE, n: int, dtype: torch.dtype, anchors: Tensor | None = None) -> list[Tensor]:
    """Loss and gradients of a step after the fit."""
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        h1, h2 = views(n, epoch, dtype)
        loss = criterion(h1, h2, anchors)
        loss.backward()
    assert h1.grad is not None
    assert h2.grad is not None
    return [loss.detach(), h1.grad, h2.grad]


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest, relative to the largest entry."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.filterwarnings("ignore:no mixture")
@pytest.mark.parametrize(("n", "tile", "memory", "dtype"), SHAPES)
@pytest.mark.parametrize("name", MAKERS)
def test_both_paths_agree(name: str, n: int, tile: int, memory: float, dtype: torch.dtype) -> None:
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    fast, slow = (InfoNCE(TAU, MAKERS[name](), memory=memory, fast=fast) for fast in (True, False))
    fast.workspace.tile = tile
    assert difference(run(fast, n, dtype), run(slow, n, dtype)) < tolerance


@pytest.mark.parametrize("name", ["weight", "mix"])
def test_the_miners_of_these_tests_are_active(name: str) -> None:
    criterion = InfoNCE(TAU, MAKERS[name]())
    run(criterion, 57, torch.float64)
    assert isinstance(criterion.miner, FrozenPosterior)
    assert criterion.miner.active
    assert criterion.plan() is not None


@pytest.mark.parametrize("name", MAKERS)
def test_the_gradient_passes_gradcheck(name: str) -> None:
    criterion = InfoNCE(TAU, MAKERS[name](), block_size=4)
    run(criterion, 8, torch.float64)
    miner = criterion.miner
    assert miner.mines == (name != "none")
    if isinstance(miner, ProGCLMix):
        pairs = miner.pairs.clone()
        miner._draw_pairs = lambda count: pairs  # type: ignore[method-assign]
    if isinstance(miner, ProGCLWeight):  # its weights follow the similarities, without gradient
        miner.normalize = lambda sim: torch.full_like(sim, 0.5)  # type: ignore[method-assign]
        miner.source.fits[0, :2] = torch.tensor([-1e9, 1e9])  # the same in the closed form
    assert torch.autograd.gradcheck(criterion, views(8, seed=7))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("fast", [True, False])
def test_anchors_are_the_loss_of_their_rows(name: str, fast: bool) -> None:
    """Only the anchors count, and frozen probabilities follow their node numbers."""
    anchors = torch.randperm(57, generator=torch.Generator().manual_seed(0))[:40]
    criterion = InfoNCE(TAU, MAKERS[name](), fast=fast)
    expected = run(criterion, 57, torch.float64)
    everyone = torch.randperm(57, generator=torch.Generator().manual_seed(1))
    if name != "mix":  # whose pairs are drawn anew
        again = InfoNCE(TAU, MAKERS[name](), fast=fast)
        assert difference(run(again, 57, torch.float64, everyone), expected) < 1e-12
    _, first, _ = run(criterion, 57, torch.float64, anchors)
    left_out = torch.ones(57, dtype=torch.bool)
    left_out[anchors] = False
    assert (first[left_out] == 0).all()
    assert (first[anchors] != 0).any(dim=1).all()


@pytest.mark.parametrize("name", MAKERS)
def test_the_anchors_rows_alone_have_the_same_loss(name: str) -> None:
    """Once the mixture is fitted to all nodes, the others need not be embedded."""
    anchors, results = torch.arange(1, 57, 2), []
    for anchors_only in (True, False):
        criterion = InfoNCE(TAU, MAKERS[name]())
        run(criterion, 57, torch.float64, anchors)
        assert not criterion.miner.needs_all_nodes
        h1, h2 = views(57, seed=9)
        loss = criterion(h1[anchors], h2[anchors], nodes=anchors) if anchors_only else criterion(h1, h2, anchors)
        loss.backward()
        results.append([loss.detach(), h1.grad, h2.grad])
    assert difference(*results) < 1e-12


def test_all_nodes_are_needed_for_the_fit() -> None:
    miner = MAKERS["weight"]()
    assert not miner.needs_all_nodes
    miner.set_epoch(1)
    assert miner.needs_all_nodes


@pytest.mark.parametrize("name", MAKERS)
def test_anchors_agree_on_both_paths(name: str) -> None:
    anchors = torch.randperm(57, generator=torch.Generator().manual_seed(0))[:40]
    fast, slow = (
        run(InfoNCE(TAU, MAKERS[name](), block_size=16, fast=fast), 57, torch.float64, anchors)
        for fast in (True, False)
    )
    assert difference(fast, slow) < 1e-12


def test_sixteen_bits_are_enough_for_many_nodes() -> None:
    n = MIN_ROUNDED_NODES
    fast = InfoNCE(TAU, MAKERS["weight"](), memory=n * n * 3 / 1e6)
    for rounded, exact in zip(
        run(fast, n, torch.float32), run(InfoNCE(TAU, MAKERS["weight"]()), n, torch.float32), strict=True
    ):
        assert (rounded - exact).norm() < 1e-6 * exact.norm()
    assert {p.dtype for p in fast.workspace.frozen.values()} == {torch.uint16}


def test_frozen_tiles_belong_to_their_fit() -> None:
    """A state loaded from elsewhere is not weighted by the probabilities of the run before."""
    criterion, other = (InfoNCE(TAU, MAKERS["weight"]()) for _ in range(2))
    run(criterion, 57, torch.float64)
    other.set_epoch(1)
    other(*views(57, seed=5))
    criterion.load_state_dict(other.state_dict())
    fresh = InfoNCE(TAU, MAKERS["weight"](), fast=False)
    fresh.load_state_dict(other.state_dict())
    for module in (criterion, fresh):
        module.set_epoch(4)
    h1, h2 = views(57, seed=6)
    assert criterion(h1, h2).item() == pytest.approx(fresh(h1, h2).item(), rel=1e-12)


def test_an_anchor_without_weight_takes_the_generic_path() -> None:
    criterion, slow = (InfoNCE(TAU, MAKERS["weight"](), fast=fast) for fast in (True, False))
    for module in (criterion, slow):
        run(module, 57, torch.float64)
    h1, h2 = (h.detach().clone() for h in views(57, seed=6))
    h1[3] = -h2.sum(dim=0)  # further from all candidates than any pair was at epoch E
    assert criterion(h1, h2).item() == pytest.approx(slow(h1, h2).item(), rel=1e-12)
    assert criterion(h1, h2).isfinite()


class Halved(ProGCLWeight):
    """A user's miner that changes `weight` and knows nothing of plans."""

    def weight(self, block: Block) -> Tensor | None:
        weight = super().weight(block)
        return None if weight is None else weight / 2


class Step:
    """Certain that every similar negative is a false one."""

    def fit(self, x: Any) -> Any:
        return self

    def predict_proba(self, x: Any) -> Any:
        true = (np.asarray(x)[:, 0] < 0.2).astype(float)
        return np.stack([true, 1 - true], axis=1)


def test_two_candidates_of_probability_zero_are_mixed_half_and_half() -> None:
    miners = [ProGCLMix(start_epoch=1, hardest=15, synthetic=25, estimator=Step()) for _ in range(2)]
    fast, slow = (InfoNCE(TAU, miner, fast=fast) for miner, fast in zip(miners, (True, False), strict=True))
    assert difference(run(fast, 40, torch.float64), run(slow, 40, torch.float64)) < 1e-12
    plan = miners[0].plan()
    assert plan is not None
    assert plan.pairs is not None
    assert plan.mixing_weights is not None
    first, second = (plan.mixing_weights(0, slice(40))[ranks] for ranks in plan.pairs)
    assert bool((first + second == 0).any())


def test_a_subclass_without_a_plan_takes_the_generic_path() -> None:
    criterion = InfoNCE(TAU, Halved(start_epoch=1, samples=20, prior=0.2))
    halved = run(criterion, 57, torch.float64)
    assert criterion.plan() is None
    assert difference(halved, run(InfoNCE(TAU, MAKERS["weight"]()), 57, torch.float64)) > 0.01
    assert InfoNCE(TAU, Squared()).plan() is None


class Squared(ProGCLWeight):
    """A user's miner that changes the score from which `weight` is computed."""

    def score(self, rows: Tensor, view: int, sim: Tensor | None = None) -> Tensor:
        return super().score(rows, view, sim).square()


@pytest.mark.parametrize(("dtype", "noise", "tolerance"), [(torch.float64, 1e-8, 1e-6), (torch.float32, 1e-4, 1e-2)])
def test_candidates_that_cancel_have_no_gradient_through_their_length(
    dtype: torch.dtype, noise: float, tolerance: float
) -> None:
    """Half of e and half of nearly -e is shorter than rounding errors: on both paths, its length counts as constant."""
    signs = torch.tensor([1, -1, 1, -1, 1, -1])[:, None]
    axes = torch.eye(3, dtype=dtype)[torch.tensor([0, 0, 0, 0, 1, 1])] * signs
    results = []
    for fast in (True, False):
        generator = torch.Generator().manual_seed(0)
        miner = ProGCLMix(start_epoch=0, hardest=5, synthetic=40, estimator=Half())
        h = [(axes + noise * torch.rand(6, 3, generator=generator).to(dtype)).requires_grad_() for _ in range(2)]
        loss = InfoNCE(TAU, miner, fast=fast)(*h)
        results.append([loss.detach(), *torch.autograd.grad(loss, h)])
    assert all(value.isfinite().all() for value in results[0])
    assert difference(*results) < tolerance


class Half(Posterior):
    """All negatives are as probably true: pairs are mixed half and half."""

    def posterior(self, s: Tensor) -> Tensor:
        return torch.full_like(s, 0.5)


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_of_the_loss_starts_with_empty_buffers(name: str) -> None:
    criterion = InfoNCE(TAU, MAKERS[name](), memory=50)
    run(criterion, 57, torch.float64)
    for duplicate in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
        assert duplicate.workspace.memory == 50_000_000
        assert not duplicate.workspace.buffers
        values = [copy.deepcopy(criterion)(*views(57, 1)).item(), duplicate(*views(57, 1)).item()]
        assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_the_store_keeps_to_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after epoch E, from which on probabilities are cached, too."""
    monkeypatch.setattr("progcl.losses.weights.MIN_ROUNDED_NODES", 100)
    for memory in (0, 100_000, 400_000):
        criterion = InfoNCE(TAU, MAKERS["weight"](), memory=memory / 1e6)
        criterion.workspace.tile = 32
        for epoch in (0, 1, 2):
            criterion.set_epoch(epoch)
            criterion(*views(400, epoch, torch.float32)).backward()
            workspace = criterion.workspace
            cached = [workspace.buffers["store"], *workspace.frozen.values()]
            assert sum(tensor.numel() * tensor.element_size() for tensor in cached) <= memory


@pytest.mark.parametrize("tau", [0.03, 0.05, 0.1])
def test_small_losses_keep_their_digits(tau: float) -> None:
    exact, single = (InfoNCE(tau)(*views(100, 1, dtype)) for dtype in (torch.float64, torch.float32))
    assert single.item() == pytest.approx(exact.item(), rel=1e-4)


@pytest.mark.parametrize("name", MAKERS)
def test_other_precisions_and_modes_do_not_disturb(name: str) -> None:
    criterion = InfoNCE(TAU, MAKERS[name]())
    expected = run(criterion, 57, torch.float32)[0].item()
    double = copy.deepcopy(criterion)(*views(57, 5, torch.float64)).item()
    with torch.inference_mode():
        assert criterion(*views(57, 5, torch.float64)).item() == pytest.approx(double, rel=1e-12)
        criterion.workspace.clear()
        criterion(*views(57, 5, torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert criterion(*views(57, 3, torch.float32)).item() == pytest.approx(expected, rel=0.02)
    h1, h2 = views(57, 4, torch.float32)
    criterion(h1, h2).backward()  # buffers made in inference mode would raise here
    assert h1.grad is not None
    assert h1.grad.any(dim=1).all()


def test_a_second_derivative_is_refused() -> None:
    h1, h2 = views(20, 1)
    with pytest.raises(InputError, match="second derivative"):
        torch.autograd.grad(InfoNCE(TAU)(h1, h2), h1, create_graph=True)


def test_threads_may_share_a_loss() -> None:
    criterion = InfoNCE(TAU)
    seeds = list(range(6)) * 5
    expected = [criterion(*views(80, seed)).item() for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda seed: criterion(*views(80, seed)).item(), seeds)) == expected
