"""The contrastive loss, exact for every miner, in memory linear in the nodes.

The generic path takes any miner, in blocks of complete rows; a miner with a plan takes the path of `closed_form`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from progcl.config.schema import LossConfig
from progcl.distributed import shard_slice
from progcl.errors import InputError
from progcl.losses import closed_form
from progcl.losses.numerics import full_precision, normalize_rows, row_loss
from progcl.losses.positives import contrast as contrast_pairs
from progcl.losses.positives import group_by_anchor
from progcl.losses.tiles import Shard, Workspace
from progcl.miners.base import Block, Miner, Plan, iterate_blocks

LossAndGradients: TypeAlias = tuple[Tensor, tuple[Tensor | None, ...]]
Contrast: TypeAlias = Callable[[tuple[Tensor, ...], Sequence[bool]], LossAndGradients]

DEFAULT_MEGABYTES = 1000  # or a tenth of the machine's memory if that is less


class Side(NamedTuple):
    """One direction of a contrast: anchors [N, d], the positive of each [N, d], and banks of candidates [N, d]."""

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

    With pairs (anchor, positive) of the rows of one view, such as edges of a graph, all other rows are negatives::

        J = -1/P Σ_(i,j) log e^{θ(i,j)/τ} / (e^{θ(i,j)/τ} + Σ_k w_ik e^{θ(i,k)/τ} + …)

    >>> loss(h, positives=edge_index)

    Args:
        tau: temperature, 0.03 to 10 (float32 underflows below)
        miner: None for plain InfoNCE
        block_size: anchors per block or tile; memory grows with it, the result does not change
        memory: megabytes for caching tiles and frozen weights, 0 for as few as possible; None for 1 GB or a tenth of
            the machine's memory, whichever is less
        fast: use the closed form where the miner has one

    Attributes:
        shard: what this process computes of the loss, by default all of it; the losses of all shards sum to the loss

    Raises:
        InputError: an option is out of range, or `miner` is not an initialized Miner
    """

    shard = Shard()

    def __init__(
        self,
        tau: float = 0.4,
        miner: Miner | None = None,
        block_size: int | None = None,
        memory: float | None = None,
        fast: bool = True,
    ) -> None:
        super().__init__()
        LossConfig(tau, block_size, memory)  # raises if a value is out of range
        if miner is not None and not isinstance(miner, Miner):
            raise InputError(f"`miner` needs to be a Miner (got {miner!r})", "for example miner=ProGCLWeight()")
        if miner is not None and "_modules" not in vars(miner):
            raise InputError(f"`{type(miner).__name__}` is not initialized", "call super().__init__() in its __init__")
        self.tau = tau
        self.miner = miner if miner is not None else Miner()
        self.block_size = block_size
        self.fast = fast
        self.workspace = Workspace(default_memory(memory), block_size)
        self.miner.memory = self.workspace.memory

    def set_epoch(self, epoch: int) -> None:
        """Set the miner's epoch, before the first step of the epoch."""
        self.miner.set_epoch(epoch)

    def forward(
        self,
        h1: Tensor,
        h2: Tensor | None = None,
        anchors: Tensor | None = None,
        nodes: Tensor | None = None,
        positives: Tensor | ArrayLike | None = None,
    ) -> Tensor:
        """The loss of two views' projected embeddings [N, d], row i of both being node i; or of one with `positives`.

        With `anchors`, node numbers [n], only these nodes are contrasted with each other. With `nodes`, node numbers
        [N], the rows are a batch of a larger graph. With `positives`, pairs (anchor, positive) of rows [2, P], there is
        one view. A repeated pair counts once, and a row is no positive of itself.

        Half precision is computed in float32, also under `torch.autocast`; the loss has the type of the embeddings.

        Raises:
            InputError: shapes or types do not match, embeddings are not finite, or arguments that exclude each other
                are given
        """
        if anchors is not None and (nodes is not None or positives is not None):
            other = "nodes" if nodes is not None else "positives"
            raise InputError("a batch is contrasted as a whole", f"give `anchors` or `{other}`, not both")
        if nodes is not None and nodes.shape != h1.shape[:1]:
            raise InputError(f"`nodes` needs the number of each of the {len(h1)} rows (got {list(nodes.shape)})")
        if (h2 is None) == (positives is None):
            raise InputError(
                "a contrast needs two views, or one with `positives`", "loss(h1, h2) or loss(h, positives=)"
            )
        with full_precision(h1):
            z = normalize_rows(h1) if h2 is None else normalize_rows(h1, h2)
            edges = None if positives is None else torch.as_tensor(positives, device=h1.device)
            pairs = None if edges is None else group_by_anchor(edges, len(h1))
            self.miner.fewest_negatives = None if pairs is None else pairs.fewest_negatives(len(h1))
            anchors = None if anchors is None else anchors.to(h1.device)
            self._prepare(z[0], z[-1], anchors, nodes)
            if pairs is None:
                return self._contrast(anchors, *z).to(h1.dtype)
            return _differentiable(partial(contrast_pairs, self, pairs), z).to(h1.dtype)

    def sides(self, *z: Tensor) -> list[Side]:
        """Both views' anchors, with the other view and their own as banks."""
        z1, z2 = z
        return [Side(z1, z2, (z2, z1), 0), Side(z2, z1, (z1, z2), 1)]

    def plan(self) -> Plan | None:
        """The miner's closed form; None where it, or this loss, overrides methods that the closed form replaces."""
        own_methods = ("row_losses", "mass", "sides")
        is_overridden = any(getattr(type(self), name) is not getattr(InfoNCE, name) for name in own_methods)
        if not self.fast or is_overridden or self.shard.is_unreduced_shard:
            return None
        for kind in type(self.miner).__mro__:
            if "plan" in vars(kind):
                return self.miner.plan()
            if self.miner.plan_covers & vars(kind).keys():
                return None
        return None

    def row_losses(self, block: Block) -> Tensor:
        """-ℓ of each anchor, [b]."""
        return row_loss(self.mass(block), block.pos, self.tau)

    def mass(self, block: Block) -> Tensor:
        """Σ w e^{(s-1)/τ} of each anchor's negatives, corrected by the miner, with synthetic negatives, [b].

        Raises:
            InputError: the miner's weights have another shape than [b, 1, N] or [b, V, N]
        """
        weight = self.miner.weight(block)
        if weight is not None and weight.shape != block.sim.shape and weight.shape != block.sim[:, :1].shape:
            expected = f"{list(block.sim[:, :1].shape)} or {list(block.sim.shape)}"
            raise InputError(f"weights need the shape {expected} (got {list(weight.shape)})", "see Miner.weight")
        mass = self.miner.correct(_weighted_sum(block.masked(block.exp(block.sim), 0), weight), block)
        extra = self.miner.extra(block)
        return mass if extra is None else mass + block.exp(extra).sum(dim=1)

    def effective_weights(self, block: Block) -> Tensor:
        """∂mass/∂e^{s/τ} of each negative, [b, V, N]; plain InfoNCE is 1.

        This is its weight, together with its share in synthetic negatives and corrections.
        """
        with torch.enable_grad():
            sim = block.sim.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.mass(replace(block, sim=sim)).sum(), sim)
        return slope * self.tau / block.exp(block.sim)

    @torch.no_grad()
    def _prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None, nodes: Tensor | None) -> None:
        if nodes is None:
            self.miner.prepare(z1, z2, anchors)
        else:
            self.miner.prepare_batch(z1, z2, nodes.to(z1.device))

    def _contrast(self, anchors: Tensor | None, *z: Tensor) -> Tensor:
        if anchors is not None:
            z = tuple(rows[anchors] for rows in z)
            if len(z[0]) < 2:
                raise InputError(f"a contrast needs at least 2 anchors (got {len(z[0])})")
        return _differentiable(partial(_contrast_views, self), z)


