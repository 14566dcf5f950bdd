"""A user's graph in, embeddings out: settings chosen by its size, a report beside them."""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from progcl.config.load import load_config
from progcl.config.schema import Config, EncoderConfig
from progcl.data.datasets import FILE, load_data
from progcl.data.labels import too_few
from progcl.errors import InputError
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score, label, save_scores
from progcl.export import write_parquet
from progcl.methods.features import hop_features, raw
from progcl.report.page import write as write_report
from progcl.report.story import story_of
from progcl.run import Result, fit
from progcl.training.trainer import Trainer

STEPS, BATCH = 200, 512  # of training, and nodes of a step
LONGEST = 10  # steps of an epoch: how often the loss is logged, and a run can be stopped
FIRST = 0.25  # share of the epochs after which the mixture is fitted
FILES, BASE = 6, 30e6  # embeddings' worth of numbers that a run writes, and bytes beside them
SPARE, WRITTEN = 0.4, 60e6  # share of a budget to score, write and draw in; bytes written in a second, at least


# For features so few that they are not reduced: none is dropped, nodes nearby are the views (narrow_settings.py)
NARROW: dict[str, Any] = {"method.walk": 2, "method.drop_features": [0.0, 0.0], "train.lr": 2e-4}


VIEWS = {key for key in NARROW if key.startswith("method.")}


KEPT_WHOLE, KEPT = 10, 4  # epochs between two checkpoints; those of large graphs are large
FEW, MAP = 3, 60.0  # splits of the scores, and seconds without which the map is the quick one, if there is a budget


def embed(
    graph: str,
    out: Path,
    features: str | None = None,
    labels: str | None = None,
    budget: float | None = None,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    progress: bool = True,
) -> Result:
    """Embed the nodes of a graph in a file.

    Args:
        graph: .npz, .csv, .tsv, .txt, .parquet, .safetensors, .pt or .graphml
        out: folder for embeddings.npz, embeddings.parquet (if pyarrow is there), report.html and the files of a run
        features: file with features, if `graph` has none
        labels: file with classes, to color the map and score the embedding; training never sees them
        budget: seconds that all may take
        changes: of the chosen settings, by dotted key
        resume: go on from the checkpoint in `out`
        force: overwrite what is in `out`
        progress: say what is done, on stderr
    """
    start = time.monotonic()
    files = {"data.graph": graph, "data.features_from": features, "data.labels_from": labels}
    resume = resume and (out / "config.yaml").exists()
    config, data = _settled(files, out, dict(changes or {}), resume, force)
    hurry = None if budget is None else TimeBudget(start + budget, _written(config, data))
    if hurry:
        config = config if resume else within(config, data, hurry.training())
        config = replace(config, probe=replace(config.probe, splits=min(FEW, config.probe.splits)))
    if progress:
        print("\n".join([*(f"note: {remark}" for remark in data.remarks), plan(config, data)]), file=sys.stderr)
    seconds, scoring = (hurry.training(), hurry.scoring()) if hurry else (None, math.inf)
    result = fit(
        config, out=out, data=data, resume=resume, force=force, progress=progress, seconds=seconds, scoring=scoring
    )
    if progress and result.score is None and config.probe.protocol != "none":
        print("note: no time was left to score the embedding", file=sys.stderr)
    if result.score and budget is None:
        scores = {label(config, result.mixture): result.score, **_untrained(config, data, progress)}
        save_scores(scores, out)
    if find_spec("pyarrow"):
        write_parquet(out / "embeddings.parquet", result.embeddings.numpy(), data.ids)
    if progress:
        print("drawing the map for report.html", file=sys.stderr)
    write_report(story_of(out, data), out / "report.html", quick=hurry is not None and hurry.left() < MAP)
    return result


class TimeBudget:
    """How the time until `end` is shared out, of which a part is spared for what follows training."""

    def __init__(self, end: float, written: float) -> None:
        self.end = end
        self.spared = max(SPARE * self.left(), written / WRITTEN)

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def training(self) -> float:
        """Seconds left to train."""
        return self.left() - self.spared

    def scoring(self) -> float:
        """Seconds left to train and score: half of what is spared is for writing and drawing."""
        return self.left() - self.spared / 2


def _settled(
    files: Mapping[str, str | None], out: Path, changes: dict[str, Any], resume: bool, force: bool
) -> tuple[Config, Data]:
    """The settings of the run to go on with, or those that suit the graph; and the graph."""
    stored, files = out / "config.yaml", {name: str(Path(path).absolute()) for name, path in files.items() if path}
    if out.exists() and not out.is_dir():
        raise InputError(f"`{out}` is a file", "give --out a folder")
    if resume:
        config = load_config(stored, changes)
        for name, path in files.items():
            if path != getattr(config.data, name.removeprefix("data.")):
                raise InputError(f"`{out}` was not made of `{path}`", f"choose another --out, or see {stored}")
        return config, read(config)
    if stored.exists() and not force:
        hint = "go on with --resume, overwrite with --force, or choose another --out"
        raise InputError(f"`{out}` holds a result already", hint)
    if "train.epochs" in changes:
        changes.setdefault("miner.start_epoch", start_epoch(changes["train.epochs"]))
    asked = load_config("embed", {**changes, **files})
    data = read(asked)
    suited = suited_to(data, asked.encoder, changes)
    config = load_config("embed", {**suited, **_probing(data), **changes, **files})
    _need_room(out, config, data)
    return config, data


