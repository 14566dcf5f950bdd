"""Checkpoints of a run: written atomically, each with a checksum of its content."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from progcl.checksums import KEY, DamagedFile, digest, read_file
from progcl.errors import ProgclWarning
from progcl.training.files import write_atomically

State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and values that JSON can hold
RESTART = "start again with --force"


class Checkpoints:
    """The newest checkpoint in a folder, and the one before it in case that the newest is damaged.

    Attributes:
        folder: of the run
        epoch: of the newest one that was loaded or saved; None before
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.newest = folder / "checkpoint.safetensors"
        self.previous = folder / "checkpoint-previous.safetensors"
        self.epoch: int | None = None

    def save(self, state: State) -> None:
        """Write a checkpoint; the newest becomes the previous one."""
        save(self.newest, state, keep=self.previous)
        self.epoch = len(state[1]["records"])

    def load(self) -> State | None:
        """The newest checkpoint that is not damaged; None if none was written.

        Raises:
            DamagedFile: if all are damaged
        """
        damage: DamagedFile | None = None
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                state = load(path)
            except DamagedFile as error:
                damage = damage or error
                continue
            self.epoch = len(state[1]["records"])
            if damage:
                path.replace(self.newest)  # else the next one to be saved would push the good one out
                remark = f"{damage.args[0]}; continuing from the checkpoint before it, of epoch {self.epoch}"
                warnings.warn(remark, ProgclWarning, stacklevel=2)
            return state
        if damage:
            raise damage
        return None


def save(path: Path, state: State, keep: Path | None = None) -> None:
    """Write tensors and plain values to a safetensors file; a reader sees the old file or the new one.

    Args:
        path: of the file
        state: tensors and values
        keep: where a file that is already at `path` is moved to
    """
    tensors, values = state
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(values)

    def write(temporary: Path) -> None:
        temporary.touch()
        # safetensors writes to a file of its own beside the one that it is asked for: killed, it leaves that behind
        with TemporaryDirectory(dir=path.parent, prefix=".", suffix=".part") as folder:
            file = Path(folder, path.name)
            try:
                save_file(contiguous, file, {"values": text, KEY: _digest_state(contiguous, text)})
            except SafetensorError as error:  # how it reports a full disk
                raise OSError(f"cannot write `{path}`: {error}") from None
            file.chmod(temporary.stat().st_mode)  # as files of the user are, where safetensors lets nobody else read
            file.replace(temporary)

    write_atomically(path, write, keep)


def load(path: Path, hint: str = RESTART) -> State:
    """Read what `save` wrote; safetensors runs no code from the file.

    Raises:
        DamagedFile: if the file is not a checkpoint, or damaged
    """
    return read_file(path, lambda: _load(path), hint)


def _load(path: Path) -> State:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if not metadata.keys() >= {"values", KEY}:
        raise ValueError("it has no checksum")
    if metadata[KEY] != _digest_state(tensors, metadata["values"]):
        raise ValueError("its checksum does not match")
    return tensors, json.loads(metadata["values"])


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _digest_state(tensors: Mapping[str, Tensor], text: str) -> str:
    """Checksum of names, types, shapes and numbers of all tensors, and of the values as text."""
    pieces: list[Any] = [text.encode()]
    for name in sorted(tensors):
        numbers = tensors[name].cpu().reshape(-1).view(torch.uint8).numpy()
        pieces += [f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode(), numbers]
    return digest(*pieces)
