"""Momentum encoders: a copy of a network whose parameters are a moving average of it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from progcl.nn.encoders import MLP


class MomentumCopy(nn.Module):
    """The target network of MERIT and BGRL; it has no gradient and no dropout.

    Args:
        network: the network to start from, which is copied
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        for module in self.network.modules():
            if isinstance(module, MLP):
                module.dropout = None

    @torch.no_grad()
    def forward(self, *inputs: Any) -> Tensor:
        """Output of the copy, without gradient."""
        output: Tensor = self.network(*inputs)
        return output

    @torch.no_grad()
    def follow(self, online: nn.Module, momentum: float) -> None:
        """θ' ← m θ' + (1-m) θ."""
        for old, new in zip(self.network.parameters(), online.parameters(), strict=True):
            old.lerp_(new, 1 - momentum)
