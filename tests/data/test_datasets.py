"""Data sets by name: where they are looked up, and what is said of unknown names, options and missing files."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from progcl import InputError
from progcl.data import datasets as module
from progcl.data.datasets import is_here, load_dataset, roots
from support.shared import real_file


def test_unknown_names_and_options() -> None:
    with pytest.raises(InputError, match="did you mean `photo`"):
        load_dataset("foto")
    with pytest.raises(InputError, match="no option `nodes`"):
        load_dataset("digits", nodes=5)
    with pytest.raises(InputError, match="has no options"):
        load_dataset("photo", nodes=5)


def test_missing_files_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_why_unreachable", lambda url: "no network")
    with pytest.raises(InputError, match="not here and cannot be downloaded") as error:
        load_dataset("photo", tmp_path)
    assert "amazon_electronics_photo.npz" in error.value.hint
    assert str(tmp_path / "amazon" / "Photo" / "raw") in error.value.hint


def test_cora_is_read_from_an_npz_where_its_raw_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "cora").mkdir()
    (tmp_path / "cora" / "cora.npz").symlink_to(real_file("cora/cora.npz"))
    assert is_here("cora", tmp_path)
    data = load_dataset("cora", tmp_path)
    assert (data.num_nodes, data.edge_index.size(1)) == (2708, 2 * 5278)
    assert "train_mask" not in data


def test_the_hint_on_broken_files_names_the_folder_of_that_data_set_alone(tmp_path: Path) -> None:
    for name in ("cora/cora.npz", "amazon/Photo/raw/amazon_electronics_photo.npz"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"broken")
    for name, folder in (("cora", "cora"), ("photo", "amazon/Photo")):
        with pytest.raises(InputError) as error:
            load_dataset(name, tmp_path)
        assert f"remove {tmp_path / folder} and" in error.value.hint


def test_a_server_that_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NETWORK_TIMEOUT", 0.2)
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reason = module._why_unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    assert reason in ("no answer within 0.2 s", "timed out")


def test_an_address_without_a_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    assert "refused" in module._why_unreachable("http://127.0.0.1:9/")


@pytest.mark.parametrize("status", [200, 404])
def test_a_server_that_answers_is_reachable(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "*")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert module._why_unreachable(f"http://127.0.0.1:{server.server_port}/") == ""
        thread.join()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "/data/processed"), "cannot write `/data/processed`"),
        (ConnectionResetError("connection reset"), r"cannot be downloaded \(connection reset\)"),
    ],
)
def test_downloads_that_fail(error: OSError, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, folder: Path) -> None:
        raise error

    monkeypatch.setattr(module, "_why_unreachable", lambda url: "")
    monkeypatch.setattr(module.Published, "open", fail)
    with pytest.raises(InputError, match=message) as caught:
        load_dataset("photo", tmp_path)
    assert caught.value.hint


def test_data_roots_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGCL_DATA", "/somewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert roots("/here") == [Path("/here"), Path("/somewhere"), tmp_path / "progcl"]
