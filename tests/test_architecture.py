"""Imports go one way, and labels stay where they belong."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "progcl"

ORDER = [  # a module may import those before it
    "errors",
    "registry",
    "progress",
    "schema",
    "config",
    "hashing",
    "distributed",
    "estimators",
    "mixtures",
    "tiles",
    "kernels",
    "contrast",
    "miners.mixing",
    "miners.posterior",
    "miners.progcl",
    "miners.debiased",
    "miners.ring",
    "miners.mochi",
    "miners",
    "testing",
    "pygcl",
    "readers",
    "assembly",
    "files",
    "sampling",
    "graph",
    "intake",
    "data",
    "centrality",
    "diffusion",
    "encoders",
    "seeds",
    "batches",
    "hops",
    "lens",
    "augment",
    "methods.features",
    "methods.grace",
    "methods.merit",
    "methods",
    "probe",
    "curves",
    "figures",
    "checkpoint",
    "export",
    "folders",
    "training",
    "train",
    "compare",
    "report.charts",
    "report.pictures",
    "report.maps",
    "report.page",
    "report.runs",
    "report",
    "logs",
    "embed",
    "estimator",
    "benchmarks.measure",
    "benchmarks.dense",
    "benchmarks.loss",
    "benchmarks.epoch",
    "benchmarks.probe",
    "benchmarks.sampler",
    "cli",
]
MAY_TOUCH_LABELS = {"readers", "assembly", "files", "intake", "data", "probe", "curves", "figures"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    module_name(path): path
    for path in SOURCE.rglob("*.py")
    if path.parent.name in ("miners", "methods", "report") or not path.name.startswith("__")
}


def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports, at its top or inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("progcl"):
            home = node.module.removeprefix("progcl").lstrip(".")
            names |= {home} if home else {alias.name for alias in node.names}
    return names


def test_every_module_has_its_place() -> None:
    assert set(MODULES) == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_go_one_way(name: str) -> None:
    assert imported(MODULES[name]) <= set(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("name", sorted(set(ORDER) - MAY_TOUCH_LABELS))
def test_only_data_probe_and_figures_touch_labels(name: str) -> None:
    assert not re.search(r"""\.y\b|["']y["']|(train|val|test|stopping)_mask\b""", MODULES[name].read_text())


@pytest.mark.parametrize("name", MODULES)
def test_a_file_fits_one_sitting(name: str) -> None:
    assert len(MODULES[name].read_text().splitlines()) <= 400


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, progcl.cli; sys.exit('torch' in sys.modules)"
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
