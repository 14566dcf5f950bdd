"""The folder of a run: what may be in it, and what may be done with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from progcl.config.load import load_config, to_dict
from progcl.config.schema import Config
from progcl.distributed import job, restarts
from progcl.errors import InputError

JOB = "job.txt"
FILES = {
    JOB,
    *("config.yaml", "log.jsonl", "checkpoint.safetensors", "embeddings.npz", "result.json", "tensorboard"),
    *("mixture.svg", "curves.json", "embeddings.parquet", "report.html"),
    *("first-stage.safetensors", "comparison.json", "compare"),
}


def check_folder(folder: Path, config: Config, resume: bool, force: bool) -> None:
    """Refuse a folder that holds another run, or anything that is not a run's."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`{folder}` is a file", "give --out a folder")
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = {name for name in found if name not in FILES and not name.endswith(".part")}
    if foreign:
        raise InputError(f"`{folder}` holds `{min(foreign)}`, which is no part of a run", "choose another --out")
    if resume and "config.yaml" in found:
        _refuse_changes(to_dict(load_config(str(folder / "config.yaml"))), to_dict(config))
    elif "config.yaml" in found and not force:
        hint = "go on with --resume, overwrite with --force, or choose another --out"
        raise InputError(f"`{folder}` holds a run already", hint)


def write_job_id(folder: Path) -> None:
    """Note which job of torchrun has begun the run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB).write_text(job())


def is_restart(folder: Path) -> bool:
    """Whether torchrun has started this process again, and the folder holds what its job has begun."""
    return restarts() > 0 and (folder / JOB).exists() and (folder / JOB).read_text() == job()


def clear_folder(folder: Path) -> None:
    """Remove the run that `check_folder` found."""
    for path in folder.iterdir() if folder.exists() else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _refuse_changes(before: dict[str, Any], now: dict[str, Any]) -> None:
    """A resumed run may become longer and be probed otherwise; anything else would make it another run."""
    free = {"train.epochs", "train.checkpoint_every", "loss.block_size", "loss.memory"}
    for section in (name for name in now if name != "probe"):
        for key, value in now[section].items():
            old = before[section][key]
            if old != value and f"{section}.{key}" not in free:
                message = f"the run to resume has `{section}.{key}` = {old}, not {value}"
                raise InputError(message, "resume with the same options, or choose another --out")
