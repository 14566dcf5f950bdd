"""Networks that are trained with labels, one for each split: what embeddings without labels are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from progcl.config.supervised import (
    FastGcnOptions,
    GatOptions,
    GcnOptions,
    MlpOptions,
    SageSupervisedOptions,
    SupervisedOptions,
)
from progcl.data.labels import require_training_labels
from progcl.data.splits import make_splits
from progcl.errors import InputError
from progcl.graph.layer_sampler import LayerBatches, LayerSampler
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.sampled import NodeFeatures, SampledGraph
from progcl.methods.base import Context, Method
from progcl.nn.classifiers import Classifier, GatClassifier, GcnClassifier, SageClassifier, Trunk
from progcl.seeding import derive_seed


class Supervised(Method):
    """One network for each split of section `probe`, trained by the cross-entropy of its training nodes.

    An epoch is one pass for each split, in steps of its own. Adam leaves parameters without a gradient alone: every
    network is trained as if it were the only one. After an epoch the validation nodes are classified; the weights of
    the epoch with the highest accuracy, of equal ones that with the lowest loss, are kept, and a split is at its end
    when neither accuracy nor loss has improved for `patience` epochs. Test labels are not read here.
    """

    Options: type[SupervisedOptions]
    network: type[Classifier]
    networks: Any  # nn.ModuleList of as many as there are splits
    best: Any
    best_accuracy: Tensor  # buffers [splits], which checkpoints keep
    best_loss: Tensor
    best_epoch: Tensor
    lowest_loss: Tensor
    stale: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.validate_options()
        self.all_nodes: GraphInput | None = context.all_nodes()
        data, probe, inductive = self.all_nodes.data, context.config.probe, context.config.data.inductive
        require_training_labels(data)
        device = data.edge_index.device
        self.splits = make_splits(data, probe.splits, probe.seed, "heldout" if inductive else probe.nodes)
        if not all(len(split.train) and len(split.validation) for split in self.splits):
            hint = "give each of train_mask, val_mask and test_mask some nodes"
            raise InputError("a split has no training or no validation nodes", hint)
        self.labels, self.all_labels = context.data.y.to(device), data.y.to(device)
        self.loaders = [self.make_loader(self._train_nodes(split.train).to(device)) for split in self.splits]
        self.networks, self.best = (
            nn.ModuleList(self.make_network(number) for number in range(len(self.splits))) for _ in range(2)
        )
        self.best.requires_grad_(False).load_state_dict(self.networks.state_dict())
        self.current = self.epoch = 0
        infinite = torch.full((len(self.splits),), torch.inf, dtype=torch.double)
        for name in ("best_loss", "lowest_loss"):
            self.register_buffer(name, infinite.clone())
        self.register_buffer("best_accuracy", -infinite)
        for name in ("best_epoch", "stale"):
            self.register_buffer(name, torch.zeros(len(self.splits), dtype=torch.long))

    def validate_options(self) -> None:
        """Raise `InputError` for settings that no network of this kind can have."""
        config = self.context.config
        if config.encoder.layers < 2:
            hint = "set --encoder.layers 2, as GCN does"
            raise InputError("a network that is trained with labels needs `encoder.layers` of at least 2", hint)
        if config.train.patience is not None:
            hint = f"set --train.patience null and --method.patience {config.train.patience}"
            raise InputError(f"`{config.method.name}` stops by its validation nodes, not by the loss", hint)

    def make_network(self, number: int) -> Classifier:
        """The network of a split; its random draws depend on its number, not on how many there are."""
        graph, classes = self.context.graph, int(self.all_labels.max()) + 1
        init, draws = (self.context.generator(f"{name}.{number}") for name in ("init", "dropout"))
        shape = self.context.config.encoder
        return self.network(graph.num_features, classes, shape, init, draws, **self.network_options())

    def network_options(self) -> dict[str, Any]:
        """Keyword arguments of the network."""
        return {"drop_input": self.options.drop_input}

    def make_loader(self, seeds: Tensor) -> Any:
        """The training graph, of which `seeds` are the nodes to classify: it has `batches(epoch)` and `steps`."""
        return self.context.graph.restrict(seeds)

    @property
    def steps(self) -> int:
        """Number of batches in an epoch, before the first split is at its end."""
        return sum(loader.steps for loader in self.loaders)

    def set_epoch(self, epoch: int) -> None:
        """Remember the epoch, so that the best one is known."""
        self.epoch = epoch

    def batches(self, epoch: int) -> Iterable[Batch]:
        """The batches of all splits that are not at their end; after those of a split it is validated."""
        for number in self._active():
            self.current = number
            yield from self.loaders[number].batches(epoch)
            self.validate(number)  # runs after the step of the last batch, when the next one is asked for

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the batch's seeds, by the network of the present split."""
        logits = self.networks[self.current](batch.full_view())
        return cross_entropy(logits, self.labels[batch.seeds])

    @torch.no_grad()
    def validate(self, number: int) -> None:
        """Classify the validation nodes of a split, and keep the weights if no epoch before was better."""
        network = self.networks[number]
        nodes = torch.from_numpy(self.splits[number].validation).to(self.all_labels.device)
        network.eval()
        logits, labels = self._logits(network)[nodes].double(), self.all_labels[nodes]
        network.train()
        accuracy, loss = (logits.argmax(dim=1) == labels).double().mean(), cross_entropy(logits, labels)
        is_higher, is_lower = accuracy > self.best_accuracy[number], loss < self.lowest_loss[number]
        if is_higher or (accuracy == self.best_accuracy[number] and loss < self.best_loss[number]):
            self.best_accuracy[number], self.best_loss[number], self.best_epoch[number] = accuracy, loss, self.epoch
            self.best[number].load_state_dict(network.state_dict())
        self.lowest_loss[number] = torch.minimum(self.lowest_loss[number], loss)
        self.stale[number] = 0 if is_higher or is_lower else self.stale[number] + 1

    def is_finished(self) -> bool:
        """Whether every split is at its end."""
        return not self._active()

    def embed(self, graph: GraphInput) -> Tensor:
        """Output of the layer before the last of the first split's network, [N, hidden]: made with labels."""
        return graph.embed(Trunk(self.best[0]), self.context.progress)

    def predict(self, graph: GraphInput) -> Tensor:
        """Classes [splits, N] by the kept weights of each split."""
        return torch.stack([graph.embed(network.eval()).argmax(dim=1) for network in self.best])

    def facts(self) -> dict[str, Any]:
        """Validation accuracy and epoch of the kept weights, of every split."""
        if not self.best_epoch.any():
            return {}
        percent = [round(100 * accuracy, 2) for accuracy in self.best_accuracy.tolist()]
        return {"validation": percent, "best_epoch": self.best_epoch.tolist()}

    def release(self) -> None:
        """Drop the graphs and labels."""
        super().release()
        self.all_nodes, self.loaders = None, []
        del self.labels, self.all_labels

    def _train_nodes(self, nodes: Any) -> Tensor:
        """Training nodes of a split as the training graph counts them."""
        config = self.context.config
        if config.data.inductive and not config.samples_neighbors:
            return torch.arange(int(self.context.data.num_nodes))
        return torch.from_numpy(nodes)

    def _active(self) -> list[int]:
        """Numbers of the splits that are not at their end."""
        patience = self.options.patience
        return [number for number, stale in enumerate(self.stale.tolist()) if patience is None or stale < patience]

    def _logits(self, network: Classifier) -> Tensor:
        """Logits of all nodes [N, classes], those too that an inductive training does not see."""
        assert self.all_nodes is not None
        return self.all_nodes.embed(network)


