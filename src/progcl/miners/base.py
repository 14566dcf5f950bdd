"""The miner interface: what a loss asks of a miner about a block of complete rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from progcl.errors import warn

BLOCK_ELEMENTS = 2**20  # similarities of one bank in a block, unless the user sets the block size


@dataclass(frozen=True)
class Block:
    """b anchors against all N candidates, in one bank or two.

    Attributes:
        sim: cosine similarities [b, V, N]; bank 0 is the other view, bank 1, if there is one, the anchors' own
        pos: similarity of each anchor with its positive, [b]
        banks: the candidates' unit vectors, [N, d] each
        rows: the anchors' indices [b]; column rows[i] holds no negative of anchor i in any bank
        view: the anchors' view, 0 or 1
        tau: the loss's temperature
        excluded: columns beside the anchors' own that hold no negative, such as its neighbors, [b, N]; None for none
    """

    sim: Tensor
    pos: Tensor
    banks: tuple[Tensor, ...]
    rows: Tensor
    view: int
    tau: float
    excluded: Tensor | None = None

    @property
    def count(self) -> Tensor:
        """Number of negatives of each anchor, [b]."""
        banks, columns = self.sim.shape[1:]
        if self.excluded is None:
            return torch.full((len(self.sim),), banks * (columns - 1), device=self.sim.device)
        return banks * (columns - 1 - self.excluded.sum(dim=1))

    def masked(self, values: Tensor, fill: float) -> Tensor:
        """`values` [b, V, N] with `fill` in the columns that hold no negative of the anchor."""
        if self.excluded is not None:
            values = values.masked_fill(self.excluded.unsqueeze(1), fill)
        columns = self.rows[:, None, None].expand(-1, values.size(1), 1)
        return values.scatter(2, columns, fill)

    def exp(self, sim: Tensor) -> Tensor:
        """e^{(s-1)/τ}, the unit of every mass. The shift by the largest cosine prevents overflow."""
        return sim.sub(1).div(self.tau).exp()


@dataclass(frozen=True)
class Plan:
    """A miner in closed form; without arguments, plain InfoNCE.

    Attributes:
        key: identifies the frozen quantities, which are cached from step to step while it is the same object
        probability: (view, rows, columns) -> p(true) of a view's anchors `rows` and candidates `columns`, frozen
        bounds: cosines that Min-Max normalization maps to 0 and 1
        candidates: for each view's anchors, the columns to mix, ascending, [N', N]
        mixing_weights: (view, rows) -> unnormalized mixing coefficients of the candidates, frozen, [N', b]
        pairs: ranks of the candidates to mix, the smaller in the first row, [2, m]
        ring: quantiles of an anchor's similarities that bound its negatives
    """

    key: object = None
    probability: Callable[[int, slice, slice], Tensor] | None = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    candidates: tuple[Tensor, ...] = ()
    mixing_weights: Callable[[int, slice], Tensor] | None = None
    pairs: Tensor | None = None
    ring: tuple[float, float] | None = None

    def mixing_bytes(self, like: Tensor) -> int:
        """Memory for candidates, addresses, mixing weights, gathered similarities and their gradients."""
        if self.pairs is None:
            return 0
        ranks, pairs = len(self.candidates[0]), self.pairs.size(1)
        lists = sum(columns.numel() * columns.element_size() for columns in self.candidates)
        addresses = 2 * (ranks + pairs) * torch.int32.itemsize
        return lists + len(like) * ((5 * ranks + 2 * pairs) * like.element_size() + addresses)


class Miner(nn.Module):
    """Plain InfoNCE: all negatives have weight 1.

    The base class of every miner: a subclass overrides what it changes. `prepare` may draw random numbers and
    set state; the other methods are pure, so that a loss does not depend on how its rows are cut into blocks. State
    lives in buffers.

    Attributes:
        plan_covers: methods that `plan` states in closed form; a subclass that overrides one of them, and not `plan`,
            takes the generic path
        memory: bytes that may be cached from step to step; set by the loss
        fewest_negatives: of any anchor in this step; set by a loss whose anchors differ in that, else None
    """

    plan_covers: frozenset[str] = frozenset({"weight", "extra", "correct"})
    epoch: int | None = None
    steps_without_epoch: int = 0
    memory: int = 10**9
    fewest_negatives: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch before its first step."""
        self.epoch = epoch

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Look at all unit vectors [N, d] of both views, once per step, without gradient.

        `anchors` [n] are the nodes that this step contrasts with each other, None for all: rows and columns of a
        block count these.
        """

    def prepare_batch(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        """The same for a batch of a larger graph: the rows of `z1` and `z2` are those of `nodes` [n]."""
        self.prepare(z1, z2)

    @property
    def needs_all_nodes(self) -> bool:
        """Whether this step must embed every node, even if it contrasts few."""
        return False

    @property
    def mines(self) -> bool:
        """Whether this miner changes the loss at present."""
        return type(self) is not Miner

    def weight(self, block: Block) -> Tensor | None:
        """Weights of the negatives, [b, 1, N] or [b, V, N]; None is 1. The anchors' own columns are ignored.

        V is 2 (the other view's bank and the anchors' own), or 1 where there is one bank.
        """
        return None

    def extra(self, block: Block) -> Tensor | None:
        """Similarities of synthetic negatives, [b, K]."""
        return None

    def correct(self, mass: Tensor, block: Block) -> Tensor:
        """A better estimate of each anchor's negative mass Σ w e^{(s-1)/τ}, [b]."""
        return mass

    def plan(self) -> Plan | None:
        """The methods of `plan_covers` in closed form; None for the generic path."""
        return Plan()

    def facts(self) -> dict[str, Any]:
        """What a log or report should state about the miner at present."""
        return {}

    def remarks(self, epochs: int, batched: bool) -> list[str]:
        """What a user should know before training for `epochs` epochs, on batches of a graph or on all of it."""
        return []

    def warn_without_epoch(self, start: int) -> None:
        """Warn a training loop that makes more than `start` steps without `set_epoch`: the miner waits for it."""
        if self.epoch is not None or start == 0 or not self.training:
            return
        self.steps_without_epoch += 1
        if self.steps_without_epoch == start + 1:
            message = f"{start} steps without set_epoch(): the miner stays off. Call it once an epoch"
            warn(message, stacklevel=5)


def remark_late_start(start: int, epochs: int, collects: bool = False) -> list[str]:
    """A remark if a miner that starts at epoch `start`, or after collecting in it, never starts."""
    if start + collects <= epochs:
        return []
    after = " and collects until the next" if collects else ""
    return [f"no mining: miner.start_epoch is {start}{after}, the last epoch {epochs}"]


def iterate_blocks(nodes: int, size: int | None = None, start: int = 0, stop: int | None = None) -> Iterator[slice]:
    """Slices of `size` rows from `start` to `stop` of `nodes` rows; by default, a size of constant memory per block."""
    size = size or max(1, BLOCK_ELEMENTS // nodes)
    stop = nodes if stop is None else stop
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))
