"""Two gloo processes make one run: the same losses and gradients, and the same end after one of them was killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from progcl.distributed import SINGLE_PROCESS, Workers, connect
from progcl.training.run_folder import is_restart, write_job_id
from support.two_processes import SHAPES

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
RUN = [
    *("--data.nodes", "300", "--batch.size", "100", "--batch.fanouts", "[3, 3]", "--encoder.name", "sage"),
    *("--train.epochs", "24", "--miner.start_epoch", "5", "--train.checkpoint_every", "2", "--probe.splits", "2"),
]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def launched(*arguments: str) -> list[str]:
    return [*TORCHRUN, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *arguments]


def test_split_over_two_processes_losses_and_gradients_are_the_same() -> None:
    script = Path(__file__).parents[1] / "support" / "two_processes.py"
    done = subprocess.run(launched(str(script)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert {(shape, miner) for shape, miner, *_ in rows} == {
        (shape, miner) for shape, (_, names) in SHAPES.items() for miner in names
    }
    for shape, miner, worst, same in rows:
        assert float(worst) < 1e-5, f"{shape}, {miner}: {worst}"
        assert same == "True", f"{shape}, {miner}: the fits differ"


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the workers in /proc")
def test_a_killed_worker_restarts_the_run_and_it_ends_alike(tmp_path: Path) -> None:
    outs = tmp_path / "undisturbed", tmp_path / "killed"
    processes = [
        subprocess.Popen(
            launched("--max-restarts", "2", "-m", "progcl", "train", "csbm", *RUN, "--out", str(out)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for out in outs
    ]
    os.kill(worker(processes[1].pid, outs[1]), signal.SIGKILL)
    texts = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts[1][-3000:]
    assert [text.count("run folder") for text in texts] == [1, 2]  # once for every start
    first, second = (np.load(out / "embeddings.npz")["embeddings"] for out in outs)
    assert np.array_equal(first, second)
    results = [json.loads((out / "result.json").read_text()) for out in outs]
    assert results[0]["score"] == results[1]["score"]
    assert len((outs[1] / "log.jsonl").read_text().splitlines()) == 24


def worker(launcher: int, out: Path) -> int:
    """The process number of a worker, once the run is under way."""
    log = out / "log.jsonl"
    for _ in range(1200):
        if log.exists() and len(log.read_text().splitlines()) >= 7:
            return int(Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()[-1])
        time.sleep(0.05)
    raise AssertionError("the run did not begin")


def test_only_a_restart_of_the_same_job_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job_id(tmp_path)
    assert not is_restart(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert is_restart(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    assert not is_restart(tmp_path)
    assert not is_restart(tmp_path / "nothing")


def test_alone_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert connect() == SINGLE_PROCESS == Workers(0, 1)
    x = torch.ones(2)
    SINGLE_PROCESS.sum(x)
    assert torch.equal(SINGLE_PROCESS.gather(x, 2), torch.ones(2))
    assert SINGLE_PROCESS.broadcast(lambda: 5) == SINGLE_PROCESS.local_main_first(lambda: 5) == 5
    assert SINGLE_PROCESS.is_main
