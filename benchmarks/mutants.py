"""Mutation testing: small errors are made in the code one by one, and the tests have to notice each.

    python benchmarks/mutants.py [--minutes 20] [--seed 0] [--only losses] [--out results/mutants.jsonl]

Cosmic Ray makes the mutants (pip install 'progcl[mutants]'). Those of annotations and docstrings, which change nothing,
are left out. A random sample is tested in turn from every module until the time is over, in a copy of the checkout; a
process forked after the slow imports runs the tests of the module, then the others of its part, until one fails. With
--out, every result is written at once, and a later run goes on where this one ended. --own is faster and counts more
survivors; --again tests these with all tests of their part.
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
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from scipy.stats import binomtest
from tqdm import tqdm

ROOT = Path(__file__).parents[1]
TESTS = {  # of each part; the quick ones first
    "losses": ["tests/losses", "tests/miners/test_ring.py", "tests/miners/test_mochi.py"],
    "miners": ["tests/miners", "tests/losses/test_numerics.py", "tests/losses/test_tiles.py", "tests/config"],
    "posteriors": ["tests/posteriors", "tests/miners/test_base.py", "tests/miners/test_frozen.py"],
    "evaluation/probe.py": ["tests/evaluation/test_probe.py"],
    "evaluation/logistic.py": ["tests/evaluation/test_logistic.py", "tests/evaluation/test_probe.py"],
    "graph/sampler.py": [f"tests/graph/test_{name}.py" for name in ("sampler", "sampled", "weighted", "walks")],
}
SECONDS = 600  # after which a mutant's tests count as failed: it has made an endless loop


class Key(NamedTuple):
    """One change of one module, by which its result is found again as long as the line is the same."""

    module: str
    part: str
    operator: str
    diff: str


class Mutant(NamedTuple):
    """A change, and the whole mutated source."""

    key: Key
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
    parser.add_argument("--out", type=Path, help="JSON lines to continue, and to write results to")
    parser.add_argument("--again", action="store_true", help="test those again that survived, and no others")
    parser.add_argument("--own", action="store_true", help="run a module's own tests alone, without a check before")
    options = parser.parse_args()
    parts = [options.only] if options.only else list(TESTS)
    by_module = [places for part in parts for places in list_mutants(part, options.seed)]
    total = sum(map(len, by_module))
    results = load_results(options.out) if options.out else {}
    if options.again:
        by_module = [[place for place in places if may_survive(place, results)] for places in by_module]
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_checkout(Path(folder))
        import_slow_packages(copy)
        for part in [] if options.own else parts:
            if run_tests(copy, TESTS[part]) != "survived":
                sys.exit(f"the tests of {part} fail, or take too long, without any mutant")
        deadline = time.monotonic() + 60 * options.minutes
        for place in tqdm(take_turns(by_module), total=sum(map(len, by_module)), unit="place"):
            if time.monotonic() > deadline:
                break
            mutant = make_mutant(place)
            if mutant is None or (results.get(mutant.key) != "survived" if options.again else mutant.key in results):
                continue
            results[mutant.key] = test(copy, mutant, options.own)
            if options.out:
                append_result(options.out, mutant, results[mutant.key])
    report(results, total)


def load_results(path: Path) -> dict[Key, str]:
    """Outcomes of mutants that were tested before and can still be made; the last one of each counts."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    results = {
        Key(row["module"], row["part"], row["operator"], drop_place(row["diff"])): row["outcome"] for row in rows
    }
    return {key: outcome for key, outcome in results.items() if is_present(key)}


def drop_place(diff: str) -> str:
    """A diff without the numbers of its lines, which change with every line above."""
    return "\n".join(line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@")))


def is_present(key: Key) -> bool:
    """Whether the module still has the lines that a mutant changes; of others a result says nothing."""
    changed = {line[1:] for line in key.diff.splitlines() if line.startswith("-")}
    return changed <= set((ROOT / key.module).read_text().splitlines())


def append_result(path: Path, mutant: Mutant, outcome: str) -> None:
    """Add a line."""
    with path.open("a") as file:
        file.write(json.dumps({**mutant.key._asdict(), "outcome": outcome}) + "\n")


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


def may_survive(place: Place, results: dict[Key, str]) -> bool:
    """Whether a survivor was made in the module of a place by its operator; to make the mutant takes longer."""
    made = (str(place.module.relative_to(ROOT)), place.operator.removeprefix("core/"))
    return made in {(key.module, key.operator) for key, outcome in results.items() if outcome == "survived"}


def make_mutant(place: Place) -> Mutant | None:
    """The mutant of a place; None if it does what the original does."""
    source = place.module.read_text()
    code = mutate_code(source, get_operator(place.operator)(), place.occurrence)
    if code is None or normal_form(code) == normal_form(source):
        return None
    lines = difflib.unified_diff(source.splitlines(), code.splitlines(), lineterm="", n=0)
    diff = drop_place("\n".join(lines))
    module, operator = str(place.module.relative_to(ROOT)), place.operator.removeprefix("core/")
    return Mutant(Key(module, place.part, operator, diff), code)


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


def test(copy: Path, mutant: Mutant, own_only: bool) -> str:
    """`killed`, `timeout` or `survived`: by the tests of the module, then by all of its part."""
    path = copy / mutant.key.module
    original = path.read_text()
    path.write_text(mutant.code)
    own = f"tests/{path.parent.name}/test_{path.name}"
    has_own = (copy / own).exists()
    try:
        outcome = run_tests(copy, [own]) if has_own else "survived"
        return outcome if outcome != "survived" or (own_only and has_own) else run_tests(copy, TESTS[mutant.key.part])
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


def report(results: dict[Key, str], total: int) -> None:
    """The mutants that survived, and a table of the parts with 95 % intervals of the share that tests notice."""
    for key, outcome in results.items():
        if outcome == "survived":
            print(f"survived: {key.module} {key.operator}\n{key.diff}\n")
    counts = Counter((part, outcome) for key, outcome in results.items() for part in (key.part, "all"))
    print("| part | tested | noticed | survived | % noticed | 95 % interval |\n|---|---|---|---|---|---|")
    for part in [*TESTS, "all"]:
        survived = counts[part, "survived"]
        noticed = counts[part, "killed"] + counts[part, "timeout"]
        if noticed + survived:
            share = binomtest(noticed, noticed + survived)
            low, high = (f"{100 * bound:.1f}" for bound in share.proportion_ci(method="wilson"))
            row = (part, noticed + survived, noticed, survived, f"{100 * share.statistic:.1f}", f"{low} to {high}")
            print(f"| {' | '.join(map(str, row))} |")
    print(f"\n{len(results)} mutants were tested; with those that change nothing there are {total:,}")


if __name__ == "__main__":
    main()
