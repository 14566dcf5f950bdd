"""Projection and prediction heads between encoder and loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

MakeLinear: TypeAlias = Callable[[int, int, torch.Generator], nn.Linear]  # of inputs, outputs, and what draws


class Projector(nn.Module):
    """The projector g of Eq. 1: Linear, ELU, Linear; its output is as wide as its input, or `outputs` wide."""

    def __init__(
        self,
        hidden: int,
        projection: int,
        generator: torch.Generator,
        outputs: int | None = None,
        linear: MakeLinear | None = None,
    ) -> None:
        super().__init__()
        linear = linear or glorot_linear
        self.first = linear(hidden, projection, generator)
        self.second = linear(projection, outputs or hidden, generator)

    def forward(self, h: Tensor) -> Tensor:
        """Projected embeddings [N, outputs]."""
        out: Tensor = self.second(elu(self.first(h)))
        return out


class Head(nn.Module):
    """Linear, BatchNorm, PReLU, Linear: MERIT's projector and predictor; without BatchNorm, BGRL's predictor."""

    def __init__(self, hidden: int, projection: int, generator: torch.Generator, batch_norm: bool = True) -> None:
        super().__init__()
        first, second = glorot_linear(hidden, projection, generator), glorot_linear(projection, hidden, generator)
        norm = [nn.BatchNorm1d(projection)] if batch_norm else []
        self.layers = nn.Sequential(first, *norm, nn.PReLU(), second)

    def forward(self, h: Tensor) -> Tensor:
        """Projected embeddings [N, hidden]."""
        out: Tensor = self.layers(h)
        return out


def uniform_linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with torch's own initialization, weights and bias uniform within ±1/√inputs."""
    layer = _linear(inputs, outputs)
    for parameter in (layer.weight, layer.bias):
        nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
    return layer


def glorot_linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero bias."""
    layer = _linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer to initialize; torch draws first values from the global generator, whose state is kept."""
    with torch.random.fork_rng(devices=[]):
        return nn.Linear(inputs, outputs)


INITS: dict[str, MakeLinear] = {"glorot": glorot_linear, "torch": uniform_linear}
