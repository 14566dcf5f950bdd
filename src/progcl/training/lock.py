"""One run, one folder: a lock file that names its owner, so that one left behind by a dead process is recognized."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from progcl.checksums import DamagedFile, read_json, seal
from progcl.distributed import job_id, restart_count
from progcl.errors import InputError
from progcl.files import require_folder

LOCK_FILE = "run.lock"
_held: dict[Path, tuple[int, int]] = {}  # folders that are locked, and the process and thread that did


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes and threads from running in a folder; the thread that has locked it may do so again.

    The lock is a file that is created whole or not at all, on network file systems, too. It is removed in the end, with
    the folder if that was made for it and is empty.

    Raises:
        InputError: if a run in the folder is under way
    """
    key, me = folder.resolve(), (os.getpid(), threading.get_ident())
    if _held.get(key) == me:
        yield
        return
    require_folder(folder)
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path, owner = folder / LOCK_FILE, _describe_process()
    try:
        _acquire(path, owner)
    except BaseException:
        _remove_empty(new)
        raise
    _held[key] = me
    try:
        yield
    finally:
        del _held[key]
        with suppress(InputError):
            if _read(path) == owner:
                path.unlink(missing_ok=True)
        _remove_empty(new)


def _acquire(path: Path, owner: dict[str, Any]) -> None:
    """Create the lock file, in place of one whose owner is dead."""
    while not _create(path, owner):
        other = _read(path)
        if other is None:  # removed in the meantime
            continue
        if not _is_stale(other):
            raise _refusal(path, other)
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            path.rename(aside)  # of two processes that find a stale lock, one succeeds
        except FileNotFoundError:
            continue
        moved = _read(aside)
        if moved is not None and moved != other:  # it was fast: this is its new lock
            _create(path, moved)
        aside.unlink(missing_ok=True)


def _create(path: Path, owner: dict[str, Any]) -> bool:
    """Write the lock file, unless there is one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    temporary.write_text(json.dumps(seal(owner)) + "\n")
    try:
        os.link(temporary, path)  # atomic with its content, also where O_EXCL is not
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            with path.open("x") as file:
                file.write(temporary.read_text())
        except FileExistsError:
            return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _read(path: Path) -> dict[str, Any] | None:
    """The owner that a lock file names; None if there is no file."""
    try:
        owner = read_json(path)
        if not isinstance(owner.get("process"), int):
            raise DamagedFile(f"`{path}` is damaged: it names no process")
        return owner
    except DamagedFile as error:
        if not path.exists():
            return None
        raise InputError(str(error.args[0]), f"if no run is under way there, remove {path}") from None


def _describe_process() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "process": os.getpid(),
        "started": _start_time(os.getpid()),
        "job": job_id(),
        "token": secrets.token_hex(8),
    }


def _is_stale(owner: dict[str, Any]) -> bool:
    """Whether the process is dead for sure: it was on this host, or torchrun has restarted its job."""
    if restart_count() > 0 and owner["job"] == job_id() and owner["process"] != os.getpid():
        return True
    if owner["host"] != platform.node() or sys.platform == "win32":  # where a signal 0 is none
        return False
    try:
        os.kill(owner["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # alive, and somebody else's
        pass
    return _start_time(owner["process"]) not in (owner["started"], None)


def _start_time(process: int) -> str | None:
    """Boot and clock tick at which a process started, so that another with its number is not taken for it.

    None where the system does not tell.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return f"{boot} {status.rpartition(')')[2].split()[19]}"


def _refusal(path: Path, owner: dict[str, Any]) -> InputError:
    who = f"process {owner['process']} on {owner['host']}"
    hint = f"wait for it, or choose another --out; if {who} has ended, remove {path}"
    return InputError(f"a run in `{path.parent}` is under way ({who})", hint)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for a run which then wrote nothing, the innermost first."""
    with suppress(OSError):  # not empty, or gone
        for folder in folders:
            folder.rmdir()
