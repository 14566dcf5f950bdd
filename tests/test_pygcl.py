"""The adapter inside PyGCL's own DualBranchContrast.

PyGCL imports dgl, torch_scatter and torch_sparse, compiled packages that do not come for every torch; the contrast
between nodes uses none of them, so that empty modules stand in for them here.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn  # noqa: F401  before the stand-ins, which it would take for the packages

from progcl import InfoNCE, InputError, Miner, ProGCLMix, ProGCLWeight
from progcl.losses.infonce import OneWay
from progcl.miners.debiased import DCL, HCL
from progcl.miners.mochi import MoCHi
from progcl.miners.ring import Ring
from progcl.pygcl import MinedInfoNCE
from progcl.testing import toy_views
from support.pygcl import stand_in_for_compiled_packages

N = 18
MAKERS: list[Callable[[], Miner]] = [
    Miner,
    DCL,
    HCL,
    Ring,
    lambda: MoCHi(hardest=5, synthetic=7),
    lambda: ProGCLWeight(start_epoch=1),
    lambda: ProGCLMix(start_epoch=1, hardest=5, synthetic=7),
    lambda: ProGCLWeight(start_epoch=1, variant="released"),
]


@pytest.fixture
def dual_branch(monkeypatch: pytest.MonkeyPatch) -> Any:
    stand_in_for_compiled_packages(monkeypatch)
    return pytest.importorskip("GCL.models", exc_type=ImportError).DualBranchContrast


@pytest.mark.parametrize("make", MAKERS)
def test_dual_branch_contrast_is_our_infonce(make: Callable[[], Miner], dual_branch: Any) -> None:
    ours, loss = InfoNCE(0.4, make()), MinedInfoNCE(0.4, make(), block_size=5)
    contrast = dual_branch(loss=loss, mode="L2L", intraview_negs=True)
    for epoch in (0, 1, 2):
        ours.set_epoch(epoch)
        loss.set_epoch(epoch)
        views = toy_views(N, 6, seed=epoch)
        one, other = ours(*views), contrast(*views)
        torch.testing.assert_close(one, other, rtol=1e-10, atol=0)
        for a, b in zip(torch.autograd.grad(one, views), torch.autograd.grad(other, views), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12)


def test_without_intraview_negatives(dual_branch: Any) -> None:
    h1, h2 = toy_views(N, 6, seed=0)
    value = dual_branch(loss=MinedInfoNCE(0.4), mode="L2L")(h1, h2)
    expected = (OneWay(0.4)(h1, h2) + OneWay(0.4)(h2, h1)) / 2
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)


def test_it_equals_pygcls_own_loss_where_that_is_right(dual_branch: Any) -> None:
    """Between views; within a view PyGCL's masks count an anchor as its own negative."""
    from GCL.losses import InfoNCE as Theirs

    h1, h2 = (h.detach().float() for h in toy_views(N, 6, seed=0))
    ours, theirs = (dual_branch(loss=loss, mode="L2L")(h1, h2) for loss in (MinedInfoNCE(0.4), Theirs(0.4)))
    torch.testing.assert_close(ours, theirs)


def test_within_a_view_pygcl_counts_an_anchor_among_its_negatives(dual_branch: Any) -> None:
    from GCL.losses import InfoNCE as Theirs

    h1, h2 = (torch.nn.functional.normalize(h.detach().float(), dim=1) for h in toy_views(N, 6, seed=0))
    theirs = dual_branch(loss=Theirs(0.4), mode="L2L", intraview_negs=True)(h1, h2)
    rows = [torch.cat([a @ b.T, a @ a.T], dim=1) / 0.4 for a, b in ((h1, h2), (h2, h1))]
    expected = torch.stack([row.logsumexp(dim=1) - row.diagonal() for row in rows]).mean()
    torch.testing.assert_close(theirs, expected)
    assert theirs > dual_branch(loss=MinedInfoNCE(0.4), mode="L2L", intraview_negs=True)(h1, h2)


def test_the_state_is_saved_with_the_contrast(dual_branch: Any) -> None:
    contrast, other = (
        dual_branch(loss=MinedInfoNCE(0.4, ProGCLWeight(start_epoch=1)), mode="L2L", intraview_negs=True)
        for _ in range(2)
    )
    contrast.loss.set_epoch(1)
    contrast(*toy_views(N, 6, seed=0))
    other.load_state_dict(contrast.state_dict())
    other.loss.set_epoch(2)
    contrast.loss.set_epoch(2)
    views = toy_views(N, 6, seed=3)
    assert torch.equal(contrast(*views), other(*views))


def test_bad_input() -> None:
    h1, h2 = toy_views(N, 6, seed=0)
    with pytest.raises(InputError, match="samples"):
        MinedInfoNCE()(h1, h2[:5])
    with pytest.raises(InputError, match="positive"):
        MinedInfoNCE()(h1, h2, torch.ones(N, N))
