"""TensorBoard logs: a callback that gets the record of every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from progcl.errors import InputError
from progcl.training.trainer import Record


class TensorBoard:
    """Writes loss, time and memory of every epoch for TensorBoard.

    ``with TensorBoard("runs/a/tensorboard") as log: fit(config, on_epoch=log)``. Any function of a `Record` is a
    callback: ``lambda record: mlflow.log_metric("loss", record.loss, record.epoch)`` for MLflow,
    ``lambda record: wandb.log({"loss": record.loss}, step=record.epoch)`` for Weights & Biases.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise InputError("TensorBoard logs need tensorboardX", 'pip install "progcl[tensorboard]"') from None
        self.folder = str(folder)
        self.make_writer = SummaryWriter
        self.writer: Any = None

    def __call__(self, record: Record) -> None:
        """Write one epoch; epochs that a resumed run repeats replace those in the log."""
        if self.writer is None:  # not earlier: `fit` first checks that the folder is free
            self.writer = self.make_writer(self.folder, purge_step=record.epoch, flush_secs=10)
        self.writer.add_scalar("loss", record.loss, record.epoch)
        self.writer.add_scalar("seconds", record.seconds, record.epoch)
        if record.peak_mb is not None:
            self.writer.add_scalar("peak memory in MB", record.peak_mb, record.epoch)
        for name, fact in (record.facts or {}).items():
            self.writer.add_text(name, str(fact), record.epoch)

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *reason: object) -> None:
        if self.writer is not None:
            self.writer.close()
