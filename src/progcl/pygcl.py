"""Adapter: the miners of this library in PyGCL's `DualBranchContrast`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from progcl.errors import InputError
from progcl.losses.infonce import OneWay
from progcl.miners.base import Miner


class MinedInfoNCE(nn.Module):
    """InfoNCE with any miner, as PyGCL calls a loss: once for each view's anchors, with samples and masks.

    >>> loss = MinedInfoNCE(tau=0.4, miner=ProGCLWeight(start_epoch=100))
    >>> contrast = DualBranchContrast(loss=loss, mode="L2L", intraview_negs=True)
    >>> for epoch in range(1, 201):
    ...     loss.set_epoch(epoch)
    ...     contrast(h1, h2).backward()

    With `intraview_negs=True` it is `progcl.InfoNCE`; without, negatives come from the other view alone. An anchor is
    never its own negative, although PyGCL's masks mark it as one within a view: the masks only have to name one
    positive for each anchor, the same node in the other view.

    Args:
        tau: temperature, 0.03 to 10
        miner: None for plain InfoNCE
        block_size: anchors per block
    """

    def __init__(self, tau: float = 0.4, miner: Miner | None = None, block_size: int | None = None) -> None:
        super().__init__()
        self.criterion = OneWay(tau, miner, block_size)
        self.first_half: tuple[Tensor, Tensor] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the miner's epoch, before the first step of the epoch."""
        self.criterion.set_epoch(epoch)

    def forward(
        self,
        anchor: Tensor,
        sample: Tensor,
        pos_mask: Tensor | None = None,
        neg_mask: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        """Mean loss of the anchors [N, d] with samples [N, d] of the other view, or [2N, d] of both.

        Raises:
            InputError: the masks name other positives or negatives than those of a contrast between nodes
        """
        nodes = len(anchor)
        if len(sample) not in (nodes, 2 * nodes):
            raise InputError(f"{nodes} anchors need {nodes} or {2 * nodes} samples (got {len(sample)})", 'mode="L2L"')
        if pos_mask is not None and not _is_identity(pos_mask, nodes):
            message = "an anchor's positive needs to be the same node in the other view"
            raise InputError(message, "leave out extra_pos_mask")
        if neg_mask is not None and int(neg_mask.count_nonzero()) < len(sample) // nodes * nodes * (nodes - 1):
            raise InputError("all other nodes need to be negatives", "leave out extra_neg_mask, and use a miner")
        banks = sample.split(nodes)
        view = int(self._is_second_half(anchor, banks[0]))
        self.first_half = None if view else (anchor.detach(), banks[0].detach())
        loss: Tensor = self.criterion(anchor, banks[0], *banks, view=view)
        return loss

    def _is_second_half(self, anchor: Tensor, other: Tensor) -> bool:
        """Whether the previous call was that of the other view's anchors: then the miner is prepared for both."""
        if self.first_half is None or self.first_half[0].shape != other.shape:
            return False
        return torch.equal(self.first_half[0], other) and torch.equal(self.first_half[1], anchor)


def _is_identity(mask: Tensor, nodes: int) -> bool:
    return bool(mask[:, :nodes].diagonal().all()) and int(mask.count_nonzero()) == nodes
