"""The state of a run and its steps: one loop over a full graph, batches, or several processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.data.prepare import fingerprint
from progcl.data.rows import make_dense
from progcl.data.schema import FeatureSchema
from progcl.data.splits import heldout_split
from progcl.data.walk_factors import node_names
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.errors import InputError
from progcl.graph.hop_features import HopFeatures, is_directed, svd_directions
from progcl.graph.loader import Batch, GraphInput, GraphLoader
from progcl.graph.sampled import SampledGraph
from progcl.methods import Context, Method, make_method
from progcl.training import checkpoint
from progcl.training.checkpoint import below
from progcl.training.choice import MIN_HELDOUT, Choice
from progcl.training.device import choose_device, fixed_order, move
from progcl.training.model import Model, Start, load_weights, method_weights
from progcl.training.output import Output


@dataclass(frozen=True)
class Record:
    """One epoch; `facts` is what the method has to say, where that has changed in this epoch."""

    epoch: int
    loss: float
    seconds: float
    peak_mb: float | None
    facts: dict[str, Any] | None = None


class Trainer:
    """Method, optimizer, random generators and the epochs so far: all that a run's further course depends on.

    Attributes:
        data: all nodes
        loader: the form in which the encoder reads graphs
        graph: what is trained on, in that form
        train_data: the same as PyG data: all nodes, or the training nodes of an inductive run
        output: what becomes of the learned vectors; fitted by `embed`
        not_judged: why nothing is trained, although `output.blocks` auto was to choose; else empty
        start: an earlier run, whose weights training starts from; None starts anew
        on_step: called with a step's loss and number of nodes
    """

    output: Output

    def __init__(
        self,
        config: Config,
        data: Data,
        progress: bool = False,
        workers: Workers = SINGLE_PROCESS,
        start: Start | None = None,
    ) -> None:
        self.config = config
        self.start = start
        directions = start.model.directions if start and start.model.is_trained else None
        self.checksum = fingerprint(data, directions)
        is_reduced = config.reads_hop_table and not config.data.inductive  # before training, all else needs dense rows
        self.data = data = move(data if is_reduced else make_dense(data), choose_device(config.train.device))
        self.workers = workers
        self.progress = progress
        self.on_step: Callable[[float, int], object] = lambda loss, nodes: None
        nodes = heldout_split(data)[0].to(data.edge_index.device) if config.data.inductive else None
        self.train_data = data if nodes is None or config.samples_neighbors else data.subgraph(nodes)
        x = data.x if nodes is None else data.x[nodes]
        directed = start.model.schema.directed if start else is_directed(data)
        self.loader = GraphLoader.for_training(config, x, workers, directions, directed)
        self.graph = self.loader.graph(self.train_data, nodes)
        self.context = Context(config, self.train_data, self.graph, self.all_nodes, workers, progress)
        self.method = make_method(self.context).to(data.edge_index.device)
        if start and start.model.is_trained:
            load_weights(self.method, start.model.weights)
        self.not_judged = self._reason_not_to_judge()
        self.optimizer = self.method.optimizer() if self.method.trained and self._is_used() else None
        self.loss = self.method.loss if workers.size == 1 else DistributedDataParallel(_Loss(self.method))
        self.records: list[Record] = []

    def run(self, epochs: int) -> Iterator[Record]:
        """Train until `epochs` epochs are done, or the patience is at an end."""
        if self.optimizer is None:
            return
        self.method.train()
        for epoch in range(len(self.records) + 1, epochs + 1):
            if self._out_of_patience() or self.method.is_finished():
                return
            start, before = time.perf_counter(), self.method.facts()
            self.method.set_epoch(epoch)
            losses = [
                self._step(self.optimizer, batch, epoch, number / (epochs * self.method.steps))
                for number, batch in enumerate(self.method.batches(epoch), (epoch - 1) * self.method.steps)
            ]
            facts = self.method.facts()
            mean = sum(losses) / len(losses)
            seconds = time.perf_counter() - start
            self.records.append(Record(epoch, mean, seconds, peak_mb(), facts if facts != before else None))
            yield self.records[-1]

    def embed(self) -> Tensor:
        """Embeddings [N, d] of all nodes, also of those that an inductive training did not see; on the CPU.

        Fits `output` to the training graph.
        """
        learned = method_vectors(self.method, self.graph)
        if not self.config.data.inductive:
            self.output = Output.fit(self.config, learned, self.train_data, self._choose(learned))
            return self._align(self.output.apply(learned, self.train_data).cpu())
        data = self.train_data
        if isinstance(self.graph, SampledGraph):
            data, learned = data.subgraph(self.graph.all_seeds), learned[self.graph.all_seeds]
        self.output = Output.fit(self.config, learned, data, self._choose(learned))
        return self.output.apply(method_vectors(self.method, self.loader.graph(self.data)), self.data).cpu()

    def model(self) -> Model:
        """What it takes to embed other graphs; after `embed`."""
        schema = FeatureSchema.of(self.train_data, self.config.data.normalize)
        return Model(self.config, schema, method_weights(self.method), self.loader.directions, self.output)

    def all_nodes(self) -> GraphInput:
        """All nodes in the form that the encoder reads; those of an inductive training are but a part of them."""
        return self.loader.graph(self.data) if self.config.data.inductive else self.graph

    @property
    def seconds(self) -> float:
        """Time of all epochs."""
        return sum(record.seconds for record in self.records)

    def state(self) -> checkpoint.State:
        """Everything the rest of the run depends on."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        for index, slots in (self.optimizer.state_dict()["state"] if self.optimizer else {}).items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in slots.items()}
        tensors |= {f"generator.{name}": each.get_state() for name, each in self.context.generators.items()}
        return tensors, {"graph": self.checksum, "records": [asdict(record) for record in self.records]}

    def restore(self, state: checkpoint.State, miner: bool = True) -> None:
        """Take a state back; without the miners' state it is the start of a run with another miner."""
        tensors, values = state
        if values["graph"] != self.checksum:
            raise InputError("the checkpoint belongs to another graph", "choose another --out")
        method = below("method.", tensors)
        if not miner:
            initial = {name: value for name, value in self.method.state_dict().items() if ".miner." in name}
            method = {name: value for name, value in method.items() if ".miner." not in name} | initial
        try:
            self.method.load_state_dict(method)
        except RuntimeError:  # other names or shapes
            hint = "resume with the same options, or choose another --out"
            raise InputError("the checkpoint belongs to another run", hint) from None
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in below("optimizer.", tensors).items():
            index, _, slot = name.partition(".")
            slots.setdefault(int(index), {})[slot] = value
        if self.optimizer:
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
        for name, value in below("generator.", tensors).items():
            self.context.generator(name).set_state(value)
        self.records = [Record(**record) for record in values["records"]]

    def _step(self, optimizer: Optimizer, batch: Batch, epoch: int, progress: float) -> float:
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * self.method.lr_factor(progress)
        optimizer.zero_grad(set_to_none=True)
        with fixed_order(self.data.edge_index.device):
            loss = self.loss(batch)
            loss.backward()
            optimizer.step()
        self.method.after_step(progress)
        if not loss.isfinite():
            raise InputError(f"the loss of epoch {epoch} is {loss.item()}", "try a smaller --train.lr")
        self.on_step(loss.item(), self.graph.num_nodes if batch.seeds is None else len(batch.seeds))
        return loss.item()

    def _is_used(self) -> bool:
        """Whether the embeddings will hold learned vectors."""
        if self.config.output.blocks != "auto":
            return self.config.output.blocks == "learned"
        return self.start.model.is_trained if self.start else not self.not_judged

    def _align(self, embeddings: Tensor) -> Tensor:
        """Embeddings [N, D], rotated onto those of the earlier run if there is one."""
        if self.start is None:
            return embeddings
        self.output = self.output.align(embeddings, node_names(self.data), self.start.embeddings)
        assert self.output.alignment is not None
        return self.output.alignment.apply(embeddings)

    def _reason_not_to_judge(self) -> str:
        """Why held-out edges cannot tell what training is worth; then nothing is trained."""
        if self.config.output.blocks != "auto":
            return ""
        if self.start:
            return self.start.model.output.not_judged
        if self.train_data.get("structural"):
            return "there are no features to learn from, and walk vectors of the graph are as good without training"
        heldout = self.method.heldout_edges()
        if heldout is None or heldout.size(1) < MIN_HELDOUT:
            return f"{0 if heldout is None else heldout.size(1)} edges to judge by are too few"
        return ""

    def _choose(self, learned: Tensor) -> Choice | str:
        """Judge the learned vectors by held-out edges, or say why not; empty where that is not asked for.

        The choice of an earlier run stays: its training may have seen the edges that are held out now.
        """
        if self.start and self.config.output.blocks == "auto":
            return self.start.model.output.choice or self.not_judged
        data, heldout = self.train_data, self.method.heldout_edges()
        if self.config.output.blocks != "auto" or self.not_judged or heldout is None:
            return self.not_judged
        directions = self.loader.directions
        if directions is None:
            directions = svd_directions(data.x, self.config.encoder.rank)
        features = HopFeatures(tuple(self.config.hops.powers), directions, directed=is_directed(data))
        return Choice.judge(learned, data, heldout, features)

    def _out_of_patience(self) -> bool:
        patience, losses = self.config.train.patience, [record.loss for record in self.records]
        return patience is not None and len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])


@torch.no_grad()
def method_vectors(method: Method, graph: GraphInput) -> Tensor:
    """The method's own vectors [N, d] of a graph, in evaluation mode."""
    training = method.training
    method.eval()
    vectors = method.embed(graph)
    method.train(training)
    return vectors.detach().clone()  # a method may return a parameter, or a view of one


class _Loss(nn.Module):
    """A method whose loss is its call, as DistributedDataParallel wants it.

    It has no buffers: what miners remember is the same in every process, and is not sent in every step.
    """

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.trained = nn.ParameterList(method.trained_parameters())
        self.loss = method.loss

    def forward(self, batch: Batch) -> Tensor:
        return self.loss(batch)


def peak_mb() -> float | None:
    """The process's largest resident memory so far, in megabytes, where the system tells it."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)
