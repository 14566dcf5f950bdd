"""The miner interface: what a loss asks of a miner about a block of complete rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from progcl.errors import ProgclWarning

ELEMENTS = 2**20  # of one bank's similarities in a block, if the user does not set the block size


@dataclass(frozen=True)
class Block:
    """b anchors against all N candidates, in one bank or two.

    Attributes:
        sim: cosine similarities [b, V, N]; bank 0 is the other view, bank 1, if there is one, the anchors' own
        pos: similarity of each anchor with its positive, [b]
        banks: the candidates' unit vectors, [N, d] each
        rows: the anchors' indices [b]; column rows[i] holds no negative of anchor i in any bank
        view: which view the anchors are from, 0 or 1
        tau: the loss's temperature
    """

    sim: Tensor
    pos: Tensor
    banks: tuple[Tensor, ...]
    rows: Tensor
    view: int
    tau: float

    @property
    def count(self) -> int:
        """How many negatives an anchor has."""
        return self.sim.size(1) * (self.sim.size(2) - 1)

    def masked(self, values: Tensor, fill: float) -> Tensor:
        """`values` [b, V, N] with `fill` where an anchor would meet itself."""
        columns = self.rows[:, None, None].expand(-1, values.size(1), 1)
        return values.scatter(2, columns, fill)

    def exp(self, sim: Tensor) -> Tensor:
        """e^{(s-1)/τ}: the unit of every mass. Shifted by the largest cosine, it cannot overflow."""
        return sim.sub(1).div(self.tau).exp()


class Miner(nn.Module):
    """Plain InfoNCE: all negatives count alike.

    The base class of every miner: a subclass overrides what it changes. `prepare` may draw random numbers and
    set state; the others are pure, so that a loss does not depend on how the rows are cut into blocks. State
    lives in buffers.
    """

    epoch: int | None = None
    steps_without_epoch: int = 0
    memory: int = 10**9  # bytes that may be kept from step to step; the loss sets it

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch before its first step."""
        self.epoch = epoch

    def remind(self, start: int) -> None:
        """Warn a loop that has made `start` steps without telling any epoch: the miner waits for one."""
        if self.epoch is not None or start == 0 or not self.training:
            return
        self.steps_without_epoch += 1
        if self.steps_without_epoch == start + 1:
            message = f"{start} steps without set_epoch(): the miner stays off. Call it once an epoch"
            warnings.warn(message, ProgclWarning, stacklevel=5)

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Look at all unit vectors [N, d] of both views, once per step, without gradient.

        `anchors` are the nodes [n] that this step contrasts with each other, all if None: a block's rows and
        columns count these.
        """

    def prepare_batch(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        """The same for a step that sees some nodes of a larger graph alone: rows are those of `nodes` [n]."""
        self.prepare(z1, z2)

    @property
    def needs_all_nodes(self) -> bool:
        """Whether `prepare` has to see all nodes in this step, though few are contrasted; if not, few are embedded."""
        return False

    def weight(self, block: Block) -> Tensor | None:
        """Weights of the negatives, [b, 1, N] or [b, V, N]; None is 1. The anchors' own columns are ignored.

        V is 2, the banks of the other view and of the anchors' own, or 1 where there is one bank alone.
        """
        return None

    def extra(self, block: Block) -> Tensor | None:
        """Similarities of synthetic negatives, [b, K]."""
        return None

    def correct(self, mass: Tensor, block: Block) -> Tensor:
        """A better estimate of the negatives' mass Σ w e^{(s-1)/τ} of each anchor, [b]."""
        return mass

    def plan(self) -> Plan | None:
        """What `weight` and `extra` come to in closed form; None leaves them to the generic path.

        A subclass that overrides `weight`, `extra` or `correct` and not `plan` takes the generic path.
        """
        return Plan()


def blocks(nodes: int, size: int | None = None, start: int = 0, stop: int | None = None) -> Iterator[slice]:
    """Cut `nodes` rows, or a range of them, into slices of `size`, or of one that keeps a block's memory constant."""
    size = size or max(1, ELEMENTS // nodes)
    stop = nodes if stop is None else stop
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


@dataclass(frozen=True)
class Plan:
    """What the closed form needs to know of a miner; nothing for plain InfoNCE.

    Attributes:
        key: what the frozen parts were made from; they are kept from step to step as long as it is the same object
        probability: (view, rows, columns) -> p(true) of view's anchors `rows` and candidates `columns`, frozen
        bounds: the cosines that Min-Max normalisation takes to 0 and 1
        columns: for each view's anchors, the candidates to mix [N', N], ascending
        strength: (view, rows) -> what they are mixed by [N', b], frozen
        pairs: two rows of ranks [2, m], the smaller above the larger
        ring: quantiles of an anchor's similarities between which its negatives count
    """

    key: object = None
    probability: Callable[[int, slice, slice], Tensor] | None = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    columns: tuple[Tensor, ...] = ()
    strength: Callable[[int, slice], Tensor] | None = None
    pairs: Tensor | None = None
    ring: tuple[float, float] | None = None

    def mixing_bytes(self, like: Tensor) -> int:
        """What lists, places, strengths, gathered similarities and their gradients take for synthetic negatives."""
        if self.pairs is None:
            return 0
        ranks, pairs = len(self.columns[0]), self.pairs.size(1)
        lists = sum(part.numel() * part.element_size() for part in self.columns)
        places = 2 * (ranks + pairs) * torch.int32.itemsize
        return lists + len(like) * ((5 * ranks + 2 * pairs) * like.element_size() + places)
