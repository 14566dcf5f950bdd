"""Embed a user's graph: settings chosen by its size, a time budget, a report."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from progcl.budget import Budget
from progcl.clusters import check_clusters
from progcl.config.load import load_config, options_type
from progcl.config.schema import Config
from progcl.data.datasets import FILE, load_data
from progcl.data.join import NodeData
from progcl.data.labels import reason_not_to_score
from progcl.errors import InputError
from progcl.estimate import Estimate, estimate, is_trained
from progcl.evaluation.clusters import cluster_run
from progcl.evaluation.links import compare_links, save_link_scores
from progcl.evaluation.scoring import baselines
from progcl.export import write_parquet
from progcl.files import require_folder
from progcl.planning import choose_map, fit_to_budget, has_time_to_score
from progcl.precision import single_precision
from progcl.report.page import write_report
from progcl.report.story import load_story
from progcl.result import Result, score_result
from progcl.run import fit
from progcl.training.lock import lock_folder
from progcl.training.model import Model, Start, load_input
from progcl.training.output import describe_facts
from progcl.training.signals import StopRequest

MIN_STEPS, MAX_STEPS = 400, 1600  # of training
PASSES = 80  # over the nodes, within these limits
INFONCE = {"encoder.dropout": 0.2, "loss.tau": 0.3}  # in place of what fits the sigmoid loss; takes MIN_STEPS
WARM_SHARE = 0.25  # of the steps of an earlier run, if its weights are the start
BATCH_SIZE = 512  # seed nodes of a step, whose neighbors join them; as many are still one full-graph step
MAX_WIDTH, MIN_WIDTH = 512, 64  # of a block of the embedding
MAX_OUTPUT_BYTES = 2.1e9  # three such blocks and the walk vectors, which bounds their width
MAX_STEPS_PER_EPOCH = 10  # an epoch is how often the loss is logged, and where a run can be stopped
START_SHARE = 0.25  # share of the epochs before the mixture is fitted
CHECKPOINT_EVERY, CHECKPOINT_EVERY_BATCHED = 10, 4  # epochs


@single_precision()
def embed(
    graph: str,
    out: Path,
    features: str | None = None,
    labels: str | None = None,
    budget: float | Budget | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    progress: bool = True,
    ids: str | None = None,
    content: NodeData | None = None,
    allow_code: bool = False,
    stop: StopRequest | None = None,
) -> Result:
    """Embed the nodes of a graph in a file.

    Args:
        graph: a file in any format that `progcl embed --help` lists, or a folder with tables `nodes` and `edges`
        out: folder for embeddings.npz, embeddings.parquet (if pyarrow is installed), report.html and the run's files
        features: file with features, if `graph` has none
        labels: file with classes, to color the map and score the embedding; training never sees them
        budget: time limit in seconds, for all that follows
        overrides: of the chosen settings, by dotted key; `data.source`, `data.label_column` and the like name columns,
            `train.start_from` an earlier run, whose settings are kept
        resume: continue from the checkpoint in `out`
        force: overwrite what is in `out`
        progress: report progress on stderr
        ids: file with the names of the nodes, for arrays that have none
        content: of these files, if they are read already
        allow_code: whether the run to resume may name classes of your own, which are imported and run
        stop: receives signals, as in `fit`
    """
    if not isinstance(budget, Budget):
        budget = Budget(math.inf if budget is None else budget)
    files = {"data.graph": graph, "data.features_from": features, "data.labels_from": labels, "data.ids_from": ids}
    resume = resume and (out / "config.yaml").exists()
    config, data = _resolve(files, out, dict(overrides or {}), resume, force, content, allow_code)
    check_clusters(config.output.clusters, int(data.num_nodes))
    needs, notes = estimate(config, data), list(data.remarks)
    if not resume:
        notes += describe_unused(config, data, overrides or {})
        _require_disk_space(out, needs.disk)
    if budget.is_limited:
        config, left_out = fit_to_budget(config, data, budget, needs, resume)
        notes += left_out
    if progress:
        title = "estimate without the budget" if budget.is_limited else "estimate"
        _print_notes(notes, describe_plan(config, data), f"{title}: {needs}")
    options: dict[str, Any] = {"resume": resume, "force": force, "progress": progress, "stop": stop}
    with lock_folder(out):
        result = fit(config, out=out, data=data, budget=budget, score=False, **options)
        with budget.stage("write"):
            clusters = cluster_run(out, result.embeddings.numpy(), data, config.output.clusters)
            if find_spec("pyarrow"):
                write_parquet(out / "embeddings.parquet", result.embeddings.numpy(), data.ids, clusters)
        result, notes = _score(result, data, out, budget, needs, progress)
        if result.links and not budget.is_limited:
            save_link_scores(compare_links(config, data, result.links, result.embeddings, result.facts), out)
        if progress:
            _print_notes(notes + describe_facts(result.facts), "drawing the map for report.html")
        shown = choose_map(budget, needs)
        story = load_story(out, data, config, result.embeddings.numpy())
        write_report(story, out / "report.html", **shown)
    return result


def _score(
    result: Result, data: Data, out: Path, budget: Budget, needs: Estimate, progress: bool
) -> tuple[Result, list[str]]:
    """Score the embedding beside what it has to beat, or note that there is no time."""
    if result.config.probe.protocol == "none":
        return result, []
    if not has_time_to_score(budget, needs):
        return result, [f"no time is left to score the embedding: `progcl eval {out}` does"]
    beside = {} if budget.is_limited else baselines(result.config, data, result.embeddings, result.facts)
    return score_result(result, data, out, beside, budget, progress), []


def load_graph(config: Config, content: NodeData | None = None) -> Data:
    """The graph in the file that a configuration names."""
    if config.data.name != FILE or config.probe.compare:
        hint = "`progcl train` takes named data sets, and compares"
        raise InputError("`progcl embed` embeds the graph of a file, once", hint)
    start = Start.load(config)
    return load_input(config, start) if start else load_data(config.data, content=content)


def choose_config(data: Data, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration for a graph; what is unusual about its labels is added to its remarks."""
    return load_config("embed", {**_probe_settings(data), **choose_settings(data, overrides or {})})


