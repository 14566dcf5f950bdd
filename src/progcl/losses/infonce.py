"""The contrastive loss, exact for every miner, in memory linear in the nodes.

The generic path walks blocks of complete rows with any miner; a miner with a plan takes `closed_form`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from progcl.distributed import shard_slice
from progcl.errors import InputError, in_range
from progcl.losses import closed_form
from progcl.losses.tiles import Shard, Workspace
from progcl.miners.base import Block, Miner, Plan, blocks

DEFAULT_MEMORY = 1000  # megabytes, or a tenth of the machine's memory if that is less


class Side(NamedTuple):
    """One direction of a contrast: anchors, the positive of each, and the banks that hold their negatives."""

    anchors: Tensor
    positives: Tensor
    banks: tuple[Tensor, ...]
    view: int


class InfoNCE(nn.Module):
    """The loss of Eq. 1-2, with the negatives that a miner weights or adds (Eq. 10-12, 13-16)::

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

    Attributes:
        split: which part of the work is done here, all if not told otherwise; the parts' losses add up to the whole
    """

    split = Shard()

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
        if miner is not None and "_modules" not in vars(miner):
            raise InputError(f"`{type(miner).__name__}` is not initialized", "call super().__init__() in its __init__")
        self.tau = tau
        self.miner = miner if miner is not None else Miner()
        self.block_size = block_size
        self.fast = fast
        self.workspace = Workspace(_bytes(memory), block_size)
        self.miner.memory = self.workspace.memory

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the miner."""
        self.miner.set_epoch(epoch)

    def forward(self, h1: Tensor, h2: Tensor, anchors: Tensor | None = None, nodes: Tensor | None = None) -> Tensor:
        """The loss of two views' projected embeddings [N, d], row i of both being node i.

        With `anchors`, node numbers [n], only these nodes are contrasted with each other. With `nodes`, node numbers
        [N], the rows are a batch of a larger graph.
        """
        if anchors is not None and nodes is not None:
            raise InputError("a batch is contrasted as a whole", "give `anchors` or `nodes`, not both")
        if nodes is not None and nodes.shape != h1.shape[:1]:
            raise InputError(f"`nodes` needs the number of each of the {len(h1)} rows (got {list(nodes.shape)})")
        z1, z2 = _unit(h1, h2)
        with torch.no_grad():
            if nodes is None:
                self.miner.prepare(z1, z2, anchors)
            else:
                self.miner.prepare_batch(z1, z2, nodes)
        return self._contrast(anchors, z1, z2)

    def sides(self, *z: Tensor) -> list[Side]:
        """Every view's anchors, with the other view and their own."""
        z1, z2 = z
        return [Side(z1, z2, (z2, z1), 0), Side(z2, z1, (z1, z2), 1)]

    def plan(self) -> Plan | None:
        """The miner's closed form, if it has one that speaks for all its methods."""
        same = all(getattr(type(self), name) is getattr(InfoNCE, name) for name in ("row_losses", "mass", "sides"))
        if not self.fast or not same or self.split.is_unreduced_shard:
            return None
        for kind in type(self.miner).__mro__:
            if "plan" in vars(kind):
                return self.miner.plan()
            if {"weight", "extra", "correct", "score", "normalize"} & set(vars(kind)):
                return None
        return None

    def row_losses(self, block: Block) -> Tensor:
        """-ℓ of each anchor, [b]."""
        return torch.log1p(self.mass(block) / block.exp(block.pos))

    def mass(self, block: Block) -> Tensor:
        """What all negatives of each anchor weigh, [b]."""
        weight = self.miner.weight(block)
        if weight is not None and weight.shape != block.sim.shape and weight.shape != block.sim[:, :1].shape:
            expected = f"{list(block.sim[:, :1].shape)} or {list(block.sim.shape)}"
            raise InputError(f"weights need the shape {expected} (got {list(weight.shape)})", "see Miner.weight")
        mass = self.miner.correct(_weighted_sum(block.masked(block.exp(block.sim), 0), weight), block)
        extra = self.miner.extra(block)
        return mass if extra is None else mass + block.exp(extra).sum(dim=1)

    def push(self, block: Block) -> Tensor:
        """How much the loss pushes each negative away, plain InfoNCE being 1: ∂mass/∂e^{s/τ}, [b, V, N].

        It is the weight of a negative, together with what it gets through synthetic negatives and corrections.
        """
        with torch.enable_grad():
            sim = block.sim.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.mass(replace(block, sim=sim)).sum(), sim)
        return slope * self.tau / block.exp(block.sim)

    def _contrast(self, anchors: Tensor | None, *z: Tensor) -> Tensor:
        if anchors is not None:
            z = tuple(part[anchors] for part in z)
            if len(z[0]) < 2:
                raise InputError(f"a contrast needs at least 2 anchors (got {len(z[0])})")
        loss: Tensor = _Contrast.apply(self, *z)  # type: ignore[no-untyped-call]
        return loss


