"""fit(config): train, embed, probe; a run can be stopped anywhere and goes on with the same bits."""

from __future__ import annotations

import json
import math
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.load import to_dict, to_yaml
from progcl.config.schema import Config, DataConfig
from progcl.data.datasets import FILE, OWN, load_data
from progcl.data.labels import require_labels
from progcl.data.prepare import checked
from progcl.data.splits import make_splits
from progcl.distributed import connect
from progcl.errors import InputError, ProgclWarning
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score
from progcl.miners.frozen import FrozenPosterior
from progcl.progress import bar
from progcl.report.figures import draw_mixture
from progcl.report.mixture import MixturePlot
from progcl.training import checkpoint
from progcl.training.run_folder import check_folder, clear_folder, is_restart, write_job_id
from progcl.training.trainer import Record, Trainer, mixture_facts

PACKAGES = ("progcl", "torch", "torch_geometric", "numpy", "scipy", "scikit-learn")


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
    on_epoch: Callable[[Record], object] | None = None,
    seconds: float | None = None,
    scoring: float = math.inf,
) -> Result:
    """Train, embed all nodes, probe.

    Started by torchrun in several processes, it splits every batch, or the rows of the whole graph's loss, over them;
    the first process embeds, probes and writes the folder, the others return no embeddings.

    Args:
        config: what to do; `load_config("photo", {"train.epochs": 500})` makes one
        out: folder for config.yaml, log.jsonl, checkpoint.safetensors, embeddings.npz, result.json, and, with a fitted
            mixture, mixture.svg and its numbers in curves.json
        resume: go on from the checkpoint in `out`; the result has the same bits as an undisturbed run
        force: overwrite what is in `out`
        data: a PyG graph to use instead of the one that `config.data` names; if that is a file, what is in it
        data_root: where published data is looked up
        first_stage: a file that runs differing only in the miner share: the state before epoch E is read
            from it, or written to it if it is not there
        progress: show a bar on stderr
        on_epoch: called with every epoch's record, in the first process
        seconds: stop after the epoch in which so much time has passed; the run can be resumed
        scoring: seconds from the start after which no split of the probe is begun
    """
    if data is not None and config.data.name != FILE:
        data = checked(data)
        config = replace(config, data=DataConfig(name=OWN, normalize=False, inductive=config.data.inductive))
    start, workers = time.monotonic(), connect()
    folder = Path(out) if out and workers.is_main else None
    resume = resume or (folder is not None and is_restart(folder))
    progress = progress and workers.is_main
    if folder:
        check_folder(folder, config, resume, force)
    if data is None:
        how = config.data
        data = workers.local_main_first(lambda: load_data(how, data_root))
    training = Trainer(config, data, progress, workers)
    _validate(training, config)
    if folder and not resume:
        clear_folder(folder)
    _start(training, config, folder, first_stage)
    for record in _epochs(training, config, progress):
        if folder:
            _keep(folder, training, record, config)
        if (
            first_stage
            and workers.is_main
            and record.epoch == config.miner.start_epoch - 1
            and not first_stage.exists()
        ):
            checkpoint.save(first_stage, training.state())
        if on_epoch and workers.is_main:
            on_epoch(record)
        if seconds is not None and workers.broadcast(lambda: time.monotonic() - start) >= seconds:
            break
    return _finish(training, config, folder, progress, start + scoring)


def _epochs(training: Trainer, config: Config, progress: bool) -> Iterator[Record]:
    """The epochs that are left, with a bar."""
    graph = Path(config.data.graph).stem if config.data.graph else config.data.name
    name = f"{graph} {config.method.name} {config.miner.name}"
    steps = training.graph.steps
    unit = "epoch" if steps == 1 else "step"
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


def _validate(training: Trainer, config: Config) -> None:
    """Say before training what would come out only after it."""
    if not training.workers.is_main:
        return
    if config.probe.protocol != "none":
        require_labels(training.data)
        make_splits(training.data, 1, nodes=config.probe.nodes)
    if config.miner.estimator == "oracle" and isinstance(training.miner, FrozenPosterior):
        warnings.warn("miner.estimator `oracle` trains with labels: for analysis only", ProgclWarning, stacklevel=3)
    start = getattr(training.miner, "start_epoch", 0)
    collects = config.batch.size is not None and not getattr(training.miner, "per_batch", True)
    if start + collects > config.train.epochs:
        after = " and collects until the next" if collects else ""
        message = f"no mining: miner.start_epoch is {start}{after}, the last epoch {config.train.epochs}"
        warnings.warn(message, ProgclWarning, stacklevel=3)


def _start(training: Trainer, config: Config, folder: Path | None, first_stage: Path | None) -> None:
    """Restore the newest state there is, and bring configuration and log to it."""

    def newest() -> tuple[checkpoint.State, bool] | None:
        own = folder / "checkpoint.safetensors" if folder else None
        for path in (own, first_stage):
            if path and path.exists():
                return checkpoint.load(path), path == own
        return None

    found = training.workers.broadcast(newest)
    if found:
        training.restore(found[0], miner=found[1])
    done = len(training.records)
    if done > config.train.epochs:
        raise InputError(f"the run has {done} epochs already", "set --train.epochs to at least that")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        if training.workers.size > 1:
            write_job_id(folder)
        checkpoint.write_text(folder / "config.yaml", to_yaml(config))
        checkpoint.write_text(folder / "log.jsonl", "".join(map(_line, training.records)))
        if training.progress:
            print(f"run folder: {folder}", file=sys.stderr)


def _keep(folder: Path, training: Trainer, record: Record, config: Config) -> None:
    """Log every epoch, and save a checkpoint at the intervals that the configuration sets."""
    with (folder / "log.jsonl").open("a") as log:
        log.write(_line(record))
    if record.epoch % config.train.checkpoint_every == 0:
        checkpoint.save(folder / "checkpoint.safetensors", training.state())


def _line(record: Record) -> str:
    return json.dumps({key: value for key, value in asdict(record).items() if value is not None}) + "\n"


def _finish(training: Trainer, config: Config, folder: Path | None, progress: bool, end: float) -> Result:
    """Embed, probe, and write what the run gives; no split of the probe is begun after the `end`."""
    if folder:
        checkpoint.save(folder / "checkpoint.safetensors", training.state())
    embeddings = training.embed() if training.workers.is_main else torch.empty(0, config.encoder.hidden)
    if folder:
        checkpoint.save_embeddings(folder / "embeddings.npz", embeddings.numpy(), training.data.get("ids"))
    start, left = time.perf_counter(), end - time.monotonic()
    score = None
    if config.probe.protocol != "none" and training.workers.is_main and left > 0:
        score = linear_probe(embeddings, training.data, **config.probe.options(), progress=progress, seconds=left)
    seconds = {
        "train": training.seconds,
        "probe": time.perf_counter() - start,
    }
    losses = [record.loss for record in training.records]
    result = Result(config, embeddings, losses, score, mixture_facts(training.miner), seconds)
    if folder:
        checkpoint.write_text(folder / "result.json", result.to_json())
        if isinstance(miner := training.miner, FrozenPosterior) and miner.active and not miner.per_batch:
            curves = MixturePlot.of(miner, training.seen if score else None)
            checkpoint.write_text(folder / "curves.json", curves.to_json())
            checkpoint.replace(folder / "mixture.svg", lambda part: draw_mixture(curves, part))
    return result