def _untrained(config: Config, data: Data, progress: bool) -> dict[str, Score]:
    """What the embedding has to beat: features as they are, and what reaches a node in some hops."""
    rank, hops = config.encoder.rank, config.encoder.hops
    given = {
        "raw features": raw(data),
        f"features of up to {hops[-1]} hops (no training)": hop_features(data, rank, hops),
    }
    return {name: linear_probe(x, data, **config.probe.options(), progress=progress) for name, x in given.items()}


def read(config: Config) -> Data:
    """The graph of a configuration, with what is odd about it."""
    how = config.data
    if how.name != FILE or config.probe.compare:
        hint = "`progcl train` takes named data sets, and compares"
        raise InputError("`progcl embed` embeds the graph of a file, once", hint)
    return load_data(how)


def suited_to(data: Data, encoder: EncoderConfig, given: Collection[str] = ()) -> dict[str, Any]:
    """Settings for a graph that this encoder is to read: by its size and, where no views are given, its features."""
    narrow = encoder.name == "hops" and data.x.size(1) <= encoder.rank and not VIEWS.intersection(given)
    return {**by_size(int(data.num_nodes)), **(NARROW if narrow else {})}


def by_size(nodes: int, steps: int = STEPS, batch: int = BATCH) -> dict[str, Any]:
    """Settings that depend on the number of nodes: the whole graph in a step, or batches."""
    whole = nodes <= 2 * batch
    in_epoch = 1 if whole else min(LONGEST, -(-nodes // batch))
    epochs = max(4, -(-steps // in_epoch))
    return {
        "batch.size": None if whole else batch,
        "batch.steps": None if whole else in_epoch,
        "train.epochs": epochs,
        "miner.start_epoch": start_epoch(epochs),
        "train.checkpoint_every": KEPT_WHOLE if whole else KEPT,
    }


def start_epoch(epochs: int) -> int:
    """E, the epoch at which the mixture is fitted, for so many epochs."""
    return min(epochs, max(2, round(FIRST * epochs)))


def within(config: Config, data: Data, seconds: float) -> Config:
    """As many epochs as these seconds suffice for, at most those of the configuration; two of them are tried out."""
    trial = replace(config, batch=replace(config.batch, steps=min(3, config.batch.steps or 1)))
    *_, record = Trainer(trial, data).run(2)
    steps = (config.batch.steps or 1) / (trial.batch.steps or 1)
    affordable = int(seconds / (record.seconds * steps))
    if affordable < 1:
        hint = f"an epoch takes about {record.seconds * steps:.2g} s: allow more, or leave out --budget"
        raise InputError("the budget does not suffice for one epoch", hint)
    epochs = min(config.train.epochs, affordable)
    first = max(1, config.miner.start_epoch * epochs // config.train.epochs)
    return replace(config, train=replace(config.train, epochs=epochs), miner=replace(config.miner, start_epoch=first))


def plan(config: Config, data: Data) -> str:
    """What will be done, in a line."""
    nodes, edges = int(data.num_nodes), data.edge_index.size(1) // 2
    how = "all at once" if config.batch.size is None else f"in batches of {config.batch.size:,}"
    if config.train.anchors:
        how = f"{config.train.anchors:,} of them at a time"
    steps = config.train.epochs * (config.batch.steps or 1)
    walk, dropped = config.method.walk, max(config.method.drop_features)
    views = f"views from nodes {walk} steps away" if walk else f"views with {dropped:.0%} of the features dropped"
    size = f"{nodes:,} nodes, {edges:,} edges, {data.x.size(1):,} features"
    return f"{size}: {config.miner.name} on {config.encoder.name}, nodes {how}, {views}, {steps:,} steps"


def seconds_of(text: str) -> float:
    """'90', '90s', '5m', '1h30m' in seconds."""
    units = {"h": 3600, "m": 60, "s": 1, "": 1}
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"`{text}` is not a duration", "write 90s, 5m or 1h30m")
    return sum(float(number) * units[unit] for number, unit in parts)


def _need_room(out: Path, config: Config, data: Data) -> None:
    """Say before training if its result will not fit on the disk."""
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    needed = _written(config, data)
    free = shutil.disk_usage(there).free
    if free < needed:
        message = f"about {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free on the disk of `{there}`"
        raise InputError(message, "choose another --out, or make room")


def _written(config: Config, data: Data) -> float:
    """About how many bytes a run writes."""
    beside = config.encoder.rank * len(config.encoder.hops) if config.encoder.with_features else 0
    return FILES * 4 * int(data.num_nodes) * (config.encoder.hidden + beside) + BASE


def _probing(data: Data) -> dict[str, Any]:
    """Whether there are labels enough to score the embedding with."""
    reason = too_few(data)
    if reason:
        data.remarks.append(reason)
    return {} if reason == "" else {"probe.protocol": "none"}
