"""TensorBoard logs hold the losses of the run."""

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from progcl import InputError, fit, load_config
from progcl.cli.main import main
from progcl.training.tensorboard import TensorBoard
from progcl.training.trainer import Record

pytestmark = pytest.mark.filterwarnings("ignore:no mining", "ignore:no mixture fitted")
SETTINGS = {"train.epochs": 4, "miner.start_epoch": 2, "encoder.hidden": 8, "data.nodes": 60, "probe.protocol": "none"}


def scalars(folder: Path) -> Iterator[tuple[str, int, float]]:
    """What TensorBoard would read: records of a length, a checksum, an event and another checksum."""
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            yield from ((value.tag, event.step, value.simple_value) for value in event.summary.value)
            content = content[16 + length :]


def test_logged_losses_are_those_of_the_run(tmp_path: Path) -> None:
    with TensorBoard(tmp_path / "log") as log:
        result = fit(load_config("csbm", SETTINGS), on_epoch=log)
    logged = [(step, value) for tag, step, value in scalars(tmp_path / "log") if tag == "loss"]
    assert [step for step, _ in logged] == [1, 2, 3, 4]
    assert [value for _, value in logged] == pytest.approx(result.losses)


def test_a_run_without_epochs_writes_nothing_and_unknown_memory_is_left_out(tmp_path: Path) -> None:
    with TensorBoard(tmp_path / "none"):
        pass
    assert not (tmp_path / "none").exists()
    with TensorBoard(tmp_path / "log") as log:
        log(Record(epoch=1, loss=0.5, seconds=1.0, peak_mb=None))
    assert {tag for tag, _, _ in scalars(tmp_path / "log")} == {"loss", "seconds"}


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    main(["train", "csbm", *flags, "--out", str(tmp_path / "run"), "--tensorboard"])
    assert {tag for tag, _, _ in scalars(tmp_path / "run" / "tensorboard")} >= {"loss", "seconds"}
    main(["train", "csbm", *flags, "--out", str(tmp_path / "run"), "--force"])
    assert not (tmp_path / "run" / "tensorboard").exists()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(InputError, match="need tensorboardX"):
        TensorBoard(tmp_path)