class OneWay(InfoNCE):
    """The loss of one direction: anchors, their positives, and any candidates as negatives.

    ℓ(a_i) = log e^{θ(a_i,p_i)/τ} / (e^{θ(a_i,p_i)/τ} + Σ_{k≠i} w_ik e^{θ(a_i,c_k)/τ} + …), averaged over i.
    """

    def forward(  # type: ignore[override]
        self,
        h: Tensor,
        positives: Tensor,
        *banks: Tensor,
        anchors: Tensor | None = None,
        nodes: Tensor | None = None,
        view: int = 0,
    ) -> Tensor:
        """The loss of anchors `h` [N, d] with one bank of candidates [N, d] or two, by default the `positives`.

        Row i of every matrix is node i, or number i of `nodes` [N] in a batch. The miner is prepared with anchors and
        first bank when `view` is 0; a call with `view` 1 is the second half of a step, with the first bank's nodes as
        anchors.
        """
        with full_precision(h):
            z = normalize_rows(h, positives, *(banks or [positives]))
            anchors = None if anchors is None else anchors.to(h.device)
            if view == 0:
                self._prepare(z[0], z[2], anchors, nodes)
            self.view = view
            return self._contrast(anchors, *z).to(h.dtype)

    def sides(self, *z: Tensor) -> list[Side]:
        """The one direction."""
        return [Side(z[0], z[1], z[2:], self.view)]

    def plan(self) -> Plan | None:
        """None: the closed form needs both directions."""
        return None


