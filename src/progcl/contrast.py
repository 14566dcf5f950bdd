"""The contrastive loss, exact for every miner, in memory linear in the nodes.

The generic path walks blocks of complete rows with any miner; a miner with a plan gets the closed form of `kernels`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from progcl import kernels
from progcl.errors import InputError, in_range
from progcl.tiles import Plan, Workspace

DEFAULT_MEMORY = 1000  # megabytes, or a tenth of the machine's memory if that is less
ELEMENTS = 2**20  # of one bank's similarities in a block, if the user does not set the block size


@dataclass(frozen=True)
class Block:
    """b anchors of one view against all N candidates of both views.

    Attributes:
        sim: cosine similarities [b, 2, N]; bank 0 is the other view, bank 1 the anchors' own
        banks: unit vectors of the other and of the own view, [N, d] each
        rows: the anchors' indices [b]; column rows[i] holds no negative of anchor i in either bank
        view: which view the anchors are from, 0 or 1
    """

    sim: Tensor
    banks: tuple[Tensor, Tensor]
    rows: Tensor
    view: int

    @property
    def pos(self) -> Tensor:
        """Similarity of each anchor with itself in the other view, [b]."""
        return self.sim[torch.arange(len(self.rows), device=self.rows.device), 0, self.rows]


class Miner(nn.Module):
    """Plain InfoNCE: all negatives count alike.

    The base class of every miner: a subclass overrides what it changes. `prepare` may draw random numbers and
    set state; the others are pure, so that a loss does not depend on how the rows are cut into blocks. State
    lives in buffers.
    """

    epoch: int | None = None
    memory: int = 10**9  # bytes that may be kept from step to step; the loss sets it

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch before its first step."""
        self.epoch = epoch

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Look at all unit vectors [N, d] of both views, once per step, without gradient.

        `anchors` are the nodes [n] that this step contrasts with each other, all if None: a block's rows and
        columns count these.
        """

    def weight(self, block: Block) -> Tensor | None:
        """Weights of the negatives, [b, 1, N] or [b, 2, N]; None is 1. The anchors' own columns are ignored."""
        return None

    def extra(self, block: Block) -> Tensor | None:
        """Similarities of synthetic negatives, [b, K]."""
        return None

    def plan(self) -> Plan | None:
        """What `weight` and `extra` come to in closed form; None leaves them to the generic path.

        A subclass that overrides `weight` or `extra` and not `plan` takes the generic path.
        """
        return Plan()


class InfoNCE(nn.Module):
    """The loss of Eq. 1-2, with the negatives that a miner weights or adds (Eq. 10-12, 13-16).

    J = -1/(2N) Σ_i [ℓ(u_i, v_i) + ℓ(v_i, u_i)],
    ℓ(u_i, v_i) = log e^{θ(u_i,v_i)/τ} / D_i,
    D_i = e^{θ(u_i,v_i)/τ} + Σ_{k≠i} w_ik (e^{θ(u_i,v_k)/τ} + e^{θ(u_i,u_k)/τ}) + Σ_k e^{θ(u_i,ũ_k)/τ}

    >>> loss = InfoNCE(tau=0.4, miner=ProGCLWeight(start_epoch=400))
    >>> for epoch in range(1, 501):
    ...     loss.set_epoch(epoch)
    ...     loss(h1, h2).backward()

    Args:
        tau: temperature, 0.03 to 10 (float32 underflows below)
        miner: None for plain InfoNCE
        block_size: anchors per block or tile; memory grows with it, the result does not change
        memory: megabytes that may hold tiles and frozen weights to save time, 0 for the least; None for 1 GB or a
            tenth of the machine's memory, whichever is less
        fast: take the closed form where the miner has one
    """

    def __init__(
        self,
        tau: float = 0.4,
        miner: Miner | None = None,
        block_size: int | None = None,
        memory: float | None = None,
        fast: bool = True,
    ) -> None:
        super().__init__()
        in_range("tau", tau, 0.03, 10, "the paper uses 0.2 to 0.4")
        if block_size is not None:
            in_range("block_size", block_size, 1)
        if memory is not None:
            in_range("memory", memory, 0)
        if miner is not None and not isinstance(miner, Miner):
            raise InputError(f"`miner` needs to be a Miner (got {miner!r})", "for example miner=ProGCLWeight()")
        self.tau = tau
        self.miner = miner if miner is not None else Miner()
        self.block_size = block_size
        self.fast = fast
        self.workspace = Workspace(_bytes(memory), block_size)
        self.miner.memory = self.workspace.memory

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the miner."""
        self.miner.set_epoch(epoch)

    def forward(self, h1: Tensor, h2: Tensor, anchors: Tensor | None = None) -> Tensor:
        """The loss of two views' projected embeddings [N, d], row i of both being node i.

        With `anchors`, node numbers [n], only these nodes are contrasted with each other.
        """
        if h1.shape != h2.shape or h1.dim() != 2 or len(h1) < 2:
            shapes = f"{list(h1.shape)} and {list(h2.shape)}"
            raise InputError(f"the two views need the same shape [N, d] with N ≥ 2 (got {shapes})")
        z1, z2 = normalize(h1, dim=1), normalize(h2, dim=1)
        with torch.no_grad():
            self.miner.prepare(z1, z2, anchors)
        if anchors is not None:
            z1, z2 = z1[anchors], z2[anchors]
            if len(z1) < 2:
                raise InputError(f"a contrast needs at least 2 anchors (got {len(z1)})")
        loss: Tensor = _Contrast.apply(z1, z2, self)  # type: ignore[no-untyped-call]
        return loss

    def plan(self) -> Plan | None:
        """The miner's closed form, if it has one that speaks for all its methods."""
        if not self.fast or type(self).row_losses is not InfoNCE.row_losses:
            return None
        for kind in type(self.miner).__mro__:
            if "plan" in vars(kind):
                return self.miner.plan()
            if {"weight", "extra", "score", "normalize"} & set(vars(kind)):
                return None
        return None

    def row_losses(self, block: Block) -> Tensor:
        """-ℓ of each anchor, [b].

        Everything is shifted by the largest cosine, 1: e^{(s-1)/τ} ≤ 1 cannot overflow and needs no maximum.
        """
        own = (torch.arange(len(block.rows), device=block.rows.device), slice(None), block.rows)
        logits = block.sim.sub(1).div_(self.tau)
        logits[own] = -torch.inf
        mass = _weighted_sum(logits.exp(), self.miner.weight(block))
        extra = self.miner.extra(block)
        if extra is not None:
            mass = mass + extra.sub(1).div(self.tau).exp().sum(dim=1)
        positive = block.pos.sub(1).div(self.tau)
        return torch.log(positive.exp() + mass) - positive


