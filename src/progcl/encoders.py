"""Networks from nodes to vectors: GCN by sparse CSR products, MLP without message passing, projector."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from progcl.graph import View, propagate
from progcl.registry import pick


class MLP(nn.Module):
    """Linear layers with an activation after each; all but the last are twice as wide as the embedding."""

    def __init__(self, features: int, hidden: int, layers: int, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        widths = [features, *[2 * hidden] * (layers - 1), hidden]
        self.layers = nn.ModuleList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.activation = pick(ACTIVATIONS, activation, "activation")()

    def messages(self, view: View) -> Callable[[Tensor], Tensor]:
        """What passes between nodes in every layer: nothing."""
        return lambda x: x

    def forward(self, view: View) -> Tensor:
        """Embeddings [N, hidden]."""
        passed = self.messages(view)
        x = torch.empty(0)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            x = x @ layer.weight.T if number else view.transform(layer.weight.T)
            x = self.activation(passed(x) + layer.bias)
        return x


class GCN(MLP):
    """The same layers with message passing in each: σ(D̂^-½ Â D̂^-½ X W + b), the appendix's encoder."""

    def messages(self, view: View) -> Callable[[Tensor], Tensor]:
        """One step along the view's edges."""
        adjacency = view.adjacency()
        return lambda x: propagate(x, adjacency)


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


ENCODERS: dict[str, type[MLP]] = {"gcn": GCN, "mlp": MLP}

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": lambda: nn.LeakyReLU(11 / 48),  # the mean of RReLU's slopes: the published code never samples them
    "elu": nn.ELU,
}
