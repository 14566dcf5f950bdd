"""The method interface: one way to learn node embeddings, and what it is built from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch_geometric.data import Data

from progcl.config.methods import MethodOptions
from progcl.config.schema import Config
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.graph.batching import Pairing
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import View
from progcl.losses import InfoNCE, Shard
from progcl.miners import Miner, make_miner
from progcl.nn.encoders import ENCODERS, MLP, Dropout
from progcl.nn.heads import INITS, Projector
from progcl.seeding import derive_seed

Criterion = TypeVar("Criterion", bound=InfoNCE)
ViewT = TypeVar("ViewT")


@dataclass(frozen=True)
class Context:
    """What a method is built from.

    Attributes:
        config: of the run
        data: the graph that is trained on
        graph: the same as the encoder reads it: full graph, sampled batches or hop table
        all_nodes: makes the same of all nodes, also of those that an inductive training does not see, to validate on
        workers: the processes of the run
        progress: show a bar on long preparations
        generators: random generators by name, which checkpoints keep
    """

    config: Config
    data: Data
    graph: Any  # GraphInput
    all_nodes: Callable[[], GraphInput]
    workers: Workers = SINGLE_PROCESS
    progress: bool = False
    generators: dict[str, torch.Generator] = field(default_factory=dict)

    def generator(self, name: str) -> torch.Generator:
        """The random generator of this name, seeded by the run's seed and the name."""
        if name not in self.generators:
            self.generators[name] = torch.Generator().manual_seed(derive_seed(self.config.train.seed, name))
        return self.generators[name]

    def encoder(self) -> MLP:
        """A new encoder as configured."""
        shape = self.config.encoder
        sizes = (self.graph.num_features, shape.hidden, shape.layers, shape.activation)
        dropout = Dropout(shape.dropout, self.generator("dropout")) if shape.dropout else None
        options = (shape.norm, dropout, shape.norm_last, INITS[shape.init])
        return ENCODERS[shape.name](*sizes, self.generator("init"), *options)

    def projector(self, outputs: int | None = None) -> Projector:
        """A new projector as configured, as wide as the encoder's output or `outputs` wide."""
        shape = self.config.encoder
        return Projector(shape.hidden, shape.projection, self.generator("init"), outputs, INITS[shape.init])

    def criterion(self, kind: type[Criterion], name: str = "miner", mined: bool = True) -> Criterion:
        """A new loss with the configured miner, whose random generator is seeded by `name`; or with none."""
        config = self.config
        per_batch = config.batch.size is not None and config.batch.variant == "paper"
        seed = derive_seed(config.train.seed, name)
        miner = make_miner(config.miner, seed, self.data, per_batch) if mined else None
        loss = kind(config.loss.tau, miner, config.loss.block_size, config.loss.memory)
        if self.workers.size > 1:
            loss.shard = Shard(self.workers.shard, self.workers.sum)
        return loss

    def sample_anchors(self) -> Tensor | None:
        """Node numbers [n] to contrast in a step, ascending; None for all."""
        nodes, number = int(self.data.num_nodes), self.config.train.anchors
        if number is None or number >= nodes:
            return None
        sample = torch.randperm(nodes, generator=self.generator("anchors"))[:number].sort().values
        return sample.to(self.data.edge_index.device)


class Method(nn.Module):
    """One way to learn node embeddings: a subclass writes `loss` and `embed`, and overrides what differs.

    Attributes:
        Options: frozen dataclass of the keys of section `method` that it has; `supports` there says what it can do
        trained: False for methods without training, which run no steps
    """

    Options: type[MethodOptions]
    trained = True

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    @property
    def options(self) -> Any:
        """Its section of the configuration, an instance of `Options`."""
        return self.context.config.method

    def optimizer(self) -> Optimizer:
        """The optimizer of the trained parameters: Adam as configured."""
        train = self.context.config.train
        return Adam(self.trained_parameters(), train.lr, weight_decay=train.weight_decay)

    def trained_parameters(self) -> list[nn.Parameter]:
        """Parameters with a gradient."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def lr_factor(self, progress: float) -> float:
        """What the learning rate of a step is multiplied by, `progress` rising from 0 to 1 over the run."""
        return 1.0

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        steps: int = self.context.graph.steps
        return steps

    def batches(self, epoch: int) -> Iterable[Batch]:
        """The batches of an epoch: the loader's."""
        batches: Iterable[Batch] = self.context.graph.batches(epoch)
        return batches

    def paired_batches(self, epoch: int, pair: Pairing) -> Iterable[Batch]:
        """The loader's batches with the nodes and positives that `pair` adds; the full graph is one as it is."""
        graph, in_batches = self.context.graph, self.context.config.batch.size is not None
        batches: Iterable[Batch] = graph.batches(epoch, pair) if in_batches else graph.batches(epoch)
        return batches

    def set_epoch(self, epoch: int) -> None:
        """Tell the losses, and so the miners, the epoch before its first step."""
        for module in self.modules():
            if isinstance(module, InfoNCE):
                module.set_epoch(epoch)

    def loss(self, batch: Batch) -> Tensor:
        """The loss of one step."""
        raise NotImplementedError

    def half_hop(self, view: ViewT) -> ViewT:
        """The view of a step with slow nodes, as `method.half_hop` asks for, drawn anew; in evaluation as it is."""
        options = self.options
        if not options.half_hop or not self.training:
            return view
        assert isinstance(view, View), "batches of a part of the graph are refused with the configuration"
        slowed = view.half_hop(options.half_hop, options.half_hop_alpha, self.context.generator("half-hop"))
        return cast(ViewT, slowed)

    def after_step(self, progress: float) -> None:
        """Update what the optimizer does not, such as momentum encoders; `progress` rises to 1 over the run."""

    def embed(self, graph: GraphInput) -> Tensor:
        """Embeddings [N, d] of a graph; called in evaluation mode, without gradient."""
        raise NotImplementedError

    def predict(self, graph: GraphInput) -> Tensor:
        """Classes [splits, N] by the network of each split, for methods whose options say `needs_labels`."""
        raise NotImplementedError

    def is_finished(self) -> bool:
        """Whether no epoch is left to train, as after early stopping on validation nodes."""
        return False

    def heldout_edges(self) -> Tensor | None:
        """Edges of the training graph [2, E] that training does not see, to judge by; None without any."""
        return None

    def miners(self) -> list[Miner]:
        """The miners of its losses that are not plain InfoNCE."""
        return [module for module in self.modules() if isinstance(module, Miner) and type(module) is not Miner]

    def facts(self) -> dict[str, Any]:
        """What a log or report should say of the present state, such as the fitted mixture."""
        miners = self.miners()
        return miners[0].facts() if miners else {}

    def remarks(self) -> list[str]:
        """What a user should know before training."""
        train, batched = self.context.config.train, self.context.config.batch.size is not None
        miners = self.miners()
        return miners[0].remarks(train.epochs, batched) if miners else []

    def release(self) -> None:
        """Drop the training graph and the losses: what is left embeds other graphs."""
        self.context = replace(self.context, data=Data(), graph=None, all_nodes=_no_graph, generators={})
        for name, child in list(self.named_children()):
            if isinstance(child, InfoNCE):
                delattr(self, name)


def _no_graph() -> GraphInput:
    raise RuntimeError("the training graph was released")