def blocks(nodes: int, size: int | None = None) -> Iterator[slice]:
    """Cut `nodes` rows into slices of `size`, or of a size that keeps a block's memory constant."""
    size = size or max(1, ELEMENTS // nodes)
    for start in range(0, nodes, size):
        yield slice(start, min(start + size, nodes))


def _weighted_sum(mass: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return mass.sum(dim=(1, 2))
    if weight.size(1) == 1:
        return mass.sum(dim=1).mul(weight.squeeze(1)).sum(dim=1)
    return (mass * weight).sum(dim=(1, 2))


class _Contrast(torch.autograd.Function):
    """Take the gradient together with the loss: what is kept for the backward pass is of size [N, d]."""

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor, loss: InfoNCE) -> Tensor:
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        plan = loss.plan() if z1.dtype in (torch.float32, torch.float64) else None
        closed = None
        if plan is not None:
            with loss.workspace.lock:  # its buffers serve one call at a time
                closed = kernels.contrast((z1, z2), loss.tau, plan, loss.workspace, wanted)
        total, first, second = closed or _walk(z1, z2, loss, wanted)
        if wanted:
            ctx.save_for_backward(first, second)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        if torch.is_grad_enabled():  # create_graph=True
            raise InputError("the loss has no second derivative", "call backward without create_graph")
        (outer,) = grads
        first, second = ctx.saved_tensors
        return (first, second, None) if outer == 1 else (outer * first, outer * second, None)


def _walk(z1: Tensor, z2: Tensor, loss: InfoNCE, wanted: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Loss and gradient by blocks of complete rows, each block's gradient taken at once."""
    views = [z.detach().requires_grad_(wanted) for z in (z1, z2)]
    total = z1.new_zeros((), dtype=torch.float64 if z1.dtype == torch.float64 else torch.float32)
    nodes = len(z1)
    for view, (own, other) in enumerate((views, views[::-1])):
        for rows in blocks(nodes, loss.block_size):
            with torch.set_grad_enabled(wanted):
                part = _block_loss(loss, own, other, rows, view) / (2 * nodes)
            if wanted:
                part.backward()
            total += part.detach()
    return total, views[0].grad, views[1].grad


def _block_loss(loss: InfoNCE, own: Tensor, other: Tensor, rows: slice, view: int) -> Tensor:
    anchors = own[rows]
    sim = torch.stack([anchors @ other.T, anchors @ own.T], dim=1)
    index = torch.arange(rows.start, rows.stop, device=own.device)
    return loss.row_losses(Block(sim, (other, own), index, view)).sum()


def _bytes(megabytes: float | None) -> int:
    if megabytes is not None:
        return int(min(megabytes * 1e6, sys.maxsize))
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return int(DEFAULT_MEMORY * 1e6)
    return min(int(DEFAULT_MEMORY * 1e6), machine // 10)
