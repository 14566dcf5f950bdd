"""A run beside what it has to beat: features without training, the untrained encoder, the other miners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from progcl.config.schema import Config
from progcl.data.datasets import load_data
from progcl.errors import InputError
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score, label, save_scores
from progcl.methods.features import propagated, raw
from progcl.miners import PROPOSED
from progcl.run import fit
from progcl.training.trainer import Trainer


def compare(
    config: Config, out: Path, resume: bool = False, force: bool = False, data_root: str | None = None
) -> dict[str, Score]:
    """Fit `config` in `out`, and the same settings without mining and with ProGCL below it; score all alike.

    The compared runs share their first stage, up to epoch E, which none of their miners changes: each ends with the
    bits that it would have had alone.
    """
    if config.probe.protocol == "none":
        raise InputError("a comparison needs a protocol", "drop --probe.compare, or name a --probe.protocol")
    shared = out / "first-stage.safetensors"
    stage = shared if config.miner.name in PROPOSED else None  # others mine before E, too
    main = fit(config, out=out, resume=resume, force=force, data_root=data_root, first_stage=stage, progress=True)
    data = load_data(config.data, data_root)
    settings = {**config.probe.options(), "progress": True}
    untrained = Trainer(config, data)
    scores = {
        "raw features": linear_probe(raw(data), data, **settings),
        "propagated features (no training)": linear_probe(propagated(data), data, **settings),
        "untrained encoder": linear_probe(untrained.embed(), data, **settings),
    }
    for miner in dict.fromkeys((*PROPOSED, config.miner.name)):
        changes: dict[str, Any] = {} if miner == config.miner.name else {"name": miner, "options": {}}
        other = replace(config, miner=replace(config.miner, **changes))
        options: dict[str, Any] = {"resume": True, "data_root": data_root, "first_stage": shared, "progress": True}
        result = main if other == config else fit(other, out=out / "compare" / miner, **options)
        if result.score:
            scores[label(other, result.mixture)] = result.score
    save_scores(scores, out)
    return scores
