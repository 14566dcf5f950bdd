"""InfoNCE with several positives per anchor, against loops from its definition."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from progcl import InputError
from progcl.losses import InfoNCE
from progcl.losses.positives import group_by_anchor
from progcl.miners import DCL, HCL, Miner, MoCHi, ProGCLMix, ProGCLWeight, Ring
from support.naive import clusters, cosine, unit

TAU = 0.4
N = 14
PAIRS = torch.tensor([[0, 0, 0, 3, 3, 5, 9, 9, 9, 9, 12, 1], [1, 4, 7, 0, 6, 5, 0, 1, 2, 3, 13, 1]])


def vectors(seed: int = 0) -> Tensor:
    return (clusters(N, 6, seed) + 0.3 * unit(N, 6, seed + 1)).requires_grad_()


def positives_of(pairs: Tensor) -> dict[int, list[int]]:
    """Self pairs and repeated pairs do not count."""
    found: dict[int, list[int]] = {}
    for i, j in pairs.T.tolist():
        if i != j and j not in found.setdefault(i, []):
            found[i].append(j)
    return {i: columns for i, columns in found.items() if columns}


def naive_loss(h: Tensor, pairs: Tensor, mass: Callable[[int, list[float], list[float]], float]) -> float:
    """Mean over the pairs of -log e^{θ/τ} / (e^{θ/τ} + M_i); `mass` gets an anchor, its negatives' and positives' θ."""
    values = []
    for i, columns in positives_of(pairs).items():
        negatives = [cosine(h[i], h[k]) for k in range(len(h)) if k != i and k not in columns]
        near = [cosine(h[i], h[j]) for j in columns]
        total = mass(i, negatives, near)
        values += [math.log(1 + total / math.exp(theta / TAU)) for theta in near]
    return sum(values) / len(values)


def plain(i: int, negatives: list[float], near: list[float]) -> float:
    return sum(math.exp(theta / TAU) for theta in negatives)


def debiased(i: int, negatives: list[float], near: list[float], beta: float = 0.0) -> float:
    n, prior = len(negatives), 0.1
    mean = sum(math.exp(theta / TAU) for theta in near) / len(near)
    importance = [math.exp(beta * theta / TAU) for theta in negatives]
    total = sum(w * math.exp(theta / TAU) for w, theta in zip(importance, negatives, strict=True))
    total /= sum(importance) / n
    return max((total - prior * n * mean) / (1 - prior), n * math.exp(-1 / TAU))


def ring(i: int, negatives: list[float], near: list[float]) -> float:
    ordered = sorted(negatives)
    return sum(
        math.exp(theta / TAU) for theta in ordered[int(0.2 * len(ordered)) : len(ordered) - int(0.3 * len(ordered))]
    )


CASES: dict[str, tuple[Miner | None, Callable[[int, list[float], list[float]], float]]] = {
    "none": (None, plain),
    "dcl": (DCL(0.1), debiased),
    "hcl": (HCL(0.1, 1.5), lambda i, negatives, near: debiased(i, negatives, near, 1.5)),
    "ring": (Ring(0.2, 0.7), ring),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_its_definition(name: str) -> None:
    miner, mass = CASES[name]
    h = vectors()
    assert InfoNCE(TAU, miner)(h, positives=PAIRS).item() == pytest.approx(naive_loss(h, PAIRS, mass), rel=1e-9)


@pytest.mark.parametrize("in_batch", [False, True])
def test_progcl_weight_weights_what_is_no_positive(in_batch: bool) -> None:
    """w_ik = p_ik s_ik / mean over the anchor's negatives, p and the range of s being those of epoch E."""
    miner, first, h = ProGCLWeight(start_epoch=1, prior=0.2), vectors(), vectors(7)
    loss = InfoNCE(TAU, miner)
    nodes = torch.arange(N).flip(0) + 3 if in_batch else None
    for epoch in (1, 2, 3):
        loss.set_epoch(epoch)
        value = loss(first if epoch == 1 else h, nodes=nodes, positives=PAIRS)
    assert miner.active
    low, high = miner.bounds.tolist()

    def s(theta: float) -> float:
        return float(min(max((theta - low) / (high - low), 0.0), 1.0))

    def mass(i: int, negatives: list[float], near: list[float]) -> float:
        columns = [k for k in range(N) if k != i and k not in positives_of(PAIRS)[i]]
        frozen = torch.tensor([s(cosine(first[i], first[k])) for k in columns], dtype=torch.float64)
        p: list[float] = miner.estimator.predict_proba(frozen)[:, 0].tolist()
        score = [p_ik * s(theta) for p_ik, theta in zip(p, negatives, strict=True)]
        mean = sum(score) / len(score)
        return sum(w / mean * math.exp(theta / TAU) for w, theta in zip(score, negatives, strict=True))

    assert value.item() == pytest.approx(naive_loss(h, PAIRS, mass), rel=1e-6)


