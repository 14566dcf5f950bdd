"""Campaigns against run folders: `python tests/support/reliability.py flips 5000`, or `kills 200`.

flips: flip a random bit of a random file, then read the folder as the commands do, and resume the run. kills: end a run
by SIGKILL at random moments until it has finished; all its processes are forked from one that has imported torch.
"""

import os
import pickle
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch_geometric.data import Data

from progcl import InputError, fit, load_config
from progcl.embed import embed, load_graph
from progcl.errors import ProgclWarning
from progcl.report.story import load_story
from progcl.training.checkpoint import Checkpoints, State
from progcl.training.files import load_embeddings
from support.graphs import write_user_graph
from support.runs import assert_same_run, small

SETTINGS: dict[str, Any] = {
    **{"train.epochs": 4, "train.checkpoint_every": 1, "train.lr": 0.01, "probe.splits": 1, "probe.protocol": "clean"},
    **{"miner.name": "progcl-weight", "miner.start_epoch": 2, "miner.estimator": "tuned"},
    **{"encoder.hidden": 8, "encoder.projection": 8},
    **{"method.name": "grace", "encoder.name": "gcn", "output.structure": 0, "output.features": False},
}


class RunFolder:
    """A small finished run of `progcl embed`, with every file that such a run writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        write_user_graph(folder)
        files: dict[str, Any] = {"features": str(folder / "x.csv"), "labels": str(folder / "y.csv")}
        embed(str(folder / "g.csv"), self.folder, **files, overrides=SETTINGS, progress=False)
        self.content = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        self.config = load_config(self.folder / "config.yaml")
        self.data: Data = load_graph(self.config)
        self.expected = {name: self.read(name) for name in self.content}
        (self.folder / "checkpoint.safetensors").unlink()
        self.previous = self.read("checkpoint.safetensors")
        self.restore()

    def restore(self) -> None:
        """Bring every file back to what it was."""
        for name, content in self.content.items():
            (self.folder / name).write_bytes(content)

    def read(self, name: str) -> Any:
        """What is read from a file: the state to resume from, the configuration, or all that a report tells."""
        if name.endswith(".safetensors"):
            tensors, values = cast(State, Checkpoints(self.folder).load())
            return values, {key: value.numpy().tobytes() for key, value in tensors.items()}
        config = load_config(self.folder / name) if name == "config.yaml" else self.config
        return pickle.dumps(load_story(self.folder, self.data, config))

    def resume(self) -> Any:
        """Embedding and losses of the run after it was resumed; the probe is left out."""
        config = replace(self.config, probe=replace(self.config.probe, protocol="none"))
        result = fit(config, data=self.data, out=self.folder, resume=True)
        stored = load_embeddings(self.folder / "embeddings.npz").vectors
        assert np.array_equal(stored, result.embeddings.numpy())
        return stored.tobytes(), result.losses

    def flip(self, name: str, generator: random.Random) -> str:
        """Flip a bit of a file, read it, restore the folder; the outcome in words.

        A state that was read from the previous checkpoint is the right one if the run that goes on from it ends alike.
        """
        damaged = bytearray(self.content[name])
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        (self.folder / name).write_bytes(damaged)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ProgclWarning)
                result = self.read(name)
            if any("is damaged" in str(each.message) for each in caught):
                return "previous checkpoint" if result == self.previous else "OTHER RESULT"
            return "same" if result == self.expected[name] else "OTHER RESULT"
        except InputError as error:
            return "refused" if error.hint else "refused without a hint"
        finally:
            for changed in {name, *(file for file in self.content if file.endswith(".safetensors"))}:
                (self.folder / changed).write_bytes(self.content[changed])


def flip_bits(folder: Path, flips: int, seed: int = 0) -> dict[str, Counter[str]]:
    """Outcomes of flipped bits, by file; any exception but `InputError` goes through."""
    run, generator = RunFolder(folder), random.Random(seed)
    names = sorted(run.content)
    outcomes = {name: Counter[str]() for name in names}
    for number in range(flips):
        name = names[number % len(names)]
        outcomes[name][run.flip(name, generator)] += 1
    return outcomes


def kill_runs(folder: Path, kills: int, seed: int = 0) -> tuple[int, int]:
    """Kill runs until so many have been killed; each ends with the bits of an undisturbed one. Kills, and runs."""
    config = small(train__checkpoint_every=1, probe__protocol="none", miner__name="none", train__epochs=10)
    start = time.monotonic()
    fit(config, out=folder / "whole")
    duration, generator = time.monotonic() - start, random.Random(seed)
    killed = runs = 0
    while killed < kills:
        out, runs = folder / f"run-{runs}", runs + 1
        while not (out / "result.json").exists():
            process = os.fork()
            if process == 0:
                fit(config, out=out, resume=True)
                os._exit(0)
            time.sleep(generator.uniform(0, 2 * duration))
            os.kill(process, signal.SIGKILL)
            killed += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        assert_same_run(folder / "whole", out)
        assert {path.name for path in out.iterdir()} >= {path.name for path in (folder / "whole").iterdir()}
    return killed, runs


def main() -> None:
    """Run a campaign, and print its outcomes."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] == "kills":
            print("{} kills of {} runs: the same bits".format(*kill_runs(Path(folder), int(sys.argv[2]))))
            return
        for name, outcomes in flip_bits(Path(folder), int(sys.argv[2])).items():
            print(f"{name:<32}", ", ".join(f"{outcome} {number}" for outcome, number in sorted(outcomes.items())))


if __name__ == "__main__":
    main()
