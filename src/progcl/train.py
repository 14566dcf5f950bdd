"""fit(config): one training loop, that can be stopped anywhere and goes on with the same bits."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl import checkpoint
from progcl.batches import Neighborhoods, Sampled
from progcl.config import to_dict, to_yaml
from progcl.contrast import InfoNCE, Miner
from progcl.data import OWN, checked, fingerprint, held_out, load, oracle_classes
from progcl.errors import InputError, ProgclWarning
from progcl.estimators import Oracle
from progcl.figures import draw_mixture
from progcl.folders import check_folder, clear_folder
from progcl.graph import Graph
from progcl.methods import METHODS
from progcl.methods.grace import Parts
from progcl.miners import MINERS, ProGCL, ProGCLMix, ProGCLWeight
from progcl.probe import Score, make_splits, probe, require_labels
from progcl.progress import bar
from progcl.registry import build, find
from progcl.schema import Config, DataConfig

GENERATORS = ("init", "view1", "view2", "anchors")
PACKAGES = ("progcl", "torch", "torch_geometric", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Record:
    """One epoch; `mixture` is there once, at the epoch that fitted it."""

    epoch: int
    loss: float
    seconds: float
    peak_mb: float | None
    mixture: dict[str, Any] | None = None


@dataclass(frozen=True)
class Result:
    """What a run gives: embeddings [N, hidden], the loss of every epoch, the probe's score if there was one."""

    config: Config
    embeddings: Tensor
    losses: list[float]
    score: Score | None
    mixture: dict[str, Any] | None
    seconds: dict[str, float]

    def to_json(self) -> str:
        """What `result.json` holds: equal for equal seeds and versions, but for `seconds`."""
        content = {
            "config": to_dict(self.config),
            "seed": self.config.train.seed,
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
            "loss": self.losses[-1],
            "mixture": self.mixture,
            "score": self.score and {"mean": self.score.mean, "std": self.score.std, **asdict(self.score)},
            "seconds": self.seconds,
        }
        return json.dumps(content, indent=2) + "\n"


