"""Contract checks that any miner, also a user's own, has to pass: `check_miner(MyMiner)`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from progcl.errors import InputError
from progcl.losses.infonce import InfoNCE, OneWay
from progcl.losses.tiles import Shard
from progcl.miners.base import Block, Miner

EPOCHS = (0, 10**6, 10**6 + 1)  # before, at and after any epoch at which a miner may start
WORLD_SIZE = 3


def check_miner(make: Callable[[], Miner], nodes: int = 23, width: int = 6, tau: float = 0.4) -> None:
    """Check that the miners which `make` returns keep the contract.

    Loss and gradient are finite, also on a graph of 2 nodes and in single precision. After `prepare` a miner is pure:
    the same block gives the same result, and its state does not change. An anchor is never its own negative. The
    result does not depend on blocks, on shards, on the order of nodes, nor on whether the miner's closed form is used.
    Some nodes can be anchors instead of all, batches of a larger graph come in any order of rows, there may be one
    bank of candidates or two, and an anchor may have several positives, none of which is a negative. A checkpoint
    restores the exact state.

    Args:
        make: returns a new miner at every call, always with the same seed
        nodes: of the toy graph
        width: of its vectors
        tau: temperature

    Raises:
        AssertionError: the contract is broken; the message says how
        InputError: `make` is a miner instead of a function or class that makes miners
    """
    if isinstance(make, Miner):
        hint = "check_miner(MyMiner), or a lambda with options"
        raise InputError("check_miner needs a class or function that makes miners", hint)
    checks = _Checks(make, nodes, width, tau)
    checks.check_finite()
    checks.check_purity()
    checks.check_own_column()
    checks.check_invariance()
    checks.check_some_anchors()
    checks.check_batches()
    checks.check_positives()
    checks.check_state()


def toy_views(nodes: int, width: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Two noisy views [nodes, width] of vectors around a few centers: their similarities have two modes."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.eye(width, dtype=torch.float64)[torch.arange(nodes) % min(3, width)]
    noise = torch.randn(2, nodes, width, generator=generator, dtype=torch.float64) / width**0.5
    first, second = (centers + 0.4 * noise).to(dtype)
    return first.requires_grad_(), second.requires_grad_()


@dataclass(frozen=True)
class _Checks:
    """The checks of one miner on one toy graph."""

    make: Callable[[], Miner]
    nodes: int
    width: int
    tau: float

    def check_finite(self) -> None:
        """Loss and gradient of small graphs in both precisions."""
        for nodes in (2, 3, 40):
            for dtype in (torch.float32, torch.float64):
                criterion = InfoNCE(self.tau, self.make())
                for epoch in EPOCHS:
                    criterion.set_epoch(epoch)
                    views = toy_views(nodes, self.width, epoch, dtype)
                    loss = criterion(*views)
                    where = f"{nodes} nodes, {dtype}, epoch {epoch}"
                    assert loss.isfinite(), f"the loss is {loss.item()} ({where})"
                    for grad in torch.autograd.grad(loss, views):
                        assert grad.isfinite().all(), f"the gradient is not finite ({where})"

    def check_purity(self) -> None:
        """The same block twice, and the state before and after."""
        criterion = self._started()
        block = self._block(criterion)
        before = copy.deepcopy(criterion.state_dict())
        first, second = criterion.row_losses(block), criterion.row_losses(block)
        assert torch.equal(first, second), "the same block gives different results at the second call"
        for name, value in criterion.state_dict().items():
            same = not isinstance(value, Tensor) or torch.equal(value, before[name])
            assert same, f"`{name}` changes in a call with a block; only `prepare` and `set_epoch` may change state"

    def check_own_column(self) -> None:
        """The similarity of an anchor with itself does not count."""
        criterion = self._started()
        for view in (0, 1):
            block = self._block(criterion, view)
            for value in (-1.0, 1.0):
                changed = replace(block, sim=block.masked(block.sim, value))
                difference = float((criterion.row_losses(changed) - criterion.row_losses(block)).abs().max())
                assert difference < 1e-12, "an anchor is among its own negatives: its own column changes the loss"

    def check_invariance(self) -> None:
        """Blocks, paths, the order of nodes, shards and directions change neither loss nor gradient."""
        expected = self._step(self._started())
        for size in (1, 5, self.nodes):
            _assert_same(expected, self._step(self._started(size)), f"blocks of {size} anchors")
        _assert_same(expected, self._step(self._started(fast=False)), "the path without closed form")
        _assert_same(expected, self._step(self._started(), self._order()), "shuffled nodes")
        _assert_same(expected, self._sum_shards(), f"anchors split over {WORLD_SIZE} processes")
        _assert_same(expected, self._one_way(), "one direction after the other")

    def check_some_anchors(self) -> None:
        """Some of the nodes as anchors, on both paths."""
        some = self._order()[: max(2, self.nodes // 2)]
        closed, generic = (self._step(self._started(fast=fast), some) for fast in (True, False))
        _assert_same(closed, generic, "some of the nodes as anchors, with and without closed form")

    def check_batches(self) -> None:
        """Two batches an epoch; the second loss gets the last epoch's batches with their rows in reverse order."""
        losses = [InfoNCE(self.tau, self.make()), InfoNCE(self.tau, self.make())]
        for epoch in EPOCHS:
            h1, h2 = toy_views(self.nodes, self.width, seed=epoch)
            for batch in self._order().tensor_split(2 if self.nodes > 3 else 1):
                reordered = batch.flip(0) if epoch == EPOCHS[2] else batch
                values = []
                for criterion, rows in zip(losses, (batch, reordered), strict=True):
                    criterion.set_epoch(epoch)
                    values.append(criterion(h1[rows], h2[rows], nodes=rows).item())
                assert abs(values[0]) < torch.inf, f"the loss of a batch is {values[0]} (epoch {epoch})"
                difference = abs(values[0] - values[1])
                same = difference <= 1e-9 * (1 + abs(values[0]))
                assert same, f"rows of a batch in another order: {difference:.1e}"

    def check_positives(self) -> None:
        """Several positives per anchor: blocks, paths and shards do not matter, and none counts as a negative."""
        expected = self._step_with_positives(self._started())
        assert expected[0].isfinite(), f"with several positives the loss is {expected[0].item()}"
        for size in (1, 5):
            same = self._step_with_positives(self._started(size))
            _assert_same(expected, same, f"several positives, blocks of {size} anchors")
        same = self._step_with_positives(self._started(fast=False))
        _assert_same(expected, same, "several positives, the path without closed form")
        shards = [self._step_with_positives(self._started(), rank) for rank in range(WORLD_SIZE)]
        sums = [torch.stack(parts).sum(dim=0) for parts in zip(*shards, strict=True)]
        _assert_same(expected, sums, f"several positives, anchors split over {WORLD_SIZE} processes")
        criterion = self._started()
        criterion.miner.fewest_negatives = self.nodes - 2
        excluded = torch.eye(self.nodes, dtype=torch.bool).roll(1, dims=1)
        block = replace(self._block(criterion), excluded=excluded)
        changed = replace(block, sim=torch.where(excluded.unsqueeze(1), 1.0, block.sim))
        difference = float((criterion.mass(changed) - criterion.mass(block)).abs().max())
        assert difference < 1e-12, "a positive is among the negatives: its similarity changes the negatives' mass"

    def check_state(self) -> None:
        """A state loaded into a new miner gives the same next steps."""
        criterion, other = self._started(), InfoNCE(self.tau, self.make())
        for name, value in criterion.state_dict().items():
            assert isinstance(value, Tensor), f"`{name}` is no tensor, so that a checkpoint cannot hold it"
        other.load_state_dict(criterion.state_dict())
        other.set_epoch(EPOCHS[2])
        for what in ("restored from its state", "restored, a step later"):
            _assert_same(self._step(criterion), self._step(other), what)

    def _started(self, block_size: int | None = None, fast: bool = True) -> InfoNCE:
        """A loss whose miner has made a step before it starts and one after."""
        criterion = InfoNCE(self.tau, self.make(), block_size, fast=fast)
        for epoch in EPOCHS[:2]:
            criterion.set_epoch(epoch)
            criterion(*toy_views(self.nodes, self.width, seed=epoch))
        criterion.set_epoch(EPOCHS[2])
        return criterion

    def _step(self, criterion: InfoNCE, anchors: Tensor | None = None) -> list[Tensor]:
        """Loss and gradients of the next step."""
        views = toy_views(self.nodes, self.width, seed=1)
        loss = criterion(*views, anchors)
        return [loss.detach(), *torch.autograd.grad(loss, views)]

    def _step_with_positives(self, criterion: InfoNCE, rank: int | None = None) -> list[Tensor]:
        """Loss and gradient of one view whose rows have up to three positives each; of one process's shard."""
        if rank is not None:
            criterion.shard = Shard((rank, WORLD_SIZE))
        view, rows = toy_views(self.nodes, self.width, seed=1)[0], torch.arange(self.nodes)
        pairs = torch.cat(
            [torch.stack([rows[::step], (rows[::step] + step) % self.nodes]) for step in (1, 2, 3)], dim=1
        )
        loss = criterion(view, positives=pairs)
        return [loss.detach(), *torch.autograd.grad(loss, view)]

    def _order(self) -> Tensor:
        """A permutation of the nodes."""
        return torch.randperm(self.nodes, generator=torch.Generator().manual_seed(0))

    def _block(self, criterion: InfoNCE, view: int = 0) -> Block:
        """All rows of one view, after `prepare`."""
        with torch.no_grad():
            z = [torch.nn.functional.normalize(h, dim=1) for h in toy_views(self.nodes, self.width, seed=1)]
            criterion.miner.prepare(z[0], z[1], None)
            own, other = z[view], z[1 - view]
            sim = torch.stack([own @ other.T, own @ own.T], dim=1)
        return Block(sim, (own * other).sum(dim=1), (other, own), torch.arange(self.nodes), view, criterion.tau)

    def _sum_shards(self) -> list[Tensor]:
        """Loss and gradients summed over the shards of all processes."""
        results = []
        for rank in range(WORLD_SIZE):
            criterion = self._started()
            criterion.shard = Shard((rank, WORLD_SIZE))
            results.append(self._step(criterion))
        return [torch.stack(shards).sum(dim=0) for shards in zip(*results, strict=True)]

    def _one_way(self) -> list[Tensor]:
        """Loss and gradients by `OneWay` in both directions; with one bank, the loss has to be finite and above 0."""
        h1, h2 = toy_views(self.nodes, self.width, seed=1)
        one_bank = OneWay(self.tau, self._started().miner)(h1, h2)
        assert 0 < one_bank.item() < torch.inf, f"with one bank of candidates the loss is {one_bank.item()}"
        criterion = OneWay(self.tau, self._started().miner)
        loss = (criterion(h1, h2, h2, h1) + criterion(h2, h1, h1, h2, view=1)) / 2
        return [loss.detach(), *torch.autograd.grad(loss, (h1, h2))]


def _assert_same(expected: list[Tensor], actual: list[Tensor], what: str) -> None:
    for index, (a, b) in enumerate(zip(expected, actual, strict=True)):
        name = "gradient" if index else "loss"
        difference = float((a - b).abs().max())
        assert difference <= 1e-9 * float(1 + a.abs().max()), f"{what}: the {name} differs by {difference:.1e}"
