"""A run beside what it has to beat: features without training, the untrained encoder, the other miners."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from progcl.checkpoint import write_text
from progcl.data import load
from progcl.errors import InputError
from progcl.methods.features import propagated, raw
from progcl.miners import PROPOSED
from progcl.probe import Score, probe
from progcl.schema import Config
from progcl.train import fit
from progcl.training import Training


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
    data = load(config.data.name, data_root, config.data.normalize, **config.data.options())
    settings = {**config.probe.options(), "progress": True}
    untrained = Training(config, data)
    scores = {
        "raw features": probe(raw(data), data, **settings),
        "propagated features (no training)": probe(propagated(data), data, **settings),
        "untrained encoder": probe(untrained.embed(), data, **settings),
    }
    for miner in dict.fromkeys((*PROPOSED, config.miner.name)):
        changes: dict[str, Any] = {} if miner == config.miner.name else {"name": miner, "options": {}}
        other = replace(config, miner=replace(config.miner, **changes))
        options: dict[str, Any] = {"resume": True, "data_root": data_root, "first_stage": shared, "progress": True}
        result = main if other == config else fit(other, out=out / "compare" / miner, **options)
        if result.score:
            scores[label(other, result.mixture)] = result.score
    keep_scores(scores, out)
    return scores


def keep_scores(scores: dict[str, Score], run: Path) -> None:
    """Write a comparison beside its run."""
    stored = {name: asdict(score) for name, score in scores.items()}
    write_text(run / "comparison.json", json.dumps(stored, indent=2) + "\n")


def kept_scores(run: Path) -> dict[str, Score]:
    """The comparison beside a run; empty without one."""
    path = run / "comparison.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    return {name: Score(row["protocol"], tuple(row["accuracies"])) for name, row in rows.items()}


def label(config: Config, mixture: dict[str, Any] | None) -> str:
    """What a row of the table is called; a miner that found nothing to mine is not named for it."""
    base, miner = config.method.name.upper(), config.miner.name
    if miner == "none":
        return f"{base}, no mining"
    if miner in PROPOSED and (mixture is None or mixture["degenerate"]):
        return f"{base} + {miner} (no mixture, so no mining)"
    oracle = miner in PROPOSED and config.miner.estimator == "oracle"
    return f"{base} + {miner}" + (" (oracle: trained with labels)" if oracle else "")


def table(scores: dict[str, Score]) -> str:
    """Aligned text, one row a method."""
    first = next(iter(scores.values()))
    width = max(map(len, scores))
    head = f"accuracy, mean ± std of {len(first.accuracies)} splits, protocol `{first.protocol}`"
    return "\n".join([head, *(f"  {name:<{width}}  {score}" for name, score in scores.items())])
