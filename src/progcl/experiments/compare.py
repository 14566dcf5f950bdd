"""A run beside what it has to beat: features without training, the untrained encoder, the other miners."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from progcl.config import Config, change_miner
from progcl.data.datasets import load_data
from progcl.errors import InputError, warn
from progcl.evaluation.health import RAW, describe_harm
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score, describe_run, save_scores
from progcl.methods.features import propagated, raw
from progcl.miners import PROPOSED
from progcl.run import FirstStage, fit
from progcl.training.lock import lock_folder
from progcl.training.signals import StopRequest
from progcl.training.trainer import Trainer


def compare(
    config: Config,
    out: Path,
    resume: bool = False,
    force: bool = False,
    data_root: str | None = None,
    stop: StopRequest | None = None,
) -> dict[str, Score]:
    """Fit `config` in `out`, and the same settings with the paper's miners and without mining below it.

    Runs whose miners are idle until the same epoch share a checkpoint from before it: each ends with the bits that it
    would have had alone. `stop` receives signals, as in `fit`.
    """
    if config.probe.protocol == "none":
        raise InputError("a comparison needs a protocol", "drop --probe.compare, or name a --probe.protocol")
    if config.method.needs_labels:
        hint = "set --probe.compare false, and run the others by themselves"
        raise InputError(f"`{config.method.name}` is trained with labels: no embedding to compare by a probe", hint)
    config = replace(config, probe=replace(config.probe, limit=None))  # rows are compared on the same splits
    names = list(dict.fromkeys([*PROPOSED, config.miner.name])) if config.method.takes_miner else ["none"]
    configs = {name: change_miner(config, name) for name in names}
    idle = min((each.miner.idle_epochs for each in configs.values() if each.miner.idle_epochs), default=0)
    stage = FirstStage(out / "first-stage.safetensors", int(idle)) if 0 < idle < math.inf else None
    options: dict[str, Any] = {"data_root": data_root, "progress": True, "stop": stop}
    shared = {name: stage if each.miner.idle_epochs >= idle else None for name, each in configs.items()}
    with lock_folder(out):
        main = fit(config, out=out, resume=resume, force=force, first_stage=shared[config.miner.name], **options)
        scores = _score_untrained(config, load_data(config.data, data_root, out))
        for name, other in configs.items():
            place: dict[str, Any] = {"out": out / "compare" / name, "resume": True, "first_stage": shared[name]}
            result = main if other == config else fit(other, **place, **options)
            if result.score:
                scores[describe_run(other, result.facts)] = result.score
        save_scores(scores, out)
    for text in describe_harm(scores):
        warn(text)
    return scores


def _score_untrained(config: Config, data: Data) -> dict[str, Score]:
    """Scores of features without training, and of the encoder as it is initialized."""
    vectors = {RAW: raw(data)}
    if data.edge_index.size(1):
        vectors["propagated features (no training)"] = propagated(data)
    vectors["untrained encoder"] = Trainer(config, data).embed()
    return {name: linear_probe(x, data, **config.probe.options(), progress=True) for name, x in vectors.items()}