class OneWay(InfoNCE):
    """The loss of one side alone: anchors, their positives, and any candidates as negatives.

    ℓ(a_i) = log e^{θ(a_i,p_i)/τ} / (e^{θ(a_i,p_i)/τ} + Σ_{k≠i} w_ik e^{θ(a_i,c_k)/τ} + …), averaged over i.
    """

    def forward(  # type: ignore[override]
        self, h: Tensor, positives: Tensor, *banks: Tensor, anchors: Tensor | None = None, view: int = 0
    ) -> Tensor:
        """The loss of anchors `h` [N, d] with one bank of candidates [N, d] or two; `positives` are the bank if none.

        Row i of everything is node i. The miner looks at anchors and first bank when `view` is 0; a call with
        `view` 1 is the second half of a step, with the first bank's nodes as anchors.
        """
        z = _unit(h, positives, *(banks or [positives]))
        if view == 0:
            with torch.no_grad():
                self.miner.prepare(z[0], z[2], anchors)
        self.view = view
        return self._contrast(anchors, *z)

    def sides(self, *z: Tensor) -> list[Side]:
        """The one side."""
        return [Side(z[0], z[1], z[2:], self.view)]

    def plan(self) -> Plan | None:
        """None: the closed form is that of two sides."""
        return None


def _weighted_sum(mass: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return mass.sum(dim=(1, 2))
    if weight.size(1) == 1:
        return mass.sum(dim=1).mul(weight.squeeze(1)).sum(dim=1)
    return (mass * weight).sum(dim=(1, 2))


class _Contrast(torch.autograd.Function):
    """Take the gradient together with the loss: what is kept for the backward pass is of size [N, d]."""

    @staticmethod
    def forward(ctx: Any, loss: InfoNCE, *z: Tensor) -> Tensor:
        needed = ctx.needs_input_grad[1:]
        wanted = any(needed)
        plan = loss.plan() if z[0].dtype in (torch.float32, torch.float64) else None
        closed = None
        if plan is not None:
            with loss.workspace.lock:  # its buffers serve one call at a time
                closed = closed_form.contrast((z[0], z[1]), loss.tau, plan, loss.workspace, loss.split, wanted)
        total, grads = closed or _walk(loss, z, needed)
        if wanted:
            ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise InputError("the loss has no second derivative", "call backward without create_graph")
        (outer,) = grads
        return None, *(grad if grad is None or outer == 1 else outer * grad for grad in ctx.saved_tensors)


def _walk(loss: InfoNCE, z: tuple[Tensor, ...], needed: Sequence[bool]) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """Loss and the needed gradients by blocks of complete rows, each block's gradient taken at once."""
    leaves = [part.detach().requires_grad_(need) for part, need in zip(z, needed, strict=True)]
    wanted = any(needed)
    total = z[0].new_zeros((), dtype=torch.float64 if z[0].dtype == torch.float64 else torch.float32)
    sides = loss.sides(*leaves)
    nodes = len(z[0])
    own = shard_slice(nodes, loss.split.part)
    for side in sides:
        for rows in blocks(nodes, loss.block_size, own.start, own.stop):
            with torch.set_grad_enabled(wanted):
                value = _block_loss(loss, side, rows) / (len(sides) * nodes)
            if wanted:
                value.backward()
            total += value.detach()
    # A part may have no rows.
    grads = [torch.zeros_like(leaf) if leaf.requires_grad and leaf.grad is None else leaf.grad for leaf in leaves]
    loss.split.whole(total, *(grad for grad in grads if grad is not None))
    return total, tuple(grads)


def _block_loss(loss: InfoNCE, side: Side, rows: slice) -> Tensor:
    anchors = side.anchors[rows]
    sim = torch.stack([anchors @ bank.T for bank in side.banks], dim=1)
    pos = (anchors * side.positives[rows]).sum(dim=1)
    index = torch.arange(rows.start, rows.stop, device=anchors.device)
    return loss.row_losses(Block(sim, pos, side.banks, index, side.view, loss.tau)).sum()


def _unit(*h: Tensor) -> tuple[Tensor, ...]:
    """Rows of length 1, of matrices that fit together."""
    if len({part.shape for part in h}) > 1 or h[0].dim() != 2 or len(h[0]) < 2:
        shapes = " and ".join(str(list(part.shape)) for part in h)
        raise InputError(f"the two views need the same shape [N, d] with N ≥ 2 (got {shapes})")
    return tuple(normalize(part, dim=1) for part in h)


def _bytes(megabytes: float | None) -> int:
    if megabytes is not None:
        return int(min(megabytes * 1e6, sys.maxsize))
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return int(DEFAULT_MEMORY * 1e6)
    return min(int(DEFAULT_MEMORY * 1e6), machine // 10)
