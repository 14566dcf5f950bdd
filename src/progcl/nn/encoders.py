"""Networks from nodes to vectors: GCN, GraphSAGE with residuals, MLPs without message passing, projector."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from progcl.graph.views import LayerInput
from progcl.nn.heads import glorot
from progcl.registry import pick


class EncoderInput(Protocol):
    """A view of a graph, or of a batch."""

    def step(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """What layer `number` sees; `x` is what the layer before made, None for the features.

        The `last` layer sees no more nodes than are to be embedded.
        """


class MLP(nn.Module):
    """Linear layers with an activation after each; all but the last are twice as wide as the embedding."""

    inner = 2  # width of the inner layers, in widths of the embedding
    inputs = 1  # what a layer reads, in widths of the layer before

    def __init__(self, features: int, hidden: int, layers: int, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        widths = [features, *[self.inner * hidden] * (layers - 1), hidden]
        self.layers = nn.ModuleList(glorot(self.inputs * a, b, generator) for a, b in pairwise(widths))
        self.activation = pick(ACTIVATIONS, activation, "activation")()

    def forward(self, view: EncoderInput) -> Tensor:
        """Embeddings [N, hidden]."""
        x, last = None, len(self.layers) - 1
        for number in range(len(self.layers)):
            x = self.layer(number, view.step(number, x, number == last))
        assert x is not None
        return x

    def layer(self, number: int, step: LayerInput) -> Tensor:
        """What one layer makes of what it sees."""
        layer = self.layers[number]
        assert isinstance(layer, nn.Linear)
        out: Tensor = self.activation(self.linear(step, layer.weight.T) + layer.bias)
        return out

    def linear(self, step: LayerInput, weight: Tensor) -> Tensor:
        """X W: nothing passes between nodes."""
        return step.own(weight)


class Shortcut(MLP):
    """The same layers beside a linear map. It begins as a rotation and they at 0: at first a row is what it was."""

    def __init__(self, features: int, hidden: int, layers: int, activation: str, generator: torch.Generator) -> None:
        super().__init__(features, hidden, layers, activation, generator)
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        straight = nn.init.orthogonal_(torch.empty(features, hidden), generator=generator)
        self.straight = nn.Parameter(straight * max(1.0, features / hidden) ** 0.5)  # rows keep their length

    def forward(self, view: EncoderInput) -> Tensor:
        """Embeddings [N, hidden]."""
        return super().forward(view) + view.step(0, None, last=True).own(self.straight)


class GCN(MLP):
    """The same layers with message passing in each: σ(D̂^-½ Â D̂^-½ X W + b), the appendix's encoder."""

    def linear(self, step: LayerInput, weight: Tensor) -> Tensor:
        """Â X W."""
        return step.messages(weight)


class Sage(MLP):
    """GraphSAGE-GCN with residuals, all layers of one width: σ([D̂⁻¹ Â X ; X] W + b), for large graphs."""

    inner = 1
    inputs = 2

    def linear(self, step: LayerInput, weight: Tensor) -> Tensor:
        """[D̂⁻¹ Â X ; X] W."""
        neighbors, own = weight.chunk(2)
        return step.messages(neighbors, mean=True) + step.own(own)


ENCODERS: dict[str, type[MLP]] = {"gcn": GCN, "sage": Sage, "mlp": MLP, "hops": Shortcut}


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": lambda: nn.LeakyReLU(11 / 48),  # the mean of RReLU's slopes: the published code never samples them
    "elu": nn.ELU,
}
