"""Every miner of the library keeps the contract; miners that break it on purpose are found out."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from progcl import InfoNCE, InputError, Miner
from progcl.miners import MINERS
from progcl.miners.base import Block
from progcl.miners.progcl import ProGCLMix, ProGCLWeight
from progcl.miners.ring import Ring
from progcl.testing import check_miner, toy_views

pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted")
SMALL = {"hardest": 7, "synthetic": 11}


def small(name: str) -> Miner:
    """A miner of the library with few candidates, for a toy graph."""
    return MINERS[name](**(SMALL if name in ("progcl-mix", "mochi") else {}))


@pytest.mark.parametrize("name", MINERS)
def test_miner_contract(name: str) -> None:
    check_miner(lambda: small(name))


@pytest.mark.parametrize("name", ["progcl-mix", "mochi"])
def test_miner_contract_with_more_candidates_than_nodes(name: str) -> None:
    check_miner(MINERS[name], nodes=12)


@pytest.mark.parametrize("estimator", ["gaussian", "random", "tuned"])
@pytest.mark.parametrize("make", [ProGCLWeight, lambda **options: ProGCLMix(hardest=7, synthetic=11, **options)])
def test_estimators_keep_the_contract(make: Callable[..., Miner], estimator: str) -> None:
    check_miner(lambda: make(estimator=estimator))


@pytest.mark.parametrize("make", [ProGCLWeight, lambda **options: ProGCLMix(hardest=7, **options)])
def test_released_variants_keep_the_contract(make: Callable[..., Miner]) -> None:
    check_miner(lambda: make(variant="released"))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(MINERS)),
    nodes=st.integers(2, 30),
    width=st.integers(2, 12),
    tau=st.floats(0.05, 5),
)
def test_miner_contract_for_any_shape(name: str, nodes: int, width: int, tau: float) -> None:
    check_miner(lambda: small(name), nodes, width, tau)


class Impure(Miner):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def weight(self, block: Block) -> Tensor:
        self.calls += 1
        return block.sim.new_full((1, 1, 1), 1 + float(self.calls) / 10).expand(len(block.rows), 1, block.sim.size(2))


class Blockwise(Miner):
    """Divides by the maximum of a block instead of a row."""

    def weight(self, block: Block) -> Tensor:
        return block.sim.exp() / block.masked(block.sim, -1).exp().max()


class CountsItself(Miner):
    def weight(self, block: Block) -> Tensor:
        return (block.sim / block.sim.sum(dim=2, keepdim=True)).detach()


class ByPosition(Miner):
    """Mistakes the number of a row for the number of a node."""

    def weight(self, block: Block) -> Tensor:
        position = torch.arange(1, block.sim.size(2) + 1, dtype=block.sim.dtype)
        return position.expand(len(block.rows), 1, -1)


class Forgetful(Miner):
    steps = 0

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        self.steps += 1

    def weight(self, block: Block) -> Tensor:
        return block.sim.new_full((len(block.rows), 1, block.sim.size(2)), float(self.steps))


class NotFinite(Miner):
    def correct(self, mass: Tensor, block: Block) -> Tensor:
        return mass.sub(mass.max()).log()


class WrongPlan(Ring):
    def weight(self, block: Block) -> Tensor:
        return super().weight(block) * 2

    def plan(self):  # type: ignore[no-untyped-def]
        return super().plan()


class AllNodes(Miner):
    """Mistakes every node for an anchor."""

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        self.size = len(z1)

    def weight(self, block: Block) -> Tensor:
        return block.sim.new_ones(len(block.rows), 1, self.size)


class SecondBank(Miner):
    def weight(self, block: Block) -> Tensor:
        return block.sim[:, 1:].exp().detach()


class OnlyInView1(Miner):
    def weight(self, block: Block) -> Tensor:
        mean = block.sim.detach().exp().mean(dim=2, keepdim=True)
        return (mean if block.view else torch.ones_like(mean)).expand_as(block.sim)


class NoTensor(Miner):
    def get_extra_state(self) -> int:
        return 3

    def set_extra_state(self, state: int) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (Impure, "second call"),
        (Blockwise, "blocks of 1"),
        (CountsItself, "own negatives"),
        (ByPosition, "shuffled"),
        (Forgetful, "restored"),
        (NotFinite, "finite|nan|inf"),
        (WrongPlan, "blocks|closed form"),
        (AllNodes, "shape"),
        (SecondBank, "shape"),
        (OnlyInView1, "own negatives"),
        (NoTensor, "no tensor"),
    ],
)
def test_a_broken_contract_is_named(make: Callable[[], Miner], complaint: str) -> None:
    with pytest.raises((AssertionError, InputError), match=complaint):
        check_miner(make)


def test_toy_views_have_two_modes() -> None:
    """Else ProGCL would not mine in any check above."""
    miner = ProGCLWeight(start_epoch=0)
    InfoNCE(0.4, miner)(*toy_views(23, 6, seed=0))
    assert miner.active