@pytest.mark.parametrize("estimator", ["tuned", None])
def test_synthetic_negatives_are_mixed_of_negatives(estimator: str | None) -> None:
    """A positive that moves changes its own similarity with the anchor, and nothing that is mixed for it."""
    sizes = (100, 40)
    miner = ProGCLMix(1, 0.05, 10, 100, *sizes, estimator=estimator) if estimator else MoCHi(1, *sizes)
    loss, h = InfoNCE(TAU, miner), vectors()
    loss.set_epoch(1)
    loss(h, positives=PAIRS)
    assert miner.count == N - 1 - 4  # node 9 has four positives
    for row in (0, 9):
        only = PAIRS[:, PAIRS[0] == row]
        moved = h.detach().clone()
        moved[only[1]] = unit(only.size(1), 6, 40)
        masses = []
        for each in (h.detach(), moved):
            state = {name: value.clone() for name, value in miner.state_dict().items()}
            value = loss(each, positives=only).item()
            near = torch.stack([torch.cosine_similarity(each[row], each[j], dim=0) for j in only[1]])
            mass, low = 0.0, 0.0
            high = 1e6
            for _ in range(200):  # the mass that gives this loss
                mass = (low + high) / 2
                guess = float(torch.log1p(mass / (near / TAU).exp()).mean())
                low, high = (mass, high) if guess < value else (low, mass)
            masses.append(mass)
            miner.load_state_dict(state)
        assert masses[0] == pytest.approx(masses[1], rel=1e-8)


@pytest.mark.parametrize("miner", [None, Ring(keep="middle"), DCL(), HCL()])
def test_the_gradient_is_that_of_the_loss(miner: Miner | None) -> None:
    criterion = InfoNCE(TAU, miner, block_size=5)
    assert torch.autograd.gradcheck(lambda h: criterion(h, positives=PAIRS), [vectors()])


def test_pairs_are_grouped_once_each_without_self_pairs_and_full_rows() -> None:
    pairs = group_by_anchor(torch.tensor([[2, 0, 2, 1, 3, 3, 3, 3], [1, 1, 1, 1, 0, 1, 2, 3]]), 4)
    assert pairs.anchors.tolist() == [0, 2]  # node 3 has no negative left
    assert pairs.rowptr.tolist() == [0, 1, 2]
    assert pairs.column.tolist() == [1, 1]
    assert pairs.fewest_negatives(4) == 2


def test_pairs_are_a_tensor_a_list_or_an_array() -> None:
    h, pairs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), [[0, 1, 2], [1, 2, 3]]
    losses = [InfoNCE()(h, positives=given) for given in (torch.tensor(pairs), pairs, np.array(pairs))]
    assert losses[0] == losses[1] == losses[2]


def test_a_batch_without_pairs_has_no_loss() -> None:
    h = vectors()
    loss = InfoNCE(TAU)(h, positives=torch.empty(2, 0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert h.grad is not None
    assert not h.grad.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positives": torch.tensor([[0], [N]])}, f"row {N}, which does not exist"),
        ({"positives": torch.tensor([[-1], [0]])}, "row -1, which does not exist"),
        ({"positives": torch.tensor([0, 1])}, r"integers \[2, P\]"),
        ({"positives": torch.ones(2, 3)}, r"integers \[2, P\]"),
        ({"positives": PAIRS, "h2": torch.ones(N, 6)}, "two views, or one"),
        ({"positives": PAIRS, "anchors": torch.arange(3)}, "not both"),
        ({"positives": PAIRS, "nodes": torch.arange(3)}, "number of each of the 14 rows"),
        ({}, "two views, or one"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InfoNCE(TAU)(vectors(), **arguments)
