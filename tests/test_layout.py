"""Imports go one way, and labels stay where they belong."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "progcl"

LAYERS = [  # a package or module may import those before it, and itself
    *("errors", "registry", "progress", "seeding", "distributed"),
    *("config", "data", "graph", "nn", "posteriors", "miners", "losses", "testing", "pygcl", "methods", "training"),
    *("export", "evaluation", "report", "run", "experiments", "embed", "sklearn", "bench", "cli"),
    *("__main__", "__init__"),
]
MAY_TOUCH_LABELS = {"data", "evaluation", "report", "methods/supervised.py", "posteriors/baselines.py", "sklearn.py"}
FILES = sorted(SOURCE.rglob("*.py"))


def layer(dotted: str) -> int:
    return LAYERS.index(dotted.removeprefix("progcl").lstrip(".").split(".")[0] or "__init__")


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


def test_a_file_fits_one_sitting() -> None:
    for path in [*FILES, *Path(__file__).parent.rglob("*.py")]:
        assert len(path.read_text().splitlines()) <= (350 if path in FILES else 420), path


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, progcl.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE.parent)}).returncode == 0


@pytest.mark.parametrize("wish", [None, "0"])
def test_large_tensors_ask_for_huge_pages_unless_the_user_says_otherwise(wish: str | None) -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("the system has no huge pages to ask for")
    code = (
        "import progcl, torch; kept = torch.ones(2**24);"
        "print(any(' hg' in line for line in open('/proc/self/smaps') if line.startswith('VmFlags')))"
    )
    environment = {"PYTHONPATH": str(SOURCE.parent)} | ({"THP_MEM_ALLOC_ENABLE": wish} if wish else {})
    out = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert out.stdout.strip() == str(wish is None)


def test_public_names() -> None:
    import progcl

    for name in progcl.__all__:
        assert getattr(progcl, name).__module__.startswith("progcl."), name
    with pytest.raises(AttributeError, match="nonsense"):
        progcl.nonsense  # noqa: B018
