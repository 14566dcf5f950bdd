"""The contract of a miner, for anybody's to be checked: `check_miner(MyMiner)`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from progcl.errors import InputError
from progcl.losses.infonce import InfoNCE, OneWay
from progcl.losses.tiles import Shard
from progcl.miners.base import Block, Miner

EPOCHS = (0, 10**6, 10**6 + 1)  # before, at and after whatever epoch a miner begins to work


PARTS = 3


def check_miner(make: Callable[[], Miner], nodes: int = 23, width: int = 6, tau: float = 0.4) -> None:
    """Raise AssertionError, with what is wrong, unless the miners that `make` makes keep the contract.

    Loss and gradient are finite, also on a graph of 2 nodes and in single precision. After `prepare` a miner is pure:
    asked twice it says the same, and its state stays. An anchor is never its own negative. Rows cut into blocks, split
    over processes or shuffled change nothing, nor does the closed form of a miner that has one. It takes some of the
    nodes as well as all, batches of a larger graph with their rows in any order, and one bank of candidates as well as
    two. What a checkpoint saves is enough to go on alike.

    Args:
        make: gives a new miner at every call, always with the same seed
        nodes: of the toy graph
        width: of its vectors
        tau: temperature
    """
    if isinstance(make, Miner):
        raise InputError(
            "check_miner needs something that makes miners", "check_miner(MyMiner), or a lambda with options"
        )
    whole = _step(_late(make, nodes, width, tau), nodes, width)
    _check_finite(make, width, tau)
    _check_purity(make, nodes, width, tau)
    _check_own_column(make, nodes, width, tau)
    for size in (1, 5, nodes):
        _assert_same(whole, _step(_late(make, nodes, width, tau, size), nodes, width), f"blocks of {size} anchors")
    _assert_same(whole, _step(_late(make, nodes, width, tau, fast=False), nodes, width), "the path without closed form")
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    _assert_same(whole, _step(_late(make, nodes, width, tau), nodes, width, order), "shuffled nodes")
    _assert_same(whole, _split(make, nodes, width, tau), f"anchors split over {PARTS} processes")
    _assert_same(whole, _one_way(make, nodes, width, tau), "one side after the other")
    some = order[: max(2, nodes // 2)]
    closed, walked = (_step(_late(make, nodes, width, tau, fast=fast), nodes, width, some) for fast in (True, False))
    _assert_same(closed, walked, "some of the nodes as anchors, with and without closed form")
    _check_batches(make, nodes, width, tau)
    _check_state(make, nodes, width, tau)


def toy_views(nodes: int, width: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Two noisy looks at nodes around a few centers: similarities with two modes."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.eye(width, dtype=torch.float64)[torch.arange(nodes) % min(3, width)]
    noise = torch.randn(2, nodes, width, generator=generator, dtype=torch.float64) / width**0.5
    first, second = (centers + 0.4 * noise).to(dtype)
    return first.requires_grad_(), second.requires_grad_()


def _late(
    make: Callable[[], Miner], nodes: int, width: int, tau: float, block_size: int | None = None, fast: bool = True
) -> InfoNCE:
    """A loss whose miner has seen a step before and a step after its beginning."""
    criterion = InfoNCE(tau, make(), block_size, fast=fast)
    for epoch in EPOCHS[:2]:
        criterion.set_epoch(epoch)
        criterion(*toy_views(nodes, width, seed=epoch))
    criterion.set_epoch(EPOCHS[2])
    return criterion


def _step(criterion: InfoNCE, nodes: int, width: int, anchors: Tensor | None = None) -> list[Tensor]:
    """Loss and gradients of one more step."""
    views = toy_views(nodes, width, seed=1)
    loss = criterion(*views, anchors)
    return [loss.detach(), *torch.autograd.grad(loss, views)]


def _assert_same(one: list[Tensor], other: list[Tensor], what: str) -> None:
    for name, a, b in zip(("loss", "gradient", "gradient"), one, other, strict=True):
        difference = float((a - b).abs().max())
        assert difference <= 1e-9 * float(1 + a.abs().max()), f"{what}: the {name} differs by {difference:.1e}"


def _check_finite(make: Callable[[], Miner], width: int, tau: float) -> None:
    for nodes in (2, 3, 40):
        for dtype in (torch.float32, torch.float64):
            criterion = InfoNCE(tau, make())
            for epoch in EPOCHS:
                criterion.set_epoch(epoch)
                views = toy_views(nodes, width, epoch, dtype)
                loss = criterion(*views)
                where = f"{nodes} nodes, {dtype}, epoch {epoch}"
                assert loss.isfinite(), f"the loss is {loss.item()} ({where})"
                for grad in torch.autograd.grad(loss, views):
                    assert grad.isfinite().all(), f"the gradient is not finite ({where})"


def _check_purity(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> None:
    criterion = _late(make, nodes, width, tau)
    block = _block(criterion, nodes, width)
    before = copy.deepcopy(criterion.state_dict())
    first, second = criterion.row_losses(block), criterion.row_losses(block)
    assert torch.equal(first, second), "asked twice about one block, the miner answers differently"
    for name, value in criterion.state_dict().items():
        same = not isinstance(value, Tensor) or torch.equal(value, before[name])
        assert same, f"`{name}` changes while a block is looked at; only `prepare` and `set_epoch` may change state"


def _check_own_column(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> None:
    criterion = _late(make, nodes, width, tau)
    for view in (0, 1):
        block = _block(criterion, nodes, width, view)
        for value in (-1.0, 1.0):
            changed = replace(block, sim=block.masked(block.sim, value))
            difference = float((criterion.row_losses(changed) - criterion.row_losses(block)).abs().max())
            assert difference < 1e-12, "an anchor is counted among its own negatives: its own column changes the loss"


def _block(criterion: InfoNCE, nodes: int, width: int, view: int = 0) -> Block:
    """All rows of one view, after `prepare`."""
    with torch.no_grad():
        z = [torch.nn.functional.normalize(h, dim=1) for h in toy_views(nodes, width, seed=1)]
        criterion.miner.prepare(z[0], z[1], None)
        own, other = z[view], z[1 - view]
        sim = torch.stack([own @ other.T, own @ own.T], dim=1)
    return Block(sim, (own * other).sum(dim=1), (other, own), torch.arange(nodes), view, criterion.tau)


def _split(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> list[Tensor]:
    parts = []
    for part in range(PARTS):
        criterion = _late(make, nodes, width, tau)
        criterion.split = Shard((part, PARTS))
        parts.append(_step(criterion, nodes, width))
    return [torch.stack(each).sum(dim=0) for each in zip(*parts, strict=True)]


def _one_way(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> list[Tensor]:
    """The same step side by side; and a step with one bank, which has to be finite and above 0."""
    h1, h2 = toy_views(nodes, width, seed=1)
    alone = OneWay(tau, _late(make, nodes, width, tau).miner)(h1, h2)
    assert 0 < alone.item() < torch.inf, f"with one bank of candidates the loss is {alone.item()}"
    criterion = OneWay(tau, _late(make, nodes, width, tau).miner)
    loss = (criterion(h1, h2, h2, h1) + criterion(h2, h1, h1, h2, view=1)) / 2
    return [loss.detach(), *torch.autograd.grad(loss, (h1, h2))]


def _check_batches(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> None:
    """Two batches an epoch; in one of two losses, the last epoch's come with their rows in another order."""
    losses = [InfoNCE(tau, make()), InfoNCE(tau, make())]
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    for epoch in EPOCHS:
        h1, h2 = toy_views(nodes, width, seed=epoch)
        for part in order.tensor_split(2 if nodes > 3 else 1):
            turned = part.flip(0) if epoch == EPOCHS[2] else part
            for criterion in losses:
                criterion.set_epoch(epoch)
            one, other = (
                criterion(h1[rows], h2[rows], nodes=rows)
                for criterion, rows in zip(losses, (part, turned), strict=True)
            )
            assert one.isfinite(), f"the loss of a batch is {one.item()} (epoch {epoch})"
            difference = abs(one.item() - other.item())
            assert difference <= 1e-9 * (1 + abs(one.item())), f"a batch's rows in another order: {difference:.1e}"


def _check_state(make: Callable[[], Miner], nodes: int, width: int, tau: float) -> None:
    criterion, other = _late(make, nodes, width, tau), InfoNCE(tau, make())
    for name, value in criterion.state_dict().items():
        assert isinstance(value, Tensor), f"`{name}` is no tensor, which a checkpoint cannot keep"
    other.load_state_dict(criterion.state_dict())
    other.set_epoch(EPOCHS[2])
    for what in ("restored from its state", "restored, one step on"):
        _assert_same(_step(criterion, nodes, width), _step(other, nodes, width), what)
