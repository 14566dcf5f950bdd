"""What several commands share: the data root, and the folder of a run."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.errors import InputError


def add_data_root(parser: ArgumentParser) -> None:
    """Add --data-root."""
    parser.add_argument("--data-root", type=str, help="where published data is; else PROGCL_DATA, else the user cache")


def run_folder_for(options: dict[str, Any], source: str) -> Path:
    """--out, else runs/NAME, or runs/NAME-2, ... if that is taken: nothing is overwritten without --force."""
    if options.get("out"):
        return Path(options["out"])
    if options.get("resume"):
        raise InputError("--resume needs --out, the folder of the run to go on with")
    name = Path(source).stem
    numbered = (Path("runs", name if index == 1 else f"{name}-{index}") for index in count(1))
    return next(folder for folder in numbered if not folder.exists())
