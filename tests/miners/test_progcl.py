"""ProGCL-weight and ProGCL-mix on a whole graph, against loops written from the paper's equations."""

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from progcl import InfoNCE, InputError, ProGCLMix, ProGCLWeight
from progcl.errors import ProgclWarning
from progcl.miners.base import Block
from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.beta import BetaMixture
from support.naive import (
    clusters,
    cosines,
    hardest,
    infonce,
    loss,
    min_max,
    mixed_similarities,
    mixed_vectors,
    normalize_sims,
    p_true,
    progcl_weights,
    transposed,
    unit,
)

Variant = Literal["paper", "released"]
N, D, TAU = 15, 6, 0.4
MAKERS: list[Callable[..., FrozenPosterior]] = [
    ProGCLWeight,
    lambda **options: ProGCLMix(hardest=5, synthetic=9, **options),
]


def views(seed: int, n: int = N) -> tuple[Tensor, Tensor]:
    """Two noisy views of the same nodes."""
    h = clusters(n, D, seed)
    return h + 0.2 * unit(n, D, seed + 1), h + 0.2 * unit(n, D, seed + 2)


def train_past_the_fit(miner: FrozenPosterior, block_size: int | None = None, n: int = N) -> InfoNCE:
    """A loss whose miner was fitted at epoch 1, at epoch 2."""
    criterion = InfoNCE(TAU, miner, block_size)
    criterion.set_epoch(1)
    criterion(*views(seed=10, n=n))
    assert miner.active
    criterion.set_epoch(2)
    return criterion


def frozen(miner: FrozenPosterior, released: bool) -> tuple[list[Any], list[Any]]:
    """p and s of epoch E for both views, from the definition."""
    at_e = cosines(*views(seed=10))
    low, high = (-1.0, 1.0) if released else min_max(at_e)
    s = normalize_sims(at_e, low, high)
    both = [s, s if released else transposed(s)]
    assert isinstance(miner.estimator, BetaMixture)
    return [[[p_true(miner.estimator, value) for value in row] for row in rows] for rows in both], both


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_weight_is_equations_10_to_12(variant: Variant) -> None:
    miner = ProGCLWeight(start_epoch=1, variant=variant)
    criterion = train_past_the_fit(miner)
    h1, h2 = views(seed=20)
    p, s = frozen(miner, variant == "released")
    if variant == "paper":  # p is frozen, s is not
        now = normalize_sims(cosines(h1, h2), *min_max(cosines(*views(seed=10))))
        s = [now, transposed(now)]
    weights = [progcl_weights(*pair) for pair in zip(p, s, strict=True)]
    expected = loss(h1, h2, TAU, weights, [[[]] * N] * 2)
    assert criterion(h1, h2).item() == pytest.approx(expected, rel=1e-10)
    assert expected != pytest.approx(infonce(h1, h2, TAU), rel=1e-3)


@pytest.mark.parametrize("count", [5, N - 1])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_mix_is_equations_13_to_16(variant: Variant, count: int) -> None:
    miner = ProGCLMix(start_epoch=1, hardest=count, synthetic=9, variant=variant)
    criterion = train_past_the_fit(miner)
    h1, h2 = views(seed=20)
    value = criterion(h1, h2).item()
    pairs = miner.pairs.tolist()
    p, s = frozen(miner, variant == "released")
    lists = [hardest(*pair, count=count) for pair in zip(p, s, strict=True)]
    if variant == "paper":
        extras = [
            mixed_vectors(unit_rows(own), unit_rows(other), p[view], lists[view], pairs)
            for view, (own, other) in enumerate(((h1, h2), (h2, h1)))
        ]
    else:
        score = [[a * b for a, b in zip(*rows, strict=True)] for rows in zip(p[0], s[0], strict=True)]
        sims = [cosines(h1, h2), cosines(h2, h1)]
        extras = [mixed_similarities(sims[view], score, lists[0], pairs) for view in (0, 1)]
    expected = loss(h1, h2, TAU, [[[1.0] * N] * N] * 2, extras)
    assert value == pytest.approx(expected, rel=1e-10)


def unit_rows(h: Tensor) -> Tensor:
    return torch.nn.functional.normalize(h, dim=1)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_blocks_change_neither_loss_nor_gradient(make: Callable[..., FrozenPosterior], variant: Variant) -> None:
    def run(size: int | None) -> tuple[Tensor, Tensor, Tensor]:
        criterion = train_past_the_fit(make(start_epoch=1, variant=variant), size)
        h1, h2 = (h.requires_grad_() for h in views(seed=20))
        value = criterion(h1, h2)
        return value.detach(), *torch.autograd.grad(value, (h1, h2))

    expected = run(None)
    for block_size in (1, 7, N):
        for dense, blocked in zip(expected, run(block_size), strict=True):
            torch.testing.assert_close(dense, blocked, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "miner",
    [
        ProGCLWeight(start_epoch=1, variant="released"),
        ProGCLMix(start_epoch=1, hardest=4, synthetic=6),
        ProGCLMix(start_epoch=1, hardest=4, variant="released"),
    ],
)
def test_gradcheck_with_frozen_weights(miner: FrozenPosterior) -> None:
    criterion = train_past_the_fit(miner, block_size=4, n=8)
    state = miner.generator.get_state()

    def repeated(h1: Tensor, h2: Tensor) -> Tensor:
        miner.generator.set_state(state)
        value: Tensor = criterion(h1, h2)
        return value

    assert torch.autograd.gradcheck(repeated, tuple(h.requires_grad_() for h in views(seed=20, n=8)))


