"""Every code block of the documentation runs, every name in it exists, and it builds without a warning."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

import progcl
from progcl.data.datasets import PUBLISHED
from progcl.data.synthetic import csbm
from support.blocks import NOT_RUN, PAGES, README, ROOT, Reader, blocks_of, check_options, commands_of
from support.shared import copied

pytestmark = pytest.mark.docs
EQUATIONS = ROOT / "docs" / "equations.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def features_in_files() -> None:
    data = csbm(nodes=300)
    np.save("x.npy", data.x.numpy())
    np.save("edges.npy", data.edge_index.numpy())


def examples() -> None:
    shutil.copytree(ROOT / "examples", "examples")


BESIDE = {"large": features_in_files, "methods": examples, "miner": examples}  # what a page's reader has in the folder


@pytest.mark.docs(seconds=4)
@pytest.mark.filterwarnings("ignore:no mixture fitted")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    BESIDE.get(page.stem, lambda: None)()
    words = {word.removesuffix("-fast") for command in run_by_progcl(page) for word in command}
    for name in words & set(PUBLISHED):
        monkeypatch.setenv("PROGCL_DATA", str(copied(name, tmp_path / "data")))
    Reader(monkeypatch).read(page)


def run_by_progcl(page: Path) -> list[list[str]]:
    return [shlex.split(command)[1:] for command in commands_of(page) if command.startswith("progcl ")]


def test_what_is_not_run_is_shown_somewhere() -> None:
    programs = {command.split()[0] for page in (README, *PAGES) for command in commands_of(page)}
    assert programs == {"progcl", *NOT_RUN}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```rust\nfn main() {}\n```\n", "no way to run `rust`"),
        ("```\nprogcl train digits\n```\n", "a fence without language"),
        ("```console\nprogcl train digits\n```\n", "output alone is `text`"),
        ("```text\n$ progcl train digits\n```\n", "commands are `console`"),
        ("```console\n$ rm -r runs\n```\n", "rm -r runs"),
        ('```python\nassert 1 + 1 == 3, "wrong"\n```\n', "wrong"),
    ],
)
def test_no_block_is_skipped(text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        Reader(monkeypatch).read(page)


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_commands_within_sentences_are_known(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = re.findall(r"`([^`\n]+)`", outside_of_blocks(page))
    for span in spans:
        if re.match(r"progcl [a-z]+ ", span):
            check_options(shlex.split(span)[1:], monkeypatch)
        elif re.match(r"--\w+\.\w+ \S+$", span):
            check_options(["train", "digits", *shlex.split(example(span))], monkeypatch)


def example(span: str) -> str:
    """A value for the place that a sentence leaves open."""
    return span.replace("NAME", "gaussian")


@pytest.mark.parametrize("page", [README, CONTRIBUTING, *PAGES], ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"\b(?:benchmarks|results|examples|src|tests|docs)/[\w/-]+\.\w+", outside_of_blocks(page)):
        assert (ROOT / name).exists(), name


def outside_of_blocks(page: Path) -> str:
    text = page.read_text()
    for block in blocks_of(page):
        text = text.replace(block.text, "")
    return text


def rows() -> list[list[str]]:
    """The table of equations, without its head."""
    lines = [line for line in EQUATIONS.read_text().splitlines() if line.startswith("| ")][1:]
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_equation_has_its_row() -> None:
    numbers: set[int] = set()
    for row in rows():
        for named in re.findall(r"\*\*Eq\. (.*?)\*\*", row[0]):
            for first, last in re.findall(r"(\d+)(?:-(\d+))?", named):
                numbers |= set(range(int(first), int(last or first) + 1))
    assert numbers == set(range(1, 19))


def test_functions_of_the_table_exist() -> None:
    for row in rows():
        assert code(row[1]), row
        for name in code(row[1]):
            assert resolve_name(f"progcl.{name}"), name


def test_tests_of_the_table_exist() -> None:
    for row in rows():
        assert code(row[2]), row
        for name in code(row[2]):
            module, function = name.split("::")
            tree = ast.parse((ROOT / "tests" / module).read_text())
            assert function in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], name


@pytest.mark.docs(seconds=10)
def test_the_documentation_builds_without_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "trees")]
    built = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "api.html").read_text()
    for name in progcl.__all__:
        assert f'id="{getattr(progcl, name).__module__}.{name}"' in page, name


@pytest.mark.parametrize(
    ("script", "rows"),
    [
        *(("embed_table", 20), ("links", 5), ("method_memory", 10)),
        *(("alternatives", 30), ("choice", 20), ("signals", 10)),
    ],
)
def test_tables_of_benchmarks_are_those_of_their_ledgers(script: str, rows: int) -> None:
    """`python benchmarks/embed_table.py --table` prints what the documentation shows."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--table"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    shown = "".join(page.read_text() for page in PAGES)
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    assert len(lines) > rows
    for line in lines:
        assert line in shown, line
