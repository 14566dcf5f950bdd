"""Damaged and foreign files of a run folder, and runs that are killed: the same result or an error, never another."""

import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load

from progcl import InputError
from progcl.checksums import read_json, seal, unseal
from progcl.cli.main import COMMANDS
from progcl.errors import ProgclWarning
from progcl.evaluation.scores import format_table
from progcl.report.mixture import draw_probabilities
from progcl.report.story import load_story
from progcl.training.checkpoint import Checkpoints
from support.commands import refusal
from support.reliability import RunFolder, flip_bits

READ = ("config.yaml", "result.json", "log.jsonl", "curves.json", "comparison.json", "embeddings.npz")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return RunFolder(tmp_path_factory.mktemp("reliability"))


@pytest.fixture
def run(made: RunFolder) -> Iterator[RunFolder]:
    yield made
    made.restore()


def test_500_flipped_bits_change_no_result(tmp_path: Path) -> None:
    outcomes = flip_bits(tmp_path, 500)
    assert sum(counts.total() for counts in outcomes.values()) == 500
    for name, counts in outcomes.items():
        assert set(counts) <= {"same", "refused", "previous checkpoint"}, name
    for name in READ:
        assert outcomes[name]["refused"] > outcomes[name]["same"], name
    assert outcomes["checkpoint.safetensors"]["previous checkpoint"] > 30


def flip_number(path: Path) -> None:
    """Flip a bit of the last tensor in a checkpoint."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def test_a_run_goes_on_from_the_previous_checkpoint_and_ends_with_the_same_bits(run: RunFolder) -> None:
    checkpoints = Checkpoints(run.folder)
    expected, last = run.resume(), checkpoints.newest.read_bytes()
    flip_number(checkpoints.newest)
    with pytest.warns(ProgclWarning, match=r"checkpoint.safetensors` is damaged: .* before it, of epoch 3"):
        assert run.resume() == expected
    written = load(checkpoints.newest.read_bytes())
    assert all(torch.equal(tensor, written[name]) for name, tensor in load(last).items())
    flip_number(checkpoints.newest)
    flip_number(checkpoints.previous)
    with pytest.raises(InputError, match="hint: start again with --force"):
        run.resume()


def test_a_run_killed_between_two_checkpoints_goes_on_from_the_one_that_is_left(run: RunFolder) -> None:
    expected, checkpoints = run.resume(), Checkpoints(run.folder)
    checkpoints.newest.unlink()
    assert run.resume() == expected


def test_a_resumed_run_writes_damaged_results_again(run: RunFolder) -> None:
    for name in ("result.json", "log.jsonl", "curves.json", "embeddings.npz", "mixture.svg"):
        (run.folder / name).write_bytes(b"damaged")
    run.resume()
    assert run.read("log.jsonl")
    assert read_json(run.folder / "curves.json")


def archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


VECTORS = np.ones((240, 3), np.float32)
DAMAGE: dict[str, list[bytes]] = {
    "embeddings.npz": [
        archive(embeddings=VECTORS[:, 0]),
        archive(embeddings=VECTORS[:0]),
        archive(embeddings=VECTORS.astype(str)),
        archive(embeddings=VECTORS * np.nan),
        archive(embeddings=VECTORS, ids=np.array(["n1", "n2"])),
        archive(embeddings=VECTORS, ids=np.arange(240)),
        archive(vectors=VECTORS),
        archive(embeddings=VECTORS, ids=np.array([None] * 240)),
        b"",
    ],
    "result.json": [b"{}", b"[]", b"null", b"{", b"\xff", b""],
    "config.yaml": [b"", b"[1]", b"\xff", b"train: {epochs: 5}\nchecksum: 0123456789abcdef\n"],
    "log.jsonl": [b'{"epoch": 1}\n', b"[]\n", b"\xff"],
    "curves.json": [b"{}", b"{"],
    "comparison.json": [b"{}", b'{"a": 1}'],
}
READS: dict[str, tuple[str, ...]] = {
    "neighbors": ("result.json", "embeddings.npz"),
    "export": ("result.json", "embeddings.npz"),
    "eval": ("result.json", "embeddings.npz", "config.yaml"),
    "report": ("result.json", "embeddings.npz", "config.yaml", "log.jsonl", "curves.json", "comparison.json"),
    "embed": ("config.yaml",),
    "train": ("config.yaml",),
}


def options_of(command: str, folder: Path) -> dict[str, Any]:
    """Of a command on a run folder."""
    graph = str(folder.parent / "g.csv")
    resumed = {"out": str(folder), "resume": True}
    own: dict[str, dict[str, Any]] = {
        "neighbors": {"node": "n3"},
        "embed": {"file": graph, **resumed},
        "train": {"source": "csbm", **resumed},
    }
    return {"run": str(folder), **own.get(command, {})}


@pytest.mark.parametrize("command", READS)
def test_damaged_and_foreign_files_are_refused_with_a_hint(command: str, run: RunFolder) -> None:
    for name in READS[command]:
        for content in DAMAGE[name]:
            (run.folder / name).write_bytes(content)
            with pytest.raises(InputError) as caught:
                COMMANDS[command].run(options_of(command, run.folder))
            assert caught.value.hint, (name, content)
            run.restore()


ODD_VALUES: list[Any] = [None, True, -1, 0, 10**12, float("inf"), float("nan"), "x", "9" * 5000, [], {}, [1], {"a": 1}]


def list_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside of a value, with a key or index of it."""
    keys = list(value) if isinstance(value, dict) else range(min(3, len(value))) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from list_places(value[key])


