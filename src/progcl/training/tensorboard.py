"""Curves of a run for other tools: a callback gets every epoch's record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from progcl.errors import InputError
from progcl.training.trainer import Record


class TensorBoard:
    """Writes the curves of a run for TensorBoard.

    ``with TensorBoard("runs/a/tensorboard") as log: fit(config, on_epoch=log)``. Any function of a `Record` serves as
    well: ``lambda record: mlflow.log_metric("loss", record.loss, record.epoch)`` for MLflow,
    ``lambda record: wandb.log({"loss": record.loss}, step=record.epoch)`` for Weights & Biases.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise InputError("TensorBoard's log needs tensorboardX", 'pip install "progcl[tensorboard]"') from None
        self.folder = str(folder)
        self.make = SummaryWriter
        self.writer: Any = None

    def __call__(self, record: Record) -> None:
        """Write one epoch; what a resumed run repeats replaces what was there."""
        if self.writer is None:  # only now: `fit` has seen that the folder is free
            self.writer = self.make(self.folder, purge_step=record.epoch, flush_secs=10)
        self.writer.add_scalar("loss", record.loss, record.epoch)
        self.writer.add_scalar("seconds", record.seconds, record.epoch)
        if record.peak_mb is not None:
            self.writer.add_scalar("peak memory in MB", record.peak_mb, record.epoch)
        if record.mixture is not None:
            self.writer.add_text("mixture", str(record.mixture), record.epoch)

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *reason: object) -> None:
        if self.writer is not None:
            self.writer.close()