def test_no_gradient_runs_through_the_papers_weights() -> None:
    """The gradient is that of a dense loss whose weights are constants."""
    criterion = train_past_the_fit(ProGCLWeight(start_epoch=1))
    miner = criterion.miner
    assert isinstance(miner, ProGCLWeight)
    h1, h2 = (h.requires_grad_() for h in views(seed=20))
    z1, z2 = unit_rows(h1), unit_rows(h2)
    total: Any = 0
    for view, (own, other) in enumerate(((z1, z2), (z2, z1))):
        inter, intra = own @ other.T, own @ own.T
        score = miner.score(torch.arange(N), view, inter.detach())
        weight = score / (score.sum(dim=1, keepdim=True) / (N - 1))
        mass = ((inter / TAU).exp() * weight + (intra / TAU).exp() * weight).sum(dim=1)
        positive = (inter.diagonal() / TAU).exp()
        total = total - (positive / (positive + mass)).log().sum() / (2 * N)
    value = criterion(h1, h2)
    assert value.item() == pytest.approx(total.item(), rel=1e-12)
    expected = torch.autograd.grad(total, (h1, h2), retain_graph=True)
    for got, want in zip(torch.autograd.grad(value, (h1, h2)), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("make", MAKERS)
def test_before_epoch_e_it_is_infonce(make: Callable[..., FrozenPosterior]) -> None:
    criterion = InfoNCE(TAU, make(start_epoch=3))
    h1, h2 = views(seed=20)
    for epoch in (0, 1, 2):
        criterion.set_epoch(epoch)
        assert criterion(h1, h2).item() == pytest.approx(infonce(h1, h2, TAU), rel=1e-12)
    criterion.set_epoch(3)
    assert criterion(h1, h2).item() != pytest.approx(infonce(h1, h2, TAU), rel=1e-3)


def test_the_fit_happens_once() -> None:
    miner = ProGCLWeight(start_epoch=1)
    criterion = train_past_the_fit(miner)
    before = miner.fitted.clone(), miner.snapshot.clone()
    criterion(*views(seed=30))
    assert torch.equal(miner.fitted, before[0])
    assert torch.equal(miner.snapshot, before[1])


def test_weights_average_one_and_skip_the_anchor() -> None:
    criterion = train_past_the_fit(ProGCLWeight(start_epoch=1))
    miner = criterion.miner
    z1, z2 = (unit_rows(h) for h in views(seed=20))
    for view, (own, other) in enumerate(((z1, z2), (z2, z1))):
        sim = torch.stack([own @ other.T, own @ own.T], dim=1)
        weight = miner.weight(Block(sim, sim[:, 0].diagonal(), (other, own), torch.arange(N), view, TAU))
        assert weight is not None
        assert (weight[:, 0].diagonal() == 0).all()
        torch.testing.assert_close(weight.sum(dim=(1, 2)), torch.full((N,), N - 1.0, dtype=torch.float64))


def test_mixed_pairs_are_of_two_different_negatives() -> None:
    miner = ProGCLMix(start_epoch=1, hardest=3, synthetic=500)
    train_past_the_fit(miner)
    first, second = miner.pairs
    assert (first != second).all()
    counts = torch.bincount(first * 3 + second, minlength=9)
    assert (counts[[1, 2, 5]] > 100).all()  # all three pairs, about 167 times each


@pytest.mark.parametrize("make", MAKERS)
def test_parallel_embeddings_warn_and_stay_infonce(make: Callable[..., FrozenPosterior]) -> None:
    criterion = InfoNCE(TAU, make(start_epoch=0))
    h = torch.ones(9, 3, dtype=torch.float64)
    with pytest.warns(UserWarning, match="no mixture fitted"):
        value = criterion(h, h)
    assert value.item() == pytest.approx(math.log(17), rel=1e-12)


@pytest.mark.parametrize("make", MAKERS)
def test_nan_is_refused_and_does_not_spread_into_the_miner(make: Callable[..., FrozenPosterior]) -> None:
    h1, h2 = views(seed=20)
    broken = h1.clone()
    broken[3, 0] = torch.nan
    criterion = InfoNCE(TAU, make(start_epoch=1))
    criterion.set_epoch(1)
    with pytest.raises(InputError, match="row 3 of the embeddings is not finite"):
        criterion(broken, h2)
    expected = InfoNCE(TAU, make(start_epoch=1))
    expected.set_epoch(1)
    assert criterion(h1, h2).item() == expected(h1, h2).item()


@pytest.mark.parametrize(("make", "synthetic"), list(zip(MAKERS, (0, 9), strict=True)))
def test_a_graph_of_two_nodes_has_one_negative_to_weigh_or_mix(
    make: Callable[..., FrozenPosterior], synthetic: int
) -> None:
    criterion = InfoNCE(TAU, make(start_epoch=0))
    criterion(*views(1, n=2))
    h1, h2 = views(2, n=2)
    extras = [[[cosines(a, b)[i][1 - i]] * synthetic for i in range(2)] for a, b in ((h1, h2), (h2, h1))]
    expected = loss(h1, h2, TAU, [[[1.0] * 2] * 2] * 2, extras)
    assert criterion(h1, h2).item() == pytest.approx(expected, rel=1e-10)


def test_an_anchor_without_any_weight_keeps_infonce() -> None:
    miner = ProGCLWeight(start_epoch=1)
    criterion = train_past_the_fit(miner)
    miner.source.fits[0, :2] = torch.tensor([2.0, 3.0])  # every similarity is below: s = 0
    h1, h2 = views(seed=20)
    assert criterion(h1, h2).item() == pytest.approx(infonce(h1, h2, TAU), rel=1e-12)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("refit", [False, True])
def test_state_is_saved_and_restored(make: Callable[..., FrozenPosterior], variant: Variant, refit: bool) -> None:
    criterion = train_past_the_fit(make(start_epoch=1, variant=variant, seed=1))
    copy = InfoNCE(TAU, make(start_epoch=1, variant=variant, seed=2))
    if refit:
        copy.set_epoch(1)
        copy(*views(seed=40))
    copy.load_state_dict(criterion.state_dict())
    copy.set_epoch(2)
    for seed in (20, 30):
        assert torch.equal(criterion(*views(seed)), copy(*views(seed)))


def test_every_degenerate_fit_warns() -> None:
    h = torch.ones(9, 3, dtype=torch.float64)
    for _ in range(2):
        miner = ProGCLWeight(start_epoch=0)
        with pytest.warns(ProgclWarning, match="all equal"):
            InfoNCE(TAU, miner)(h, h)
        assert "degenerate fit" in repr(miner)


def test_the_representation_states_options_and_fit() -> None:
    miner = ProGCLWeight(start_epoch=1)
    assert "start_epoch=1, variant=paper, not fitted" in repr(miner)
    train_past_the_fit(miner)
    assert "start_epoch=1, variant=paper, on" in repr(miner)


def test_another_number_of_nodes_is_refused() -> None:
    criterion = train_past_the_fit(ProGCLWeight(start_epoch=1))
    with pytest.raises(InputError, match=r"fitted on embeddings \[15, 6\]"):
        criterion(*views(seed=20, n=12))


def test_a_loop_without_set_epoch_is_warned() -> None:
    criterion = InfoNCE(TAU, ProGCLWeight(start_epoch=2))
    for _ in range(2):
        criterion(*views(seed=20))
    with pytest.warns(UserWarning, match="set_epoch"):
        criterion(*views(seed=20))


class Largest(TorchDispatchMode):
    """Tracks the number of elements of the largest tensor."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("make", [ProGCLWeight, lambda **options: ProGCLMix(hardest=20, synthetic=20, **options)])
def test_nothing_of_n_squared_elements_is_ever_alive(
    make: Callable[..., FrozenPosterior], variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 500
    monkeypatch.setattr("progcl.miners.base.BLOCK_ELEMENTS", 10 * n)
    monkeypatch.setattr("progcl.losses.tiles.TILE_SIDE", 50)
    criterion = InfoNCE(TAU, make(start_epoch=1, samples=20, variant=variant), memory=0)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        for epoch in (0, 1, 2):
            criterion.set_epoch(epoch)
            h1, h2 = (h.requires_grad_() for h in views(seed=20, n=n))
            criterion(h1, h2).backward()
    assert largest.elements <= n * n // 20


@pytest.mark.parametrize(("variant", "ranked_views"), [("paper", 2), ("released", 1)])
def test_candidates_are_kept_as_far_as_they_fit_the_memory(variant: Variant, ranked_views: int) -> None:
    """5 of 15 nodes for each anchor, two bytes each; without them the loss is the same."""
    needed, values = ranked_views * 5 * N * 2, []
    for memory in (needed, needed - 1):
        miner = ProGCLMix(start_epoch=1, hardest=5, synthetic=9, variant=variant)
        criterion = InfoNCE(TAU, miner, memory=memory / 1e6)
        criterion.set_epoch(1)
        values.append(criterion(*views(seed=10)).item())
        assert len(miner.candidates) == (ranked_views if memory == needed else 0)
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_bad_options() -> None:
    with pytest.raises(InputError, match="variant"):
        ProGCLWeight(variant="original")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="start_epoch"):
        ProGCLMix(start_epoch=-1)
    with pytest.raises(InputError, match="hardest"):
        ProGCLMix(hardest=0)
