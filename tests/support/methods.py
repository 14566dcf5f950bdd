"""Methods of a user's own, named as `support.methods:Class`."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from progcl.config.methods import MethodOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.methods import Context, Method


@dataclass(frozen=True)
class ConstantOptions(MethodOptions):
    """A method without parameters.

    Args:
        level: of every number
    """

    name: str = "constant"
    level: float = 1.0


class Constant(Method):
    """The same numbers for every node: no parameters, no training."""

    Options = ConstantOptions
    trained = False

    def embed(self, graph: GraphInput) -> Tensor:
        return torch.full((graph.num_nodes, 3), float(self.options.level))


class WithoutOptions(Method):
    """Forgets to declare its options."""


@dataclass(frozen=True)
class ScheduledOptions(MethodOptions):
    """A method whose losses are known in advance.

    Args:
        losses: of the epochs
    """

    name: str = "scheduled"
    losses: tuple[float, ...] = ()


class Scheduled(Method):
    """Has the loss that its options name for an epoch, whatever its one parameter is."""

    Options = ScheduledOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.weight = nn.Parameter(torch.ones(1))
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def loss(self, batch: Batch) -> Tensor:
        value: float = self.options.losses[self.epoch - 1]
        return value + 0 * self.weight.sum()

    def embed(self, graph: GraphInput) -> Tensor:
        return self.weight.expand(graph.num_nodes, 3)
