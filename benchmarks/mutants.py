"""Mutation testing: small errors are made in the code one by one, and the tests have to notice each.

    python benchmarks/mutants.py [--minutes 20] [--seed 0] [--only losses] [--out results/mutants.json]

Cosmic Ray makes the mutants (pip install 'progcl[mutants]'). Those of annotations and docstrings, which change nothing,
are left out. A random sample is tested in turn from every module until the time is over, in a copy of the checkout; a
process forked after the slow imports runs the tests of the module, then the others of its part, until one fails.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from tqdm import tqdm

ROOT = Path(__file__).parents[1]
TESTS = {  # of each part; the quick ones first
    "losses": ["tests/losses", "tests/miners/test_ring.py", "tests/miners/test_mochi.py"],
    "miners": ["tests/miners", "tests/losses/test_numerics.py", "tests/losses/test_tiles.py", "tests/config"],
    "posteriors": ["tests/posteriors", "tests/miners/test_base.py", "tests/miners/test_frozen.py"],
    "evaluation/probe.py": ["tests/evaluation/test_probe.py"],
    "graph/sampler.py": ["tests/graph/test_sampler.py", "tests/graph/test_sampled.py", "tests/graph/test_walks.py"],
}
SECONDS = 600  # after which a mutant's tests count as failed: it has made an endless loop


@dataclass(frozen=True)
class Mutant:
    """One change of one module; `code` is the whole mutated source."""

    module: str
    part: str
    operator: str
    diff: str
    code: str


class Place(NamedTuple):
    """Where a mutant can be made: Cosmic Ray's operator, and which of the places that it applies to."""

    module: Path
    part: str
    operator: str
    occurrence: int


def main() -> None:
    """Test mutants until the time is over, and print how many were noticed and which were not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", choices=TESTS, help="one part")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    parts = [options.only] if options.only else list(TESTS)
    by_module = [places for part in parts for places in list_mutants(part, options.seed)]
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_checkout(Path(folder))
        import_slow_packages(copy)
        for part in parts:
            if run_tests(copy, TESTS[part]) != "survived":
                sys.exit(f"the tests of {part} fail, or take too long, without any mutant")
        results: list[tuple[Mutant, str]] = []
        for place in tqdm(take_turns(by_module), total=sum(map(len, by_module)), unit="place"):
            if time.monotonic() > deadline:
                break
            mutant = make_mutant(place)
            if mutant is not None:
                results.append((mutant, test(copy, mutant)))
    report(results, sum(map(len, by_module)))
    if options.out:
        rows = [{"outcome": outcome, **asdict(mutant), "code": None} for mutant, outcome in results]
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


def list_mutants(part: str, seed: int) -> list[list[Place]]:
    """Where mutants of every module of a part can be made, in random order."""
    path = ROOT / "src" / "progcl" / part
    modules = [path] if path.suffix else sorted(path.glob("*.py"))
    places = [[Place(module, part, *each) for each in find_places(module)] for module in modules]
    for number, each in enumerate(places):
        random.Random(f"{seed}:{part}:{number}").shuffle(each)
    return places


def find_places(module: Path) -> Iterator[tuple[str, int]]:
    """Every operator, and how often it applies."""
    tree = get_ast(module.read_text())
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if not kind.arguments():  # others need the name of a variable
            occurrences = sum(len(list(kind().mutation_positions(node))) for node in ast_nodes(tree))
            yield from ((name, occurrence) for occurrence in range(occurrences))


def make_mutant(place: Place) -> Mutant | None:
    """The mutant of a place; None if it does what the original does."""
    source = place.module.read_text()
    code = mutate_code(source, get_operator(place.operator)(), place.occurrence)
    if code is None or normal_form(code) == normal_form(source):
        return None
    lines = difflib.unified_diff(source.splitlines(), code.splitlines(), lineterm="", n=0)
    diff = "\n".join(line for line in lines if not line.startswith(("---", "+++")))
    return Mutant(str(place.module.relative_to(ROOT)), place.part, place.operator.removeprefix("core/"), diff, code)


def normal_form(source: str) -> str:
    """The syntax tree without annotations and docstrings, which are never evaluated; empty if there is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.arg)):
            setattr(node, "returns" if isinstance(node, ast.FunctionDef) else "annotation", None)
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree)


def take_turns(by_module: list[list[Place]]) -> Iterator[Place]:
    """One place of every module in turn."""
    return (place for place in chain.from_iterable(zip_longest(*by_module)) if place is not None)


def copy_checkout(folder: Path) -> Path:
    """What the tests need, in a folder."""
    for name in ("src", "tests", "examples", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def import_slow_packages(copy: Path) -> None:
    """Once, for all processes that are forked later; the package itself is not among them."""
    sys.path[:0] = [str(copy / "src"), str(copy / "tests")]
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = f"{copy / 'src'}:{copy / 'tests'}"
    for name in ("torch", "torch_geometric.data", "torch_geometric.nn", "sklearn.mixture", "scipy.stats", "pytest"):
        __import__(name)
    assert not any(name.startswith("progcl") for name in sys.modules)


def test(copy: Path, mutant: Mutant) -> str:
    """`killed`, `timeout` or `survived`."""
    path = copy / mutant.module
    original = path.read_text()
    path.write_text(mutant.code)
    own = f"tests/{Path(mutant.module).parent.name}/test_{path.name}"
    try:
        outcome = run_tests(copy, [own]) if (copy / own).exists() else "survived"
        return run_tests(copy, TESTS[mutant.part]) if outcome == "survived" else outcome
    finally:
        path.write_text(original)


def run_tests(copy: Path, tests: list[str]) -> str:
    """The outcome of tests in a forked process."""
    process = os.fork()
    if process == 0:
        os.setsid()  # so that a timeout ends its children, too
        os.chdir(copy)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        import pytest

        marked = "not (docs or browser or kill or processes or large)"
        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-m", marked, *tests])) != 0)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return "killed" if status else "survived"
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "timeout"


def report(results: list[tuple[Mutant, str]], total: int) -> None:
    """A table of the parts, and the mutants that survived."""
    for mutant, outcome in results:
        if outcome == "survived":
            print(f"survived: {mutant.module} {mutant.operator}\n{mutant.diff}\n")
    counts = Counter((mutant.part, outcome) for mutant, outcome in results)
    print("| part | tested | killed | by timeout | survived | % killed |\n|---|---|---|---|---|---|")
    for part in [*TESTS, "all"]:
        row = {
            kind: sum(number for (name, outcome), number in counts.items() if outcome == kind and part in (name, "all"))
            for kind in ("killed", "timeout", "survived")
        }
        tested = sum(row.values())
        if tested:
            share = 100 * (tested - row["survived"]) / tested
            cells = (part, tested, row["killed"], row["timeout"], row["survived"], f"{share:.1f}")
            print("| " + " | ".join(map(str, cells)) + " |")
    print(f"\n{len(results)} mutants were tested; with those that change nothing there are {total:,}")


if __name__ == "__main__":
    main()
