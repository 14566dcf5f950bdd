"""The state of a run and its steps: one loop, whether over a whole graph, in batches or in several processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.data.labels import oracle_classes
from progcl.data.prepare import fingerprint
from progcl.data.splits import held_out
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.errors import InputError
from progcl.graph.loader import Batch, GraphLoader
from progcl.losses.infonce import InfoNCE
from progcl.losses.tiles import Shard
from progcl.methods import METHODS
from progcl.methods.grace import Context, Grace
from progcl.methods.merit import Merit
from progcl.miners import MINERS
from progcl.miners.base import Miner
from progcl.miners.frozen import FrozenPosterior
from progcl.miners.progcl import ProGCLMix, ProGCLWeight
from progcl.posteriors.baselines import Oracle
from progcl.registry import build, find
from progcl.seeding import derive_seed
from progcl.training import checkpoint

GENERATORS = ("init", "view1", "view2", "anchors")


@dataclass(frozen=True)
class Record:
    """One epoch; `mixture` is there once, at the epoch that fitted it."""

    epoch: int
    loss: float
    seconds: float
    peak_mb: float | None
    mixture: dict[str, Any] | None = None


class Trainer:
    """The state of a run: method, optimizer, named random generators, epochs done.

    Attributes:
        lens: the form in which graphs are seen
        graph: what is trained on, in that form
        seen: the same as data, with the nodes' numbers that training has for them
        on_step: called with a step's loss and number of nodes
    """

    def __init__(self, config: Config, data: Data, progress: bool = False, workers: Workers = SINGLE_PROCESS) -> None:
        seed = config.train.seed
        self.config = config
        self.data = data
        self.progress = progress
        self.workers = workers
        self.on_step: Callable[[float, int], object] = lambda loss, nodes: None
        nodes = held_out(data)[0] if config.data.inductive else None
        self.seen = data if nodes is None or config.samples_neighbors else data.subgraph(nodes)
        self.lens = GraphLoader.of(config, data.x if nodes is None else data.x[nodes], workers)
        self.graph = self.lens.graph(self.seen, nodes)
        self.checksum = fingerprint(data)
        self.generators = {name: torch.Generator().manual_seed(derive_seed(seed, name)) for name in GENERATORS}
        make = find(METHODS, config.method.name, "method")
        criterion = partial(make_criterion, config, self.seen)
        anchors, columns = config.train.anchors, self.graph.columns
        parts = (self.seen, columns, config.method, config.encoder, criterion, self.generators, anchors)
        self.method = make(Context(*parts, workers, progress))
        self.miner = _mining(self.method)
        parameters = [each for each in self.method.parameters() if each.requires_grad]
        self.optimizer = torch.optim.Adam(parameters, config.train.lr, weight_decay=config.train.weight_decay)
        self.loss = self._split_over(workers) if workers.size > 1 else self.method.loss
        self.records: list[Record] = []

    def run(self, epochs: int) -> Iterator[Record]:
        """Train until `epochs` epochs are done."""
        for epoch in range(len(self.records) + 1, epochs + 1):
            start, known = time.perf_counter(), mixture_facts(self.miner)
            self.method.set_epoch(epoch)
            losses = [self._step(part, epoch) for part in self.graph.batches(epoch)]
            fitted = mixture_facts(self.miner) if known is None else None
            loss = sum(losses) / len(losses)
            self.records.append(Record(epoch, loss, time.perf_counter() - start, peak_mb(), fitted))
            yield self.records[-1]

    @property
    def seconds(self) -> float:
        """That all epochs have taken."""
        return sum(record.seconds for record in self.records)

    def _step(self, part: Batch, epoch: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(part)
        loss.backward()
        self.optimizer.step()
        self.method.after_step()
        if not loss.isfinite():
            raise InputError(f"the loss of epoch {epoch} is {loss.item()}", "try a smaller --train.lr")
        self.on_step(loss.item(), self.graph.nodes if part.seeds is None else len(part.seeds))
        return loss.item()

    def _split_over(self, workers: Workers) -> Callable[[Batch], Tensor]:
        """The loss, with its rows and the gradients' sum split over the processes."""
        for module in self.method.modules():
            if isinstance(module, InfoNCE):
                module.split = Shard(workers.part, workers.sum)
        return DistributedDataParallel(_Loss(self.method))

    def embed(self) -> Tensor:
        """Embeddings of all nodes [N, hidden], also of those that an inductive training did not see."""
        data, graph = self.seen, self.graph
        if self.config.data.inductive:
            data, graph = self.data, self.lens.graph(self.data)
        return self.lens.finished(self.method.embed(graph, self.progress), graph, data)

    def state(self) -> checkpoint.State:
        """Everything the rest of the run depends on."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        for index, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in slots.items()}
        tensors |= {f"generator.{name}": made.get_state() for name, made in self.generators.items()}
        return tensors, {"graph": self.checksum, "records": [asdict(record) for record in self.records]}

    def restore(self, state: checkpoint.State, miner: bool = True) -> None:
        """Take a state back; without its miner's part, it is the start of a run with another miner."""
        tensors, values = state
        if values["graph"] != self.checksum:
            raise InputError("the checkpoint belongs to another graph", "choose another --out")
        method = _below("method.", tensors)
        if not miner:
            kept = {name: value for name, value in self.method.state_dict().items() if ".miner." in name}
            method = {name: value for name, value in method.items() if ".miner." not in name} | kept
        self.method.load_state_dict(method)
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in _below("optimizer.", tensors).items():
            index, _, slot = name.partition(".")
            slots.setdefault(int(index), {})[slot] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
        for name, value in _below("generator.", tensors).items():
            self.generators[name].set_state(value)
        self.records = [Record(**record) for record in values["records"]]