class Training:
    """The state of a run: method, optimiser, named random generators, epochs done.

    Attributes:
        graph: what is trained on, whole or in batches
        on_step: called with a step's loss and number of nodes
    """

    def __init__(self, config: Config, data: Data, progress: bool = False) -> None:
        seed = config.train.seed
        self.config = config
        self.data = data
        self.progress = progress
        self.on_step: Callable[[float, int], object] = lambda loss, nodes: None
        self.graph = self._graph(held_out(data)[0] if config.data.inductive else None)
        self.checksum = fingerprint(data)
        self.generators = {name: torch.Generator().manual_seed(derived_seed(seed, name)) for name in GENERATORS}
        make = find(METHODS, config.method.name, "method")
        criterion = partial(make_criterion, config, data)
        anchors = config.train.anchors
        self.method = make(Parts(data, config.method, config.encoder, criterion, self.generators, anchors, progress))
        self.miner = _mining(self.method)
        parameters = [each for each in self.method.parameters() if each.requires_grad]
        self.optimizer = torch.optim.Adam(parameters, config.train.lr, weight_decay=config.train.weight_decay)
        self.records: list[Record] = []

    def run(self, epochs: int) -> Iterator[Record]:
        """Train until `epochs` epochs are done."""
        for epoch in range(len(self.records) + 1, epochs + 1):
            start, known = time.perf_counter(), mixture_facts(self.miner)
            self.method.set_epoch(epoch)
            losses = [self._step(part, epoch) for part in self.graph.parts(epoch)]
            fitted = mixture_facts(self.miner) if known is None else None
            loss = sum(losses) / len(losses)
            self.records.append(Record(epoch, loss, time.perf_counter() - start, peak_mb(), fitted))
            yield self.records[-1]

    def _step(self, part: Graph | Neighborhoods, epoch: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.method.loss(part)
        loss.backward()
        self.optimizer.step()
        self.method.after_step()
        if not loss.isfinite():
            raise InputError(f"the loss of epoch {epoch} is {loss.item()}", "try a smaller --train.lr")
        self.on_step(loss.item(), self.graph.nodes if part.seeds is None else len(part.seeds))
        return loss.item()

    def embed(self) -> Tensor:
        """Embeddings of all nodes [N, hidden], also of those that an inductive training did not see."""
        return self.method.embed(self.whole(), self.progress)

    def whole(self) -> Graph | Sampled:
        """The graph with all nodes, also those that an inductive training does not see."""
        return self._graph(None) if self.config.data.inductive else self.graph

    def _graph(self, nodes: Tensor | None) -> Graph | Sampled:
        """The graph, or the part of it that these nodes make up, whole or in batches."""
        batch = self.config.batch
        if batch.size is None:
            return Graph(self.data if nodes is None else self.data.subgraph(nodes))
        seed, fixed = derived_seed(self.config.train.seed, "batches"), batch.variant == "paper"
        return Sampled(self.data, batch.fanouts, batch.size, seed, batch.replace, batch.steps, fixed, nodes)

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


def fit(
    config: Config,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    data: Data | None = None,
    data_root: str | Path | None = None,
    first_stage: Path | None = None,
    progress: bool = False,
    on_epoch: Callable[[Record], None] | None = None,
) -> Result:
    """Train, embed all nodes, probe.

    Args:
        config: what to do; `load_config("photo", {"train.epochs": 500})` makes one
        out: folder for config.yaml, log.jsonl, checkpoint.safetensors, embeddings.npz, mixture.svg, result.json
        resume: go on from the checkpoint in `out`; the result has the same bits as an undisturbed run
        force: overwrite what is in `out`
        data: a PyG graph to use instead of the one that `config.data` names
        data_root: where published data is looked up
        first_stage: a file that runs differing only in the miner share: the state before epoch E is read
            from it, or written to it if it is not there
        progress: show a bar on stderr
        on_epoch: called with every epoch's record
    """
    if data is not None:
        data = checked(data)
        config = replace(config, data=DataConfig(name=OWN, inductive=config.data.inductive))
    folder = Path(out) if out else None
    if folder:
        check_folder(folder, config, resume, force)
    if data is None:
        data = load(config.data.name, data_root, config.data.normalize, **config.data.options())
    training = Training(config, data, progress)
    _foresee(training, config)
    if folder and not resume:
        clear_folder(folder)
    _start(training, config, folder, first_stage)
    if folder and progress:
        print(f"run folder: {folder}", file=sys.stderr)
    for record in _epochs(training, config, progress):
        if folder:
            _keep(folder, training, record, config)
        if first_stage and record.epoch == config.miner.start_epoch - 1 and not first_stage.exists():
            checkpoint.save(first_stage, training.state())
        if on_epoch:
            on_epoch(record)
    return _finish(training, config, folder, progress)


def _epochs(training: Training, config: Config, progress: bool) -> Iterator[Record]:
    """The epochs that are left, with a bar."""
    name = f"{config.data.name} {config.method.name} {config.miner.name}"
    steps, unit = (training.graph.steps, "step") if isinstance(training.graph, Sampled) else (1, "epoch")
    total, done = steps * config.train.epochs, steps * len(training.records)
    with bar(progress, desc=name, total=total, initial=done, unit=unit) as steps_done:
        last = time.perf_counter()

        def show(loss: float, nodes: int) -> None:
            nonlocal last
            last, before = time.perf_counter(), last
            facts = {"loss": f"{loss:.4f}"}
            if unit == "step":
                facts |= {"epoch": f"{len(training.records) + 1}", "nodes/s": f"{nodes / (last - before):.0f}"}
            steps_done.set_postfix(facts, refresh=False)
            steps_done.update()

        training.on_step = show
        yield from training.run(config.train.epochs)


def make_criterion(config: Config, data: Data, kind: type[InfoNCE], name: str, mined: bool = True) -> InfoNCE:
    """A loss of this kind, with a miner of its own, or with none."""
    miner = make_miner(config, name, data) if mined else None
    return kind(config.loss.tau, miner, config.loss.block_size, config.loss.memory)


def make_miner(config: Config, name: str = "miner", data: Data | None = None) -> Miner:
    """The configured miner, with those of the options that it has and random numbers by `name`."""
    own = ":" in config.miner.name  # somebody's class: its defaults are its own
    options = {**({} if own else asdict(config.miner)), "seed": derived_seed(config.train.seed, name)}
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


def derived_seed(seed: int, name: str) -> int:
    """A seed of its own for every named generator."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")


def mixture_facts(miner: Miner) -> dict[str, Any] | None:
    """The fitted mixture in plain numbers, true negatives first; None before the fit and for other miners."""
    if not isinstance(miner, ProGCL) or not miner.fitted.numel():
        return None
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


def _foresee(training: Training, config: Config) -> None:
    """Say before training what would come out only after it."""
    if config.probe.protocol != "none":
        require_labels(training.data)
        make_splits(training.data, 1, nodes=config.probe.nodes)
    if config.miner.estimator == "oracle" and isinstance(training.miner, ProGCL):
        warnings.warn("miner.estimator `oracle` trains with labels: for analysis only", ProgclWarning, stacklevel=3)
    start = getattr(training.miner, "start_epoch", 0)
    if start > config.train.epochs:
        message = f"no mining: miner.start_epoch is {start}, the last epoch {config.train.epochs}"
        warnings.warn(message, ProgclWarning, stacklevel=3)


def _start(training: Training, config: Config, folder: Path | None, first_stage: Path | None) -> None:
    """Restore the newest state there is, and bring configuration and log to it."""
    if folder and (folder / "checkpoint.safetensors").exists():
        training.restore(checkpoint.load(folder / "checkpoint.safetensors"))
    elif first_stage and first_stage.exists():
        training.restore(checkpoint.load(first_stage), miner=False)
    done = len(training.records)
    if done > config.train.epochs:
        raise InputError(f"the run has {done} epochs already", "set --train.epochs to at least that")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.write_text(folder / "config.yaml", to_yaml(config))
        checkpoint.write_text(folder / "log.jsonl", "".join(map(_line, training.records)))


def _keep(folder: Path, training: Training, record: Record, config: Config) -> None:
    """Log every epoch, and save a checkpoint at the intervals that the configuration sets."""
    with (folder / "log.jsonl").open("a") as log:
        log.write(_line(record))
    if record.epoch % config.train.checkpoint_every == 0 or record.epoch == config.train.epochs:
        checkpoint.save(folder / "checkpoint.safetensors", training.state())


def _line(record: Record) -> str:
    return json.dumps({key: value for key, value in asdict(record).items() if value is not None}) + "\n"


def _finish(training: Training, config: Config, folder: Path | None, progress: bool) -> Result:
    """Embed, probe, and write what the run gives."""
    embeddings = training.embed()
    if folder:
        checkpoint.save_embeddings(folder / "embeddings.npz", embeddings.numpy())
    start = time.perf_counter()
    score = None
    if config.probe.protocol != "none":
        score = probe(embeddings, training.data, **config.probe.options(), progress=progress)
    seconds = {
        "train": sum(record.seconds for record in training.records),
        "probe": time.perf_counter() - start,
    }
    losses = [record.loss for record in training.records]
    result = Result(config, embeddings, losses, score, mixture_facts(training.miner), seconds)
    if folder:
        checkpoint.write_text(folder / "result.json", result.to_json())
        if isinstance(miner := training.miner, ProGCL) and miner.active:
            labels = training.data if score else None
            checkpoint.replace(folder / "mixture.svg", lambda part: draw_mixture(miner, labels, part))
    return result