def choose_settings(data: Data, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for a graph, by its size, and by method and encoder if others are asked for; overrides win."""
    nodes = int(data.num_nodes)
    loss = _choose_loss(overrides)
    steps = MIN_STEPS if loss else choose_steps(nodes)
    settings = {**settings_by_size(nodes, steps), **loss, **_adapt(overrides, nodes, steps), **overrides}
    if "start_epoch" in options_type("miner", settings.get("miner.name", "none")).option_names():
        settings.setdefault("miner.start_epoch", start_epoch(int(settings["train.epochs"])))
    return settings


def _choose_loss(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of the preset where the sigmoid loss is not to be used: by another method, with a miner, or if asked."""
    if str(overrides.get("method.name", "neighbors")) != "neighbors":
        return INFONCE
    wants_miner = overrides.get("miner.name", "none") != "none"
    objective = overrides.get("method.objective", "infonce" if wants_miner else "sigmoid")
    return {} if objective == "sigmoid" else {"method.objective": objective, **INFONCE}


def _adapt(overrides: Mapping[str, Any], nodes: int, steps: int) -> dict[str, Any]:
    """Changes of the preset that another method or encoder needs: no held-out edges to choose by, no dropout."""
    method, preset = str(overrides.get("method.name", "neighbors")), load_config("embed")
    options = options_type("method", method)
    if getattr(options, "needs_labels", False):
        raise InputError(
            f"method `{method}` is trained with labels", "embeddings here are made without: see `progcl train`"
        )
    supports: frozenset[str] = getattr(options, "supports", frozenset())
    is_own = method != "neighbors"
    changes: dict[str, Any] = {"encoder.name": "gcn"} if is_own else {}
    if "batches" not in supports or (overrides.get("batch.size", nodes) is None and nodes > BATCH_SIZE):
        sized = settings_by_size(nodes, steps, batch_size=nodes)
        changes |= {key: sized[key] for key in ("batch.size", "batch.steps", "train.epochs", "train.checkpoint_every")}
    encoder = str(overrides.get("encoder.name", changes.get("encoder.name", preset.encoder.name)))
    if encoder == "hops":
        changes["encoder.hops"] = preset.hops.powers
    batched = overrides.get("batch.size", changes.get("batch.size", nodes > BATCH_SIZE))
    has_dropout = encoder in ("svd", "hops") or not batched
    hops = overrides.get("encoder.hops", changes.get("encoder.hops", preset.encoder.hops))
    can_hold_out = not is_own and (hops == [0] if encoder == "svd" else encoder == "mlp" and not batched)
    can_choose = can_hold_out and overrides.get("method.holdout", 1) and overrides.get("output.features", True)
    can_choose = can_choose and overrides.get("output.blocks", "auto") == "auto"
    changes |= {} if has_dropout else {"encoder.dropout": 0.0}
    changes |= {} if can_choose else {"output.blocks": "learned"}
    return changes if can_choose or is_own else {"method.holdout": 0.0, **changes}


def choose_steps(nodes: int) -> int:
    """Steps of training for a graph of so many nodes."""
    return min(MAX_STEPS, max(MIN_STEPS, round(PASSES * nodes / BATCH_SIZE)))


def settings_by_size(nodes: int, steps: int | None = None, batch_size: int = BATCH_SIZE) -> dict[str, Any]:
    """Settings that depend on the number of nodes: the full graph in a step, or batches, and how many of them."""
    whole = nodes <= batch_size
    steps = choose_steps(nodes) if steps is None else steps
    per_epoch = 1 if whole else min(MAX_STEPS_PER_EPOCH, -(-nodes // batch_size))
    width = choose_width(nodes)
    narrow = {"encoder.hidden": width, "encoder.projection": width // 2, "hops.dim": width} if width < MAX_WIDTH else {}
    return {
        **narrow,
        "batch.size": None if whole else batch_size,
        "batch.steps": None if whole else per_epoch,
        "train.epochs": max(4, -(-steps // per_epoch)),
        "train.checkpoint_every": CHECKPOINT_EVERY if whole else CHECKPOINT_EVERY_BATCHED,
    }


def choose_width(nodes: int) -> int:
    """Width of each block: 512, or less where the embeddings would take more than two gigabytes."""
    width = MAX_WIDTH
    while width > MIN_WIDTH and 4 * nodes * (3 * width + 128) > MAX_OUTPUT_BYTES:
        width //= 2
    return width


def start_epoch(epochs: int) -> int:
    """E, the epoch at which the mixture is fitted, for so many epochs."""
    return min(epochs, max(2, round(START_SHARE * epochs)))


def describe_plan(config: Config, data: Data) -> str:
    """What will be done, in a line."""
    nodes, edges = int(data.num_nodes), data.edge_index.size(1) // 2
    how = "all nodes" if config.batch.size is None else f"{config.batch.size:,} nodes and their neighbors"
    if config.train.anchors:
        how = f"{config.train.anchors:,} nodes"
    steps = config.train.epochs * (config.batch.steps or 1)
    size = f"{nodes:,} nodes, {edges:,} edges, {data.x.size(1):,} features"
    if not is_trained(config, data):
        return f"{size}: no training"
    miner = "" if config.miner.name == "none" else f" with {config.miner.name}"
    objective = f" ({config.method.objective})" if hasattr(config.method, "objective") else ""
    return f"{size}: {config.method.name}{objective}{miner} on {config.encoder.name}, {steps:,} steps of {how}"


def describe_unused(config: Config, data: Data, overrides: Mapping[str, Any]) -> list[str]:
    """Notes on a miner that has no part in the embedding, and on blocks that the options keep from being chosen."""
    notes = []
    if config.miner.name != "none" and not is_trained(config, data):
        notes.append(f"nothing is trained: `{config.miner.name}` has no part in the embedding")
    weighs = is_trained(config, data) and config.output.features and config.output.blocks != "auto"
    if weighs and "output.blocks" not in overrides and not config.train.start_from:
        how = "`neighbors` does so by edges that it keeps from training, on features that were not propagated"
        notes.append(f"learned vectors count as much as the other blocks, and are not weighed ({how})")
    return notes


def _resolve(
    files: Mapping[str, str | None],
    out: Path,
    overrides: dict[str, Any],
    resume: bool,
    force: bool,
    content: NodeData | None,
    allow_code: bool,
) -> tuple[Config, Data]:
    """The configuration of the run to resume, or the one chosen for the graph; and the graph."""
    stored, files = out / "config.yaml", {name: str(Path(path).absolute()) for name, path in files.items() if path}
    require_folder(out)
    if resume:
        config = load_config(stored, overrides, allow_code=allow_code)
        for name, path in files.items():
            if path != getattr(config.data, name.removeprefix("data.")):
                raise InputError(f"`{out}` was not made of `{path}`", f"choose another --out, or see {stored}")
        return config, load_graph(config)
    if stored.exists() and not force:
        hint = "continue with --resume, overwrite with --force, or choose another --out"
        raise InputError(f"`{out}` holds a result already", hint)
    if overrides.get("train.start_from"):
        return _resolve_start(files, overrides, allow_code)
    given = {**_only("data", overrides), **_only("probe", overrides), **files}
    data = load_graph(load_config("embed", given), content)
    return choose_config(data, {**overrides, **files}), data


def _resolve_start(files: Mapping[str, str | None], overrides: dict[str, Any], allow_code: bool) -> tuple[Config, Data]:
    """The configuration of an earlier run for another graph, with fewer steps; and the graph, read as before."""
    run = Path(overrides["train.start_from"]).absolute()
    Model.load(run, allow_code)  # raises if there is none
    named = {f"data.{key}": None for key in ("graph", "features_from", "labels_from", "ids_from")}
    given = {**named, "data.name": FILE, "probe.protocol": load_config("embed").probe.protocol, **overrides, **files}
    given |= {"train.start_from": str(run), "data.holdout": overrides.get("data.holdout", 0.0)}
    earlier = load_config(run / "config.yaml", allow_code=allow_code)
    if given.get("miner.name", "none") != "none" and getattr(earlier.method, "objective", "") == "sigmoid":
        given = {"method.objective": "infonce", "loss.tau": INFONCE["loss.tau"], **given}
    wanted = load_config(run / "config.yaml", given, allow_code=allow_code)
    if (wanted.method.name, wanted.encoder) != (earlier.method.name, earlier.encoder):
        hint = "leave out --from, or the options of method and encoder"
        raise InputError("weights of another method or encoder are no start", hint)
    data = load_graph(wanted)
    sized = continue_settings(earlier, wanted, int(data.num_nodes))
    probe = {} if "probe.protocol" in overrides else _probe_settings(data)
    return load_config(run / "config.yaml", {**sized, **given, **probe}, allow_code=allow_code), data


def continue_settings(earlier: Config, wanted: Config, nodes: int) -> dict[str, Any]:
    """Settings that change where the weights of an earlier run are the start: fewer steps, batches of a grown graph."""
    steps = max(1, round(WARM_SHARE * earlier.train.epochs * (earlier.batch.steps or 1)))
    sized = settings_by_size(nodes, steps)
    kept = ("batch.size", "batch.steps", "train.epochs", "train.checkpoint_every")
    if earlier.reads_hop_table and "batches" in earlier.method.supports:
        settings = {key: sized[key] for key in kept}
    else:
        settings = {"train.epochs": max(4, round(WARM_SHARE * earlier.train.epochs))}
    starts = hasattr(wanted.miner, "start_epoch")
    return settings | ({"miner.start_epoch": start_epoch(settings["train.epochs"])} if starts else {})


def _only(section: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of one section."""
    return {key: value for key, value in overrides.items() if key.startswith(f"{section}.")}


def _print_notes(notes: list[str], *lines: str) -> None:
    """Print notes and further lines on stderr."""
    print("\n".join([*(f"note: {note}" for note in notes), *lines]), file=sys.stderr)


def _require_disk_space(out: Path, needed: float) -> None:
    """Raise `InputError` before training if its result will not fit on the disk."""
    parent = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(parent).free
    if free < needed:
        message = f"about {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free on the disk of `{parent}`"
        raise InputError(message, "choose another --out, or make room")


def _probe_settings(data: Data) -> dict[str, Any]:
    """No probe where there are no labels, or too few."""
    reason = reason_not_to_score(data)
    if reason:
        data.remarks.append(reason)
    return {} if reason == "" else {"probe.protocol": "none"}