@pytest.mark.parametrize("name", ["result.json", "curves.json", "comparison.json", "log.jsonl"])
def test_content_of_another_program_is_refused_although_its_checksum_matches(name: str, run: RunFolder) -> None:
    generator = random.Random(name)
    for number in range(60):
        texts = run.content[name].splitlines() if name == "log.jsonl" else [run.content[name]]
        rows = [unseal(json.loads(text)) for text in texts]
        holder, key = generator.choice(list(list_places(rows))[1:])
        if number % 3:
            holder[key] = generator.choice(ODD_VALUES)
        else:
            del holder[key]
        text = "\n".join(json.dumps(seal(row)) if isinstance(row, dict) else json.dumps(row) for row in rows)
        (run.folder / name).write_text(text)
        with suppress(InputError):
            story = load_story(run.folder, run.data, run.config)
            format_table(story.scores)
            if story.mixture:
                draw_probabilities(story.mixture)


def test_a_log_without_all_its_lines_is_refused(run: RunFolder) -> None:
    first, second, *rest = run.content["log.jsonl"].splitlines(keepends=True)
    for lines in ([first, second], [first, *rest], [second, *rest], []):
        (run.folder / "log.jsonl").write_bytes(b"".join(lines))
        with pytest.raises(InputError, match="does not hold every epoch"):
            run.read("log.jsonl")


def test_embeddings_of_another_graph_are_refused(run: RunFolder) -> None:
    (run.folder / "embeddings.npz").write_bytes(archive(embeddings=VECTORS[:9]))
    for command in ("eval", "report"):
        with pytest.raises(InputError, match="embeddings of 9 nodes, the graph has 240"):
            COMMANDS[command].run(options_of(command, run.folder))


def test_the_command_line_says_so_in_a_line(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    (run.folder / "result.json").write_text("{}")
    error = refusal(capsys, "neighbors", str(run.folder), "n3")
    assert re.fullmatch(r"error: `.*result.json` is damaged: it has no checksum\n\nhint: .*\n", error)


def test_a_header_that_makes_numpy_read_less_is_noticed(run: RunFolder) -> None:
    content = run.content["embeddings.npz"]
    shorter = content.replace(b"(240, ", b"(200, ", 1)
    assert shorter != content
    (run.folder / "embeddings.npz").write_bytes(shorter)
    with pytest.raises(InputError, match=r"checksum of embeddings.npy does not match"):
        run.read("embeddings.npz")


@pytest.mark.kill(seconds=12)
def test_runs_killed_at_any_moment_end_with_the_same_bits() -> None:
    """In a process of its own, as it forks those that are killed."""
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(root / "tests" / "support" / "reliability.py"), "kills", "15"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert re.fullmatch(r"\d\d kills of \d+ runs: the same bits\n", done.stdout), done.stderr
