"""The folder of a run: which files belong to it, and whether it may be resumed or overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from progcl.config.load import code_names, load_config, to_dict
from progcl.config.schema import Config
from progcl.distributed import job_id, restart_count
from progcl.errors import InputError
from progcl.training.lock import LOCK_FILE

JOB_FILE = "job.txt"
RUN_FILES = {
    *(JOB_FILE, LOCK_FILE),
    *("checkpoint.safetensors", "checkpoint-previous.safetensors"),
    *("config.yaml", "log.jsonl", "embeddings.npz", "result.json", "tensorboard"),
    *("mixture.svg", "curves.json", "embeddings.parquet", "report.html", "model.safetensors"),
    *("first-stage.safetensors", "comparison.json", "compare", "clusters.json", "links.json"),
}
RESUMABLE_OPTIONS = {
    *("train.epochs", "train.checkpoint_every", "loss.block_size", "loss.memory", "probe.protocol", "probe.compare"),
    *("output.clusters", "probe.limit"),
}
SPLIT_OPTIONS = {"probe.splits", "probe.seed", "probe.nodes"}


def check_folder(folder: Path, config: Config, resume: bool, force: bool) -> None:
    """Refuse a folder that holds files other than a run's, or a run that is neither resumed nor overwritten.

    Raises:
        InputError: if the folder cannot be used, or if the run to resume has other options
    """
    _require_own_file(config.data.mapped, folder)
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    own = RUN_FILES | {path.name for path in mapped_files(config, folder)}
    foreign = {name for name in names if name not in own and not name.endswith(".part")}
    if foreign:
        raise InputError(f"`{folder}` holds `{min(foreign)}`, which is no file of a run", "choose another --out")
    if resume and "config.yaml" in names:
        stored = load_config(folder / "config.yaml", allow_code=code_names(config))
        _refuse_changes(to_dict(stored), to_dict(config), config.method.needs_labels)
    elif resume and "checkpoint.safetensors" in names:
        message = f"`{folder}` has a checkpoint, and no config.yaml that says what it was made with"
        raise InputError(message, "start again with --force")
    elif "config.yaml" in names and not force:
        hint = "go on with --resume, overwrite with --force, or choose another --out"
        raise InputError(f"`{folder}` holds a run already", hint)


def mapped_files(config: Config, folder: Path) -> set[Path]:
    """The file of mapped features and the one beside it, where they are in the folder."""
    mapped = Path(config.data.mapped).resolve() if config.data.mapped else None
    files = {mapped, mapped.with_name(f"{mapped.name}.json")} if mapped else set()
    return {folder / path.name for path in files if path.parent == folder.resolve()}


def clear_folder(folder: Path, config: Config) -> None:
    """Remove the run in a folder that `check_folder` has accepted, but not its lock and its mapped features."""
    kept = {folder / LOCK_FILE} | mapped_files(config, folder)
    paths = set(folder.iterdir()) - kept if folder.exists() else set()
    for path in sorted(paths, key=lambda path: path.name == "config.yaml"):  # last: killed before, it is still a run
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def clear_leftovers(folder: Path) -> None:
    """Remove temporary files of a run that was killed while it wrote them."""
    for path in folder.glob(".*.part"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def write_job_id(folder: Path) -> None:
    """Store the id of the torchrun job that started the run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB_FILE).write_text(job_id())


def is_restart(folder: Path) -> bool:
    """Whether torchrun restarted this process, and the run in the folder was started by the same job."""
    return restart_count() > 0 and (folder / JOB_FILE).exists() and (folder / JOB_FILE).read_text() == job_id()


def _require_own_file(mapped: str | None, folder: Path) -> None:
    """Raise `InputError` if mapped features are below the folder, but not a file of their own in it."""
    path = Path(mapped).resolve() if mapped else None
    if path is None or not path.is_relative_to(folder.resolve()):
        return
    if path.parent != folder.resolve() or path.name in RUN_FILES:
        message = f"`data.mapped` names `{mapped}`, where the run has files of its own"
        raise InputError(message, f"name a file beside them, such as {folder / 'features.npy'}")


def _refuse_changes(before: dict[str, Any], now: dict[str, Any], needs_labels: bool) -> None:
    """A resumed run may become longer and be probed differently; other changes would make it another run.

    What is trained with labels is trained on the splits: they stay.
    """
    options = RESUMABLE_OPTIONS | (set() if needs_labels else SPLIT_OPTIONS)
    for section, values in now.items():
        for key, value in values.items():
            old = before[section][key]
            if old != value and f"{section}.{key}" not in options:
                message = f"the run to resume has `{section}.{key}` = {old}, not {value}"
                raise InputError(message, "resume with the same options, or choose another --out")
