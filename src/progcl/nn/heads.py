"""Projectors and predictors: what stands between an embedding and the loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu


class Projector(nn.Module):
    """g of Eq. 1: Linear, ELU, Linear."""

    def __init__(self, hidden: int, projection: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = glorot(hidden, projection, generator)
        self.second = glorot(projection, hidden, generator)

    def forward(self, h: Tensor) -> Tensor:
        """Projected embeddings [N, hidden]."""
        out: Tensor = self.second(elu(self.first(h)))
        return out


class Head(nn.Module):
    """MERIT's projector and predictor: Linear, BatchNorm, PReLU, Linear."""

    def __init__(self, hidden: int, projection: int, generator: torch.Generator) -> None:
        super().__init__()
        first, second = glorot(hidden, projection, generator), glorot(projection, hidden, generator)
        self.layers = nn.Sequential(first, nn.BatchNorm1d(projection), nn.PReLU(), second)

    def forward(self, h: Tensor) -> Tensor:
        """Projected embeddings [N, hidden]."""
        out: Tensor = self.layers(h)
        return out


def glorot(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Glorot weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
