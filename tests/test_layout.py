"""Imports go one way, and labels stay where they belong."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from progcl.training.files import save_embeddings, write_json

SOURCE = Path(__file__).parents[1] / "src" / "progcl"

LAYERS = [  # a package or module may import those before it, and itself
    *("errors", "memory", "progress", "files", "checksums", "registry", "budget", "precision", "seeding"),
    "distributed",
    *("config", "data", "graph", "nn", "posteriors", "miners", "losses", "testing", "pygcl", "methods", "training"),
    *("neighbors", "clusters", "export", "evaluation", "links", "pairs", "report", "result", "run", "experiments"),
    *("estimate", "planning", "transform", "embed", "saved_estimator", "sklearn", "bench", "cli"),
    *("__main__", "__init__"),
]
MAY_TOUCH_LABELS = {"data", "evaluation", "report", "methods/supervised.py", "posteriors/baselines.py", "sklearn.py"}
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))


def layer(dotted: str) -> int:
    return LAYERS.index(dotted.removeprefix("progcl").lstrip(".").split(".")[0] or "__init__")


@pytest.mark.parametrize("path", sorted((SOURCE.parents[1] / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_what_benchmarks_import_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "progcl":
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}"), name.name


def test_imports_go_down_from_package_to_package() -> None:
    for path in FILES:
        own = layer(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("progcl.") and path != FILES[0]:
                assert layer(node.module or "") <= own, f"{path.relative_to(SOURCE)} imports {node.module}"


def test_only_data_evaluation_and_report_touch_labels() -> None:
    for path in FILES:
        home = path.relative_to(SOURCE)
        if not {home.parts[0], str(home)} & MAY_TOUCH_LABELS:
            found = re.search(r"""\.y\b|["']y["']|(train|val|test|stopping)_mask\b""", path.read_text())
            assert not found, f"{home}: {found and found[0]}"


def test_files_have_at_most_350_lines() -> None:
    for path in [*FILES, *TESTS]:
        assert len(path.read_text().splitlines()) <= 350, path


def test_no_test_imports_another_test_file() -> None:
    """What tests share is in tests/support."""
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                assert not re.search(r"(^|\.)(tests|test_\w+|conftest)(\.|$)", module), f"{path} imports {module}"


def run_python(code: str, **environment: str) -> str:
    command, environment = [sys.executable, "-c", code], {"PYTHONPATH": str(SOURCE.parent), **environment}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_the_command_line_starts_without_torch() -> None:
    assert run_python("import sys, progcl.cli.main; print('torch' in sys.modules)") == "False"


FILE_ERRORS = {  # commands in a folder with a damaged graph, a damaged run, and one that has lost its graph
    "embed bad.csv": "line 2 has 1 values",
    "embed nowhere.npz": "there is no file",
    "embed g.csv --features bad.npy": "is broken",
    "embed g.csv --labels nowhere.csv": "there is no file",
    "embed g.csv --source x --target y": "has no column",
    "embed g.csv -o done": "holds a run already",
    "embed g.csv -o g.csv": "is a file",
    "embed g.csv --budget soon": "is not a duration",
    "info nowhere.csv": "there is no file",
    "info bad.csv": "line 2 has 1 values",
    "embed g.csv --from nowhere": "there is no file",
    "transform nowhere g.csv": "there is no file",
    "transform done nowhere.csv": "there is no file",
    "transform done g.csv": "has no model.safetensors",
    "transform model bad.csv": "line 2 has 1 values",
    "transform model g.csv --features x.csv": "the embedding was made of column `age`, which is missing here",
    "transform model g.csv -o done": "holds a run",
    "embed g.csv --from done": "has no model.safetensors",
    "links nowhere": "holds no finished run",
    "links done --top 0": "hint: for example --top 20",
    "links done --pairs nowhere.csv": "there is no file",
    "links model": "holds the result of `progcl transform`",
    "neighbors done --all -k 0": "hint: for example -k 10",
    "neighbors nowhere --all": "holds no finished run",
    "embed g.csv --evaluate labels": "hint: known: 'links'",
    "embed": "hint: `progcl embed --help` lists",
    "embed g.csv --epochs -1": "needs to be at least 1",
    "embed g.csv --label-column club": "there is no table of nodes",
    "train nowhere.yaml": "there is no file",
    "train done/config.yaml --out other": "there is no file `/nowhere/g.csv`",
    "train csbm --out done": "holds a run already",
    "eval g.csv": "holds no finished run",
    "eval done": "there is no file `/nowhere/g.csv`",
    "report nowhere": "holds no finished run",
    "report done": "there is no file `/nowhere/g.csv`",
    "neighbors nowhere n7": "holds no finished run",
    "neighbors damaged n7": "is damaged",
    "neighbors done n7": "there is no node `n7`",
    "export damaged": "is damaged",
    "export done --out g.csv": "is there already",
    "show nowhere.yaml": "there is no file",
}


def test_errors_about_files_come_without_torch(tmp_path: Path) -> None:
    """Torch takes seconds to import; so do networkx and pyarrow, of which small files have no need."""
    (tmp_path / "bad.csv").write_text("a,b\nc\n")
    (tmp_path / "bad.npy").write_text("?")
    (tmp_path / "g.csv").write_text("a,b\nb,c\n")
    for name in ("done", "damaged"):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "result.json", {"score": None})
        graph = "data: {name: file, graph: /nowhere/g.csv}\nprobe: {protocol: clean}\n"
        (tmp_path / name / "config.yaml").write_text(graph)
    save_embeddings(tmp_path / "done" / "embeddings.npz", np.ones((2, 3), np.float32), ["a", "b"])
    (tmp_path / "damaged" / "embeddings.npz").write_text("?")
    (tmp_path / "x.csv").write_text("id,size\na,1\nb,2\nc,3\n")
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model" / "result.json", {"transform": {}})
    save_embeddings(tmp_path / "model" / "embeddings.npz", np.ones((2, 3), np.float32), ["a", "b"])
    values = {"config": {"data": {}}, "schema": {"plan": [{"column": "age", "kind": "numbers", "fill": [0.0]}]}}
    save_file({"numbers": np.ones(1)}, tmp_path / "model" / "model.safetensors", {"values": json.dumps(values)})
    code = f"""
import contextlib, io, os, sys
from progcl.cli.main import main
os.chdir({str(tmp_path)!r})
for command, message in {FILE_ERRORS!r}.items():
    error = io.StringIO()
    try:
        with contextlib.redirect_stderr(error):
            main(command.split())
        print(command, "is no error")
    except SystemExit as stop:
        if stop.code != 2 or message not in error.getvalue() or "torch" in sys.modules or "networkx" in sys.modules:
            print(command, stop.code, "torch" in sys.modules, error.getvalue())
"""
    assert run_python(code) == ""


