"""Two gloo processes compute the losses and gradients of one, and resume to the same bits after one is killed."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from progcl.config.methods import METHODS
from progcl.distributed import SINGLE_PROCESS, Workers, connect, shard_slice
from support.runs import assert_same_run, read_log
from support.two_processes import EPOCHS, SHAPES


def torchrun(*arguments: str) -> str:
    """Run the script of tests/support in two processes; what it prints."""
    script = Path(__file__).parent / "support" / "two_processes.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2"]
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*launcher, *rendezvous, str(script), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.mark.processes(seconds=20)
def test_sharded_losses_and_gradients_equal_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    rows = [line.split("\t") for line in torchrun("losses").splitlines() if "\t" in line]
    names = {(shape, miner) for shape, miner, *_ in rows}
    assert names == {(shape, miner) for shape, (_, miners) in SHAPES.items() for miner in miners}
    for shape, miner, difference, same in rows:
        assert float(difference) < 1e-5, f"{shape}, {miner}: {difference}"
        assert same == "True", f"{shape}, {miner}: the fits differ"


def test_every_method_that_claims_processes_is_among_the_shapes() -> None:
    names = {str(changes.get("method.name", "grace")) for changes, _ in SHAPES.values()}
    assert names == {name for name, entry in METHODS.items() if "processes" in entry.options.supports}


@pytest.mark.processes(seconds=30)
@pytest.mark.kill
def test_a_killed_worker_restarts_the_run_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    output = torchrun("restart", str(killed), str(undisturbed))
    assert "killed after epoch" in output
    assert "resumed" in output
    assert len(read_log(killed)) == EPOCHS
    assert_same_run(killed, undisturbed)


def test_a_single_process_needs_no_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert connect() == SINGLE_PROCESS == Workers(0, 1)
    x = torch.arange(2.0)
    SINGLE_PROCESS.sum(x)
    assert x.tolist() == [0, 1]
    assert SINGLE_PROCESS.gather(x, 2) is x
    assert SINGLE_PROCESS.broadcast(lambda: 5) == SINGLE_PROCESS.local_main_first(lambda: 5) == 5
    assert SINGLE_PROCESS.is_main


def test_shards_cover_every_row_once_and_differ_by_at_most_one() -> None:
    for total, size in ((10, 3), (2, 4), (0, 2), (7, 1)):
        shards = [range(total)[shard_slice(total, (rank, size))] for rank in range(size)]
        assert [row for shard in shards for row in shard] == list(range(total))
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