class Mlp(Supervised):
    """A multi-layer perceptron, which sees no edges."""

    Options = MlpOptions
    network = Classifier


class Gcn(Supervised):
    """Graph convolutions, with labels.

    Kipf, Welling: Semi-Supervised Classification with Graph Convolutional Networks (2017).
    """

    Options = GcnOptions
    network = GcnClassifier


class Gat(Supervised):
    """Attention over neighbors, with labels.

    Velickovic, Cucurull, Casanova, Romero, Lio, Bengio: Graph Attention Networks (2018).
    """

    Options = GatOptions
    network = GatClassifier

    def validate_options(self) -> None:
        """Heads share the width equally."""
        super().validate_options()
        hidden, heads = self.context.config.encoder.hidden, self.options.heads
        if hidden % heads:
            hint = f"for example --encoder.hidden {heads * (hidden // heads + 1)}"
            raise InputError(f"`encoder.hidden` {hidden} cannot be shared by {heads} heads", hint)

    def network_options(self) -> dict[str, Any]:
        """Heads, and the dropout of attention coefficients."""
        options = self.options
        heads = {name: getattr(options, name) for name in ("heads", "output_heads", "drop_attention")}
        return super().network_options() | heads


class SageSupervised(Supervised):
    """GraphSAGE layers, with labels.

    Hamilton, Ying, Leskovec: Inductive Representation Learning on Large Graphs (2017).
    """

    Options = SageSupervisedOptions
    network = SageClassifier


class FastGcn(Supervised):
    """Graph convolutions over nodes that are sampled for each layer by importance, with labels.

    Validation and embedding use all neighbors.
    Chen, Ma, Xiao: FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling (2018).
    """

    Options = FastGcnOptions
    network = GcnClassifier

    @cached_property
    def sampler(self) -> LayerSampler:
        """Draws nodes of the training graph, the same for all splits."""
        graph = self.context.graph
        nodes = graph.all_seeds if isinstance(graph, SampledGraph) else None
        return LayerSampler(graph.walker, self.options.samples, nodes)

    @cached_property
    def features(self) -> NodeFeatures:
        """Features of the training graph."""
        graph = self.context.graph
        return graph.features if isinstance(graph, SampledGraph) else NodeFeatures(graph.data)

    def validate_options(self) -> None:
        """Sampled layers have no dropout."""
        super().validate_options()
        if self.context.config.encoder.dropout:
            raise InputError("`fastgcn` has no dropout", "set --encoder.dropout 0")

    def make_loader(self, seeds: Tensor) -> LayerBatches:
        """Batches of seeds with sampled layers; without `batch.size`, all seeds in one."""
        config = self.context.config
        seed = derive_seed(config.train.seed, "batches")
        size = config.batch.size or max(2, len(seeds))
        return LayerBatches(self.sampler, self.features, config.encoder.layers, seeds, size, seed, config.batch.steps)

    def release(self) -> None:
        """Drop the samplers too."""
        super().release()
        del self.sampler, self.features
