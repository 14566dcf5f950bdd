"""A budget is kept on 60,000 nodes and 58 classes, whatever else runs; the clock is one of the test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from progcl import run as run_module
from progcl.budget import Budget
from progcl.embed import embed
from progcl.errors import InputError
from progcl.estimate import Estimate, map_seconds
from progcl.evaluation.probe import PROTOCOLS, SplitScore, probe_clean
from progcl.training.trainer import Trainer

NODES, WIDTH = 60_000, 1664
START, STEP, SPLIT = 9.0, 0.08, 12.0  # seconds
SECONDS = {"prepare": 2.0, "train": 400 * STEP, "output": 20.0, "walks": 45.0, "score": 60.0, "write": 2.0}
NEEDS = Estimate({"start": START, **SECONDS, "report": 60.0}, SPLIT, NODES, WIDTH, pace=1.0, memory=4e9, disk=1e6)
QUICK: dict[str, Any] = {"train.epochs": 40, "batch.size": 100, "batch.steps": 10, "encoder.hidden": 8}
LOADS: dict[str, Callable[[float], float]] = {  # how much longer everything takes at a time
    "idle": lambda time: 0.8,
    "as estimated": lambda time: 1.0,
    "busy": lambda time: 1.9,
    "busy after a while": lambda time: 1.0 if time < 40 else 1.6,
    "idle after a while": lambda time: 1.6 if time < 40 else 1.0,
    "by turns": lambda time: 0.7 if int(time / 5) % 2 else 1.5,
}


class Machine:
    """A clock that moves by what is done, as if the graph had 60,000 nodes."""

    def __init__(self, load: Callable[[float], float]) -> None:
        self.time, self.load, self.log = 0.0, load, dict[str, Any]()

    def __call__(self) -> float:
        return self.time

    def work(self, seconds: float) -> None:
        while seconds > 0:
            piece = min(1.0, seconds)
            self.time += piece * self.load(self.time)
            seconds -= piece

    def install(self, patch: pytest.MonkeyPatch) -> None:
        machine, make, step, finish = self, Trainer.__init__, Trainer._step, run_module._finish

        def slow_init(trainer: Trainer, *arguments: Any, **options: Any) -> None:
            machine.work(SECONDS["prepare"])
            make(trainer, *arguments, **options)

        def slow_step(trainer: Trainer, *arguments: Any) -> float:
            machine.work(STEP)
            return step(trainer, *arguments)

        def slow_finish(trainer: Trainer, folder: Path | None) -> Any:
            machine.work(SECONDS["output"] + (SECONDS["walks"] if trainer.config.output.structure else 0))
            return finish(trainer, folder)

        def slow_probe(*arguments: Any) -> Iterator[SplitScore]:
            for score in probe_clean(*arguments):
                machine.work(SPLIT)
                yield score

        def slow_report(story: Any, path: Path, quick: bool, max_nodes: int) -> None:
            machine.log |= {"quick": quick, "max_nodes": max_nodes}
            machine.work(map_seconds(min(NODES, max_nodes), NODES, WIDTH, quick))

        patch.setattr(Trainer, "__init__", slow_init)
        patch.setattr(Trainer, "_step", slow_step)
        patch.setattr(run_module, "_finish", slow_finish)
        patch.setitem(PROTOCOLS, "clean", slow_probe)
        patch.setattr("progcl.embed.estimate", lambda *_: NEEDS)
        patch.setattr("progcl.embed.write_parquet", lambda *_: machine.work(SECONDS["write"]))
        patch.setattr("progcl.embed.write_report", slow_report)


def embed_within(seconds: float, load: str, patch: pytest.MonkeyPatch) -> tuple[Machine, Any]:
    machine = Machine(LOADS[load])
    machine.install(patch)
    budget = Budget(seconds, machine)
    machine.work(START)
    return machine, embed("g.npz", Path("out"), budget=budget, overrides=QUICK, progress=False)


@pytest.mark.parametrize("seconds", [90.0, 180.0, 600.0])
@pytest.mark.parametrize("load", LOADS)
def test_a_budget_is_kept(load: str, seconds: float, user_graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, result = embed_within(seconds, load, monkeypatch)
    assert machine.time <= 1.1 * seconds
    assert result.losses
    if seconds == 600:
        assert len(result.losses) == 40
        assert result.config.output.structure > 0
        assert result.score is not None
        assert len(result.score.accuracies) == 3


def test_what_there_is_no_time_for_is_left_out_and_said(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(LOADS["busy"])
    machine.install(monkeypatch)
    result = embed("g.npz", Path("out"), budget=Budget(66.0, machine), overrides=QUICK)
    err = capsys.readouterr().err
    assert machine.time <= 1.1 * 66
    assert 1 <= len(result.losses) < 40
    assert "no walk vectors, which would take about 72 s of the budget" in err
    assert "no time is left to score the embedding: `progcl eval out` does" in err
    assert machine.log["quick"]


def test_too_small_a_budget_is_refused_before_anything_is_written(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="does not suffice for one epoch") as error:
        embed_within(30.0, "as estimated", monkeypatch)
    assert "all that follows" in error.value.hint
    assert not Path("out").exists()


def test_walks_that_take_no_time_are_not_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "g.csv"  # without features: walk vectors are computed while it is read
    graph.write_text("".join(f"n{node},n{(node + step) % 20}\n" for node in range(20) for step in (1, 3)))
    embed(str(graph), tmp_path / "out", budget=Budget(0.01))
    assert "no walk vectors" not in capsys.readouterr().err