class _Loss(torch.nn.Module):
    """A method whose loss is its call, as DistributedDataParallel wants it.

    It has no buffers: what miners remember is the same in every process, and not to be sent in every step.
    """

    def __init__(self, method: Grace | Merit) -> None:
        super().__init__()
        self.trained = torch.nn.ParameterList(each for each in method.parameters() if each.requires_grad)
        self.loss = method.loss

    def forward(self, part: Batch) -> Tensor:
        return self.loss(part)


def make_criterion(config: Config, data: Data, kind: type[InfoNCE], name: str, mined: bool = True) -> InfoNCE:
    """A loss of this kind, with a miner of its own, or with none."""
    miner = make_miner(config, name, data) if mined else None
    return kind(config.loss.tau, miner, config.loss.block_size, config.loss.memory)


def make_miner(config: Config, name: str = "miner", data: Data | None = None) -> Miner:
    """The configured miner, with those of the options that it has and random numbers by `name`."""
    own = ":" in config.miner.name  # somebody's class: its defaults are its own
    options = {**({} if own else asdict(config.miner)), "seed": derive_seed(config.train.seed, name)}
    options["per_batch"] = config.batch.size is not None and config.batch.variant == "paper"
    make = find(MINERS, config.miner.name, "miner")
    if make in (ProGCLWeight, ProGCLMix) and config.miner.estimator == "oracle" and data is not None:
        options["estimator"] = Oracle(oracle_classes(data))
    made = build(make, options, config.miner.options)
    if not isinstance(made, Miner):
        raise InputError(
            f"`{config.miner.name}` makes no Miner, but {type(made).__name__}", "derive the class from progcl.Miner"
        )
    return made


def mixture_facts(miner: Miner) -> dict[str, Any] | None:
    """The fitted mixture in plain numbers, true negatives first; None before the fit and for other miners.

    Of a mixture for every batch, how many there are.
    """
    if not isinstance(miner, FrozenPosterior) or not miner.fitted.numel():
        return None
    if miner.per_batch and len(miner.fits):
        degenerate = int((miner.fits[:, -1] > 0).sum())
        spread = [miner.ranges[:, 0].min().item(), miner.ranges[:, 1].max().item()]
        facts = {"batches": len(miner.fits), "degenerate batches": degenerate}
        return {**facts, "degenerate": degenerate == len(miner.fits), "range": spread}
    return {**miner.estimator.facts(), "range": miner.bounds.tolist()}


def peak_mb() -> float | None:
    """The process's largest resident memory so far, in megabytes, where the system tells it."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)


def _mining(method: torch.nn.Module) -> Miner:
    """The first of the method's miners that mines, if there are several."""
    miners = [module for module in method.modules() if isinstance(module, Miner)]
    return next((miner for miner in miners if type(miner) is not Miner), miners[0])


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