def test_importing_leaves_global_state_alone() -> None:
    """No module seeds, filters warnings or sets threads or types when it is imported."""
    for path in FILES:
        module = ast.parse(path.read_text())
        calls = [node.value for node in module.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        for call in map(ast.unparse, calls):
            assert not re.match(r"warnings\.|torch\.(set_|manual_seed)|(np\.)?random\.|threadpool", call), (
                f"{path}: {call}"
            )


def test_importing_a_public_name_draws_no_random_number() -> None:
    code = "import random; random.seed(1); state = random.getstate(); from progcl import fit, ProGCL, InfoNCE;"
    assert run_python(code + "print(random.getstate() == state)") == "True"


def test_large_tensors_ask_for_huge_pages_unless_the_user_says_otherwise() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("the system has no huge pages to ask for")
    code = (
        "import progcl, torch; tensor = torch.ones(2**24);"
        "print(any(' hg' in line for line in open('/proc/self/smaps') if line.startswith('VmFlags')))"
    )
    assert run_python(code) == "True"
    setting = "import os, progcl; print(os.environ['THP_MEM_ALLOC_ENABLE'])"
    assert [run_python(setting), run_python(setting, THP_MEM_ALLOC_ENABLE="0")] == ["1", "0"]


def test_public_names() -> None:
    import progcl

    for name in progcl.__all__:
        assert getattr(progcl, name).__module__.startswith("progcl."), name
    with pytest.raises(AttributeError, match="nonsense"):
        progcl.nonsense  # noqa: B018
