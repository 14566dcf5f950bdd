"""A folder is one run's: live owners are respected, dead ones are recognized."""

import errno
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from progcl import InputError, fit
from progcl.checksums import read_json, seal
from progcl.training import lock
from progcl.training.lock import LOCK_FILE, lock_folder
from support.runs import small


def write_lock(folder: Path, **changes: Any) -> None:
    """Lock a folder for this process, or for what is said."""
    folder.mkdir(exist_ok=True)
    (folder / LOCK_FILE).write_text(json.dumps(seal({**lock._describe_process(), **changes})))


def dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_second_run_is_refused_with_force_too(tmp_path: Path) -> None:
    write_lock(tmp_path / "run")
    for options in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(InputError, match=rf"is under way \(process {os.getpid()} on .*\n\nhint: wait for it"):
            fit(small(), out=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK_FILE]


def test_a_thread_may_lock_again_and_another_may_not(tmp_path: Path) -> None:
    refused: list[InputError] = []

    def other() -> None:
        try:
            with lock_folder(tmp_path):
                pass
        except InputError as error:
            refused.append(error)

    with lock_folder(tmp_path), lock_folder(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert read_json(tmp_path / LOCK_FILE)["process"] == os.getpid()
    assert len(refused) == 1
    assert list(tmp_path.iterdir()) == []
    other()
    assert len(refused) == 1


STALE: dict[str, Callable[[], dict[str, Any]]] = {
    "dead": lambda: {"process": dead_process()},
    "its number was given to another": lambda: {"process": os.getppid(), "started": "an earlier boot 17"},
}
LIVE: dict[str, Callable[[], dict[str, Any]]] = {
    "alive": lambda: {"process": os.getppid(), "started": lock._start_time(os.getppid())},
    "on another host": lambda: {"host": "elsewhere", "process": dead_process()},
    "somebody else's": lambda: {"process": 1, "started": lock._start_time(1)},
}


@pytest.mark.parametrize("owner", STALE)
def test_the_lock_of_a_dead_process_is_replaced(owner: str, tmp_path: Path) -> None:
    write_lock(tmp_path, **STALE[owner]())
    with lock_folder(tmp_path):
        assert read_json(tmp_path / LOCK_FILE)["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", LIVE)
def test_any_other_lock_is_respected(owner: str, tmp_path: Path) -> None:
    write_lock(tmp_path, **LIVE[owner]())
    with pytest.raises(InputError, match=r"has ended, remove .*run\.lock"), lock_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


def test_a_damaged_lock_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text('{"process": 1')
    with pytest.raises(InputError, match="hint: if no run is under way there, remove"), lock_folder(tmp_path):
        pass


def test_a_restarted_job_takes_its_lock_from_any_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job-7")
    write_lock(tmp_path, host="elsewhere", process=dead_process())
    with pytest.raises(InputError, match="under way"), lock_folder(tmp_path):
        pass
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with lock_folder(tmp_path):
        pass


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: Path) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    write_lock(tmp_path, process=dead_process())
    with lock_folder(tmp_path):
        assert not lock._create(tmp_path / LOCK_FILE, {})
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_find_a_stale_lock_the_slower_one_puts_the_new_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, judged = lock._is_stale, list[bool]()

    def be_slow(owner: dict[str, Any]) -> bool:
        stale = judge(owner)
        if not judged:
            write_lock(tmp_path, **LIVE["alive"](), token="fast")
        judged.append(stale)
        return stale

    write_lock(tmp_path, process=dead_process())
    monkeypatch.setattr(lock, "_is_stale", be_slow)
    with pytest.raises(InputError, match="under way"), lock_folder(tmp_path):
        pass
    assert judged == [True, False]
    assert read_json(tmp_path / LOCK_FILE)["token"] == "fast"
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


def test_folders_made_for_a_lock_are_removed_unless_they_are_used(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "result.json").write_text("")
    assert (tmp_path / "a" / "b" / "result.json").exists()
    with pytest.raises(InputError, match="is a file"), lock_folder(tmp_path / "a" / "b" / "result.json"):
        pass


def test_a_lock_that_is_gone_by_the_time_it_is_read_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, answers = lock._create, iter([False])
    monkeypatch.setattr(lock, "_create", lambda path, owner: next(answers, None) is None and create(path, owner))
    with lock_folder(tmp_path):
        assert read_json(tmp_path / LOCK_FILE)["process"] == os.getpid()


def test_of_two_that_find_a_stale_lock_the_slower_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other has moved the stale one away, and written its own."""
    write_lock(tmp_path, process=dead_process())

    def rename(path: Path, target: Path) -> None:
        write_lock(tmp_path, token="of the other")
        raise FileNotFoundError

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(InputError, match="is under way"), lock_folder(tmp_path):
        pass
    assert read_json(tmp_path / LOCK_FILE)["token"] == "of the other"


def test_a_process_of_another_user_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lock(tmp_path)

    def forbid(process: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbid)
    with pytest.raises(InputError, match="is under way"), lock_folder(tmp_path):
        pass


def test_a_lock_that_names_no_process_is_damaged(tmp_path: Path) -> None:
    write_lock(tmp_path, process="one")
    with pytest.raises(InputError, match="it names no process"), lock_folder(tmp_path):
        pass
