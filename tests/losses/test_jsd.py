"""SIGNA's loss against a loop from its definition."""

import math

import pytest
import torch

from progcl import InputError
from progcl.losses.jsd import NeighborJSD
from support.naive import cosine, unit

N = 11
PAIRS = torch.tensor([[0, 0, 3, 3, 5, 9, 9, 9, 10], [1, 4, 0, 0, 5, 0, 1, 2, 7]])  # a repeated pair, a self pair


def naive_jsd(h: torch.Tensor, pairs: torch.Tensor) -> float:
    total = 0.0
    for i in range(len(h)):
        near = {i} | {j for k, j in pairs.T.tolist() if k == i}
        similarity = [(cosine(h[i], h[j]) + 1) / 2 for j in range(len(h))]
        far = [j for j in range(len(h)) if j not in near]
        total -= sum(math.log(similarity[j] + 1e-6) for j in near) / len(near)
        total -= sum(math.log(1 - similarity[j] + 1e-6) for j in far) / len(far)
    return total / len(h)


@pytest.mark.parametrize("block_size", [None, 1, 4])
def test_the_loss_is_its_definition(block_size: int | None) -> None:
    h = 3 * unit(N, 5, 0)
    assert NeighborJSD(block_size)(h, PAIRS).item() == pytest.approx(naive_jsd(h, PAIRS), rel=1e-9)


def test_the_gradient_is_that_of_the_loss() -> None:
    h = unit(N, 5, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: NeighborJSD(4)(rows, PAIRS), [h])


def test_rows_without_negatives_and_without_positives() -> None:
    everyone = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    h = unit(4, 3, 2).requires_grad_()
    for pairs in (everyone, everyone[:, :0]):
        loss = NeighborJSD()(h, pairs)
        (grad,) = torch.autograd.grad(loss, h)
        assert loss.isfinite()
        assert grad.isfinite().all()
    with pytest.raises(InputError, match="N ≥ 2"):
        NeighborJSD()(h[:1], everyone[:, :0])
