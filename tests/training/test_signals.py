"""Signals are obeyed where a run can be resumed; handlers are restored."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from progcl import fit
from progcl.training import signals
from progcl.training.checkpoint import load
from progcl.training.signals import GRACE_SECONDS, Stopped, StopRequest
from progcl.training.trainer import Record, Trainer
from support.runs import BATCHES, assert_same_run, small


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def test_a_signal_is_deferred_and_the_second_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        with pytest.raises(Stopped, match="stopped by SIGINT") as caught:
            send(signal.SIGINT)
        assert caught.value.exit_code == 130
        with stop.deferred():
            send()
            assert stop.requested
            stop.obey(seconds_left=GRACE_SECONDS - 1)
            with pytest.raises(Stopped):
                stop.obey(seconds_left=GRACE_SECONDS + 1)
            with pytest.raises(Stopped):
                stop.obey()
            with pytest.raises(Stopped):
                send(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_torchrun_passes_on_is_not_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with StopRequest() as stop, stop.deferred():
        send(signal.SIGINT)
        send(signal.SIGINT)
        monkeypatch.setattr(stop, "_time", time.monotonic() - 2 * signals.REPEAT_SECONDS)
        with pytest.raises(Stopped):
            send(signal.SIGINT)
    assert StopRequest().error().exit_code == 143  # another process was told


def test_other_threads_have_no_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def enter() -> None:
        with StopRequest():
            found.append(signal.getsignal(signal.SIGTERM))

    found: list[Any] = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]


def interrupt_step(monkeypatch: pytest.MonkeyPatch, number: int, which: int = signal.SIGTERM) -> list[int]:
    """Send a signal in this step; the steps that were taken."""
    step, steps = Trainer._step, list[int]()

    def step_and_signal(trainer: Trainer, *arguments: Any) -> float:
        loss = step(trainer, *arguments)
        steps.append(len(steps) + 1)
        if len(steps) == number:
            send(which)
        return loss

    monkeypatch.setattr(Trainer, "_step", step_and_signal)
    return steps


@pytest.mark.parametrize(("grace", "steps", "epochs"), [(GRACE_SECONDS, 12, 3), (0.0, 10, 2)])
def test_an_epoch_of_batches_is_finished_if_it_is_short(
    grace: float, steps: int, epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes in the second of four batches of the third epoch; a long one is cut off after the step."""
    config = small(**BATCHES, miner__name="none", train__epochs=5, train__checkpoint_every=100, probe__protocol="none")
    fit(config, out=tmp_path / "whole")
    for module in ("progcl.run", "progcl.training.signals"):
        monkeypatch.setattr(f"{module}.GRACE_SECONDS", grace)
    with monkeypatch.context() as patch:
        taken = interrupt_step(patch, 10)
        with StopRequest() as stop, pytest.raises(Stopped):
            fit(config, out=tmp_path / "stopped", stop=stop)
    assert len(taken) == steps
    assert len(load(tmp_path / "stopped" / "checkpoint.safetensors")[1]["records"]) == epochs
    assert not (tmp_path / "stopped" / "result.json").exists()
    fit(config, out=tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_python_callers_keep_their_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = []
    taken = interrupt_step(monkeypatch, 2, signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            fit(small(miner__name="none"), on_epoch=records.append)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not isinstance(caught.value, Stopped)
    assert (len(taken), len(records)) == (2, 1)