def _weighted_sum(mass: Tensor, weight: Tensor | None) -> Tensor:
    """Sum over banks and candidates, [b], of masses [b, V, N]."""
    if weight is None:
        return mass.sum(dim=(1, 2))
    if weight.size(1) == 1:
        return mass.sum(dim=1).mul(weight.squeeze(1)).sum(dim=1)
    return (mass * weight).sum(dim=(1, 2))


def _differentiable(contrast: Contrast, z: tuple[Tensor, ...]) -> Tensor:
    """The loss of unit vectors, given the function that computes it with its gradients."""
    loss: Tensor = _Contrast.apply(contrast, *z)  # type: ignore[no-untyped-call]
    return loss


class _Contrast(torch.autograd.Function):
    """Computes the gradient together with the loss: what is saved for the backward pass is of size [N, d]."""

    @staticmethod
    def forward(ctx: Any, contrast: Contrast, *z: Tensor) -> Tensor:
        needs_grad = ctx.needs_input_grad[1:]
        total, grads = contrast(z, needs_grad)
        if any(needs_grad):
            ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise InputError("the loss has no second derivative", "call backward without create_graph")
        (outer,) = grads
        return None, *(grad if grad is None or outer == 1 else outer * grad for grad in ctx.saved_tensors)


def _contrast_views(loss: InfoNCE, z: tuple[Tensor, ...], needs_grad: Sequence[bool]) -> LossAndGradients:
    """Loss and gradients in closed form where there is one, else in blocks."""
    plan = loss.plan()
    closed = None
    if plan is not None:
        with loss.workspace.lock:  # its buffers serve one call at a time
            closed = closed_form.contrast((z[0], z[1]), loss.tau, plan, loss.workspace, loss.shard, any(needs_grad))
    return closed or _contrast_blocks(loss, z, needs_grad)


def _contrast_blocks(loss: InfoNCE, z: tuple[Tensor, ...], needs_grad: Sequence[bool]) -> LossAndGradients:
    """Loss and gradients in blocks of complete rows, with a backward pass per block."""
    leaves = [rows.detach().requires_grad_(needed) for rows, needed in zip(z, needs_grad, strict=True)]
    with_gradient = any(needs_grad)
    total = z[0].new_zeros(())
    sides = loss.sides(*leaves)
    nodes = len(z[0])
    own = shard_slice(nodes, loss.shard.position)
    for side in sides:
        for rows in iterate_blocks(nodes, loss.block_size, own.start, own.stop):
            with torch.set_grad_enabled(with_gradient):
                value = _block_loss(loss, side, rows) / (len(sides) * nodes)
            if with_gradient:
                value.backward()
            total += value.detach()
    # A shard may have no rows.
    grads = [torch.zeros_like(leaf) if leaf.requires_grad and leaf.grad is None else leaf.grad for leaf in leaves]
    loss.shard.reduce(total, *(grad for grad in grads if grad is not None))
    return total, tuple(grads)


def _block_loss(loss: InfoNCE, side: Side, rows: slice) -> Tensor:
    anchors = side.anchors[rows]
    sim = torch.stack([anchors @ bank.T for bank in side.banks], dim=1)
    pos = (anchors * side.positives[rows]).sum(dim=1)
    index = torch.arange(rows.start, rows.stop, device=anchors.device)
    return loss.row_losses(Block(sim, pos, side.banks, index, side.view, loss.tau)).sum()


def default_memory(megabytes: float | None = None) -> int:
    """Bytes of the option `loss.memory`, of what it is if nothing is asked for."""
    if megabytes is not None:
        return int(min(megabytes * 1e6, sys.maxsize))
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not available on this system
        return int(DEFAULT_MEGABYTES * 1e6)
    return min(int(DEFAULT_MEGABYTES * 1e6), machine // 10)
