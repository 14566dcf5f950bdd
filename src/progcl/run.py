"""fit(config): train, embed, probe; a run can be stopped anywhere and resumed with the same bits."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from progcl.budget import Budget
from progcl.checksums import json_lines, read_file
from progcl.config import Config, to_yaml
from progcl.config.schema import DataConfig
from progcl.data.datasets import FILE, OWN, load_data
from progcl.data.holdout import hold_out_links
from progcl.data.homophily import describe_homophily
from progcl.data.labels import require_labels
from progcl.data.prepare import prepare
from progcl.data.rows import all_finite
from progcl.data.splits import make_splits
from progcl.distributed import connect
from progcl.errors import InputError, warn
from progcl.evaluation.health import describe_collapse
from progcl.evaluation.links import score_heldout
from progcl.evaluation.supervised import score_predictions
from progcl.graph.hop_features import is_directed
from progcl.memory import require_within_limit
from progcl.precision import single_precision
from progcl.progress import bar
from progcl.report.mixture import plot_data, save_mixture
from progcl.result import Result, score_result
from progcl.training import checkpoint, files
from progcl.training.checkpoint import Checkpoints
from progcl.training.lock import lock_folder
from progcl.training.memory import apply_memory_limit
from progcl.training.model import Start, can_transform, load_input
from progcl.training.model_file import MODEL_FILE
from progcl.training.run_folder import check_folder, clear_folder, clear_leftovers, is_restart, write_job_id
from progcl.training.signals import GRACE_SECONDS, StopRequest
from progcl.training.trainer import Record, Trainer


@dataclass(frozen=True)
class FirstStage:
    """A checkpoint after the first `epochs` epochs that runs share which differ only in the miner, idle until then."""

    path: Path
    epochs: int


@single_precision()
def fit(
    config: Config,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    data: Data | None = None,
    data_root: str | Path | None = None,
    first_stage: FirstStage | None = None,
    progress: bool = False,
    on_epoch: Callable[[Record], object] | None = None,
    budget: Budget | None = None,
    score: bool = True,
    stop: StopRequest | None = None,
) -> Result:
    """Train, embed all nodes, probe. What is in `out` is final before the probe begins, and gains a score by it.

    Started by torchrun in several processes, every batch, or the rows of the full graph's loss, are sharded over them;
    the main process embeds, probes and writes the folder, the others return no embeddings.

    Args:
        config: what to do; `load_config("photo", {"train.epochs": 500})` makes one
        out: folder for config.yaml, log.jsonl, checkpoint.safetensors, embeddings.npz, result.json, and, with a fitted
            mixture, mixture.svg and its numbers in curves.json
        resume: continue from the checkpoint in `out`; the result has the same bits as an undisturbed run
        force: overwrite what is in `out`
        data: a PyG graph to use instead of the one that `config.data` names; if that is a file, its content
        data_root: where published data is looked up
        first_stage: a checkpoint that several runs share; read if it is there, written if not
        progress: show a bar on stderr
        on_epoch: called with every epoch's record, in the main process
        budget: time to keep to: training ends early, and can be resumed; splits of the probe are left out
        score: whether to probe; `score_result` does it later
        stop: receives signals, upon which training ends with `Stopped` where it can be resumed, and probing at once;
            without it, Ctrl-C raises KeyboardInterrupt

    Raises:
        InputError: if a run in `out` is under way, or has ended and is neither resumed nor overwritten
    """
    budget, workers, stop = budget or Budget(), connect(), stop or StopRequest()
    if workers.size > 1:
        config.method.require("processes")
    config, data = _resolve_data(config, data)
    folder = Path(out) if out and workers.is_main else None
    with lock_folder(folder) if folder else nullcontext():
        resume = resume or (folder is not None and is_restart(folder))
        if folder:
            check_folder(folder, config, resume, force)
        earlier = Start.load(config)
        if data is None:
            data = workers.local_main_first(
                lambda: load_input(config, earlier) if earlier else load_data(config.data, data_root, out)
            )
            for remark in describe_homophily(data):
                warn(remark)
        config = apply_memory_limit(config, data)
        with budget.stage("prepare"):
            trainer = Trainer(config, data, progress and workers.is_main, workers, earlier)
        _validate(trainer)
        if folder and not resume:
            clear_folder(folder, config)
        checkpoints = Checkpoints(folder) if folder else None
        _restore(trainer, checkpoints, first_stage)
        with stop.deferred():
            for record in _train(trainer, checkpoints, first_stage, budget, stop):
                if on_epoch and workers.is_main:
                    on_epoch(record)
        _checkpoint(trainer, checkpoints)
        with budget.stage("output", "walks"):
            result = _finish(trainer, folder)
        if not score or not workers.is_main or config.probe.protocol == "none":
            return result
        if config.method.needs_labels:
            return _score_predictions(trainer, result, folder)
        return score_result(result, trainer.data, folder, budget=budget, progress=trainer.progress)


def _resolve_data(config: Config, data: Data | None) -> tuple[Config, Data | None]:
    """A graph that was handed in takes the place of the configured one."""
    if data is None:
        return config, None
    holdout = config.data.holdout
    if config.data.name != FILE:
        given = config.data
        own = DataConfig(name=OWN, normalize=False, inductive=given.inductive, directed=given.directed, holdout=holdout)
        config = replace(config, data=own)
    if holdout and data.get("heldout") is None:
        data = hold_out_links(data, holdout)
    return config, prepare(data, config.data.directed)


def _validate(trainer: Trainer) -> None:
    """Fail early on what would only show after training."""
    if not trainer.workers.is_main:
        return
    probe = trainer.config.probe
    if probe.protocol != "none":
        require_labels(trainer.data)
        make_splits(trainer.data, 1, nodes=probe.nodes)
    if trainer.config.data.directed and trainer.config.data.name != FILE and not is_directed(trainer.data):
        warn("every edge has its reverse: that the graph is directed changes nothing", stacklevel=4)
    for remark in trainer.method.remarks():
        warn(remark, stacklevel=4)


def _restore(trainer: Trainer, checkpoints: Checkpoints | None, first_stage: FirstStage | None) -> None:
    """Restore the newest state there is, and bring configuration and log to it."""

    def newest() -> tuple[checkpoint.State, bool] | None:
        own = checkpoints.load() if checkpoints else None
        if own:
            return own, True
        shared = first_stage.path if first_stage else None
        return (checkpoint.load(shared, f"remove {shared}"), False) if shared and shared.exists() else None

    found = trainer.workers.broadcast(newest)
    if found:
        path = checkpoints.newest if checkpoints and found[1] else Path("the first stage")
        read_file(path, lambda: trainer.restore(found[0], miner=found[1]), checkpoint.RESTART)
    done = len(trainer.records)
    if done > trainer.config.train.epochs:
        raise InputError(f"the run has {done} epochs already", "set --train.epochs to at least that")
    if checkpoints:
        folder = checkpoints.folder
        clear_leftovers(folder)
        # result.json marks the embeddings as final
        for name in ("result.json", "comparison.json", "clusters.json", "links.json"):
            (folder / name).unlink(missing_ok=True)
        if trainer.workers.size > 1:
            write_job_id(folder)
        files.write_text(folder / "config.yaml", to_yaml(trainer.config, checksum=True))
        files.write_text(folder / "log.jsonl", json_lines(map(_row, trainer.records)))
        if trainer.progress:
            print(f"run folder: {folder}", file=sys.stderr)


def _train(
    trainer: Trainer,
    checkpoints: Checkpoints | None,
    first_stage: FirstStage | None,
    budget: Budget,
    stop: StopRequest,
) -> Iterator[Record]:
    """Train until the last epoch, or the end of the budget; every epoch is logged before it is yielded.

    Raises:
        Stopped: if that was requested; there is a checkpoint of the last epoch
    """
    workers, last = trainer.workers, budget.clock()
    for record in _epochs(trainer, stop):
        require_within_limit()
        if workers.is_main:
            _save(trainer, record, checkpoints, first_stage)
        yield record
        if workers.any(stop.requested):
            _checkpoint(trainer, checkpoints)
            raise stop.error()
        last, before = budget.clock(), last
        if budget.epoch is not None:
            budget.record(budget.epoch, last - before)
        if workers.broadcast(partial(_has_no_time, budget, last - before)):
            return


def _epochs(trainer: Trainer, stop: StopRequest) -> Iterator[Record]:
    """The epochs that are left, with a bar over their steps."""
    config, steps = trainer.config, trainer.method.steps
    graph = Path(config.data.graph).stem if config.data.graph else config.data.name
    name = f"{graph} {config.method.name}" + (f" {config.miner.name}" if config.miner.name != "none" else "")
    unit = "epoch" if steps == 1 else "step"
    total, done = steps * config.train.epochs, steps * len(trainer.records)
    show = trainer.progress and trainer.optimizer is not None
    with bar(show, desc=name, total=total, initial=done, unit=unit) as steps_bar:
        last = time.perf_counter()

        def update(loss: float, nodes: int) -> None:
            nonlocal last, done
            last, before, done = time.perf_counter(), last, done + 1
            facts = {"loss": f"{loss:.4f}"}
            if unit == "step":
                facts |= {"epoch": f"{len(trainer.records) + 1}", "nodes/s": f"{nodes / (last - before):.0f}"}
            steps_bar.set_postfix(facts, refresh=False)
            steps_bar.update()
            if trainer.workers.size == 1:  # several processes stop together, after an epoch
                stop.obey(seconds_left=(-done % steps) * (last - before))

        trainer.on_step = update
        yield from trainer.run(config.train.epochs)


def _save(trainer: Trainer, record: Record, checkpoints: Checkpoints | None, first_stage: FirstStage | None) -> None:
    """Log every epoch, and write the checkpoints that are due; after long epochs, as a signal cuts the next one off."""
    if checkpoints:
        with (checkpoints.folder / "log.jsonl").open("a") as log:
            log.write(json_lines([_row(record)]))
        if record.epoch % trainer.config.train.checkpoint_every == 0 or record.seconds > GRACE_SECONDS / 2:
            _checkpoint(trainer, checkpoints)
    if first_stage and record.epoch == first_stage.epochs and not first_stage.path.exists():
        checkpoint.save(first_stage.path, trainer.state())


def _checkpoint(trainer: Trainer, checkpoints: Checkpoints | None) -> None:
    """Write the present state, unless the newest checkpoint has it."""
    if checkpoints and checkpoints.epoch != len(trainer.records):
        checkpoints.save(trainer.state())


def _has_no_time(budget: Budget, seconds: float) -> bool:
    """Whether a budget does not suffice for another epoch of so many seconds."""
    return budget.available() < seconds


def _row(record: Record) -> dict[str, Any]:
    """A line of the log."""
    return {key: value for key, value in asdict(record).items() if value is not None}


def _finish(trainer: Trainer, folder: Path | None) -> Result:
    """Embed, and write everything but a score."""
    config, is_main = trainer.config, trainer.workers.is_main
    embeddings = trainer.embed() if is_main else torch.empty(0, config.encoder.hidden)
    if not all_finite(embeddings):
        raise InputError("the embeddings are not finite", "training has diverged: try a smaller --train.lr")
    losses = [record.loss for record in trainer.records]
    facts = trainer.method.facts() | (trainer.output.facts() if is_main else {})
    seconds = {"train": trainer.seconds, "probe": 0.0}
    links = score_heldout(embeddings, trainer.data) if is_main else None
    result = Result(config, embeddings, losses, None, facts, seconds, links=links)
    if folder:
        files.save_embeddings(folder / "embeddings.npz", embeddings.numpy(), trainer.data.get("ids"))
        if can_transform(config):
            trainer.model().save(folder / MODEL_FILE)
        plot = plot_data(trainer.method, trainer.train_data if config.probe.protocol != "none" else None)
        if plot:
            files.write_json(folder / "curves.json", json.loads(plot.to_json()), indent=None)
            files.write_atomically(folder / "mixture.svg", lambda path: save_mixture(plot, path))
        result.write(folder)
    for text in describe_collapse(embeddings.numpy()) if is_main else ():
        warn(text)
    return result


def _score_predictions(trainer: Trainer, result: Result, folder: Path | None) -> Result:
    """Score what was trained with labels by its own predictions, once for each split."""
    start = time.perf_counter()
    score = score_predictions(trainer.method, trainer.all_nodes(), trainer.config.probe)
    seconds = {**result.seconds, "probe": time.perf_counter() - start}
    result = replace(result, score=score, seconds=seconds)
    if folder:
        result.write(folder)
    return result
