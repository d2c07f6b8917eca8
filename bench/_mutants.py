"""The mutants of `mutation.py`: how they are drawn, and found again in another commit."""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import json
import math
import random
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path("src/tarmac")
# Mutants that mean the same for almost all operands, or need arguments.
SKIPPED = re.compile(
    r"_(Eq_Is|Is_Eq|NotEq_IsNot|IsNot_NotEq)$|^(RemoveDecorator|VariableReplacer|VariableInserter)"
)
MUTABLE = {
    *("number", "operator", "keyword", "comparison", "factor", "not_test", "test"),
    *("if_stmt", "while_stmt", "for_stmt", "assert_stmt", "except_clause"),
}
# Function, operator, lines before and after, and which of those in the function.
Change = tuple[str, str, str, str, int]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of some lines of a function.

    Attributes:
        number: Its place in the sample, from 0.
        file: Relative to the tree.
        first: The first changed line, from 1.
        before: The lines that are replaced.
        after: The lines that replace them.
        nth: Which of the places in the function that have these lines, from 0.
        twin: Its number in the sample that this one repeats, or None.
    """

    number: int
    room: str
    file: str
    function: str
    operator: str
    first: int
    before: list[str]
    after: list[str]
    nth: int
    twin: int | None = None

    @property
    def change(self) -> Change:
        """What it does to which function, in any commit."""
        return self.function, self.operator, "\n".join(self.before), "\n".join(self.after), self.nth

    def apply(self, source: str) -> str:
        """Return the mutated source."""
        lines = source.split("\n")
        place = slice(self.first - 1, self.first - 1 + len(self.before))
        if lines[place] != self.before:
            raise ValueError(f"{self.file}:{self.first} differs from the sample")
        lines[place] = self.after
        return "\n".join(lines)


class Source:
    """A module: its lines in functions, and its mutants."""

    def __init__(self, tree: Path, file: str) -> None:
        self.file, self.text = file, (tree / file).read_text()
        self.lines = self.text.split("\n")
        self.module = ast.parse(self.text)
        inner = Path(file).relative_to(PACKAGE)
        self.room = inner.parts[0] if len(inner.parts) > 1 else "(top)"
        # The function of each line of code, and where annotations are.
        self.functions: dict[int, str] = {}
        self.annotations: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._enter(self.module, ())
        for node in ast.walk(self.module):
            for field in ("annotation", "returns"):
                if isinstance(part := getattr(node, field, None), ast.expr):
                    start, end = (
                        (part.lineno, part.col_offset),
                        (part.end_lineno, part.end_col_offset),
                    )
                    self.annotations.append((start, end))

    def _enter(self, node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*names, child.name)
                if not isinstance(child, ast.ClassDef):
                    self._mark(child, ".".join(inner))
            self._enter(child, inner)

    def _mark(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        body = function.body[1:] if ast.get_docstring(function) else function.body
        is_compiled = any("jit" in ast.unparse(made) for made in function.decorator_list)
        for line in range(function.body[0].lineno, function.end_lineno + 1):
            self.functions.pop(line, None)
            if body and line >= body[0].lineno and not is_compiled and self.lines[line - 1].strip():
                self.functions[line] = name

    def places(self, function: str, block: list[str]) -> list[int]:
        """Return the first lines of all places in a function that have some lines."""
        return [
            line
            for line, name in sorted(self.functions.items())
            if name == function and self.lines[line - 1 : line - 1 + len(block)] == block
        ]

    def statement(self, line: int) -> int:
        """Return the first line of the innermost statement before which a probe can be."""
        best = 0
        for node in ast.walk(self.module):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                for child in block if isinstance(block, list) else ():
                    first = min([child.lineno, *(d.lineno for d in _decorators(child))])
                    text = self.lines[first - 1].strip()
                    is_own = not self.lines[first - 1][: child.col_offset].strip()
                    if (
                        first <= line <= child.end_lineno
                        and is_own
                        and not text.startswith("elif ")
                    ):
                        best = max(best, first)
        return best

    def is_cached(self, function: str) -> bool:
        """Return whether the function keeps what it returned for later tests."""
        name = function.rpartition(".")[2]
        return any(
            "cache" in ast.unparse(made)
            for node in ast.walk(self.module)
            if getattr(node, "name", None) == name
            for made in _decorators(node)
        )

    @functools.cached_property
    def mutations(self) -> dict[int, list[tuple[str, int]]]:
        """Cosmic Ray's operators by line, each with its occurrence in the file."""
        from cosmic_ray.ast import ast_nodes, get_ast

        by_line, seen = collections.defaultdict(list), collections.Counter()
        for node in ast_nodes(get_ast(self.text)):
            if node.type not in MUTABLE:
                continue
            for name, operator in operators().items():
                for start, _ in operator.mutation_positions(node):
                    if start[0] in self.functions and not self._is_annotation(start):
                        by_line[start[0]].append((name, seen[name]))
                    seen[name] += 1
        return by_line

    def _is_annotation(self, position: tuple[int, int]) -> bool:
        return any(start <= position < end for start, end in self.annotations)

    def draw(self, line: int, number: int, random_: random.Random) -> Mutant | None:
        """Return a mutant of a line, each kind of operator as likely as the others."""
        from cosmic_ray.mutating import mutate_code

        kinds = collections.defaultdict(list)
        for name, occurrence in self.mutations.get(line, ()):
            kinds[name.split("_")[0]].append((name, occurrence))
        if not kinds:
            return None
        name, occurrence = random_.choice(kinds[random_.choice(sorted(kinds))])
        try:
            mutated = mutate_code(self.text, operators()[name], occurrence)
            is_same = ast.dump(ast.parse(mutated)) == ast.dump(self.module)
        except (AttributeError, SyntaxError):
            # Cosmic Ray 8.7 cannot replace an exception of a dotted name.
            return None
        if is_same:
            return None
        old, new = self.lines, mutated.split("\n")
        start = next(i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
        end = next(i for i, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b)
        before, after = old[start : len(old) - end], new[start : len(new) - end]
        function = self.functions[line]
        places = self.places(function, before)
        if start + 1 not in places:
            return None
        nth = places.index(start + 1)
        return Mutant(number, self.room, self.file, function, name, start + 1, before, after, nth)


def _decorators(node: ast.AST) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


@functools.cache
def operators() -> dict[str, Any]:
    """Return Cosmic Ray's operators by name."""
    from cosmic_ray.operators.provider import OperatorProvider

    provider = OperatorProvider()
    return {name: provider[name]() for name in provider if not SKIPPED.search(name)}


def write_sample(
    tree: Path,
    work: Path,
    *,
    count: int,
    seed: int,
    rooms: list[str] | None = None,
    like: Path | None = None,
) -> str:
    """Draw mutants, write ``sample.json``, and return how many there are.

    Args:
        tree: A checkout.
        work: The folder to write to.
        count: Mutants, divided over the rooms by their lines in functions.
        seed: Seed of the draw of mutants.
        rooms: Names of folders of the package; ``(top)`` are the modules beside them. Default all.
        like: The folder of a sample to repeat where function and lines are still there.
    """
    files = sorted(str(path.relative_to(tree)) for path in (tree / PACKAGE).rglob("*.py"))
    sources = [Source(tree, file) for file in files]
    if rooms:
        sources = [source for source in sources if source.room in rooms]
    random_ = random.Random(seed)
    kept = list(counterparts(like, sources)) if like else []
    taken = {(mutant.file, mutant.first) for mutant in kept}
    sizes = collections.Counter(source.room for source in sources for _ in source.functions)
    had = collections.Counter(mutant.room for mutant in kept)
    mutants = [*kept]
    for room, quota in shares(sizes, count).items():
        lines = [(s, line) for s in sources if s.room == room for line in s.functions]
        random_.shuffle(lines)
        wanted = max(0, quota - had[room])
        for source, line in lines if wanted else ():
            made = source.draw(line, 0, random_)
            if made and (made.file, made.first) not in taken:
                taken.add((made.file, made.first))
                mutants.append(made)
                wanted -= 1
                if not wanted:
                    break
    random_.shuffle(mutants)
    numbered = [dataclasses.replace(mutant, number=k) for k, mutant in enumerate(mutants)]
    data = {
        "commit": commit_of(tree),
        "seed": seed,
        "sizes": sizes,
        "mutants": [dataclasses.asdict(mutant) for mutant in numbered],
    }
    work.mkdir(parents=True, exist_ok=True)
    (work / "sample.json").write_text(json.dumps(data, indent=1))
    paired = f", {len(kept)} of them as in {like}" if like else ""
    return f"{len(mutants)} mutants in {len(sizes)} rooms{paired}"


def counterparts(like: Path, sources: list[Source]) -> Iterator[Mutant]:
    """Yield the mutants of another sample whose function and lines are here, in any one file."""
    by_file = {source.file: source for source in sources}
    for mutant in read_sample(like)[1]:
        own = [by_file[mutant.file]] if mutant.file in by_file else []
        fits = [s for s in own if len(s.places(mutant.function, mutant.before)) > mutant.nth]
        if not fits:
            fits = [
                s for s in sources if len(s.places(mutant.function, mutant.before)) > mutant.nth
            ]
        if len(fits) == 1:
            source = fits[0]
            first = source.places(mutant.function, mutant.before)[mutant.nth]
            yield dataclasses.replace(
                mutant, room=source.room, file=source.file, first=first, twin=mutant.number
            )


def shares(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Divide a total by size, at least one for each, by largest remainders."""
    exact = {name: total * size / sum(sizes.values()) for name, size in sizes.items()}
    parts = {name: max(1, math.floor(share)) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: parts[name] - exact[name])
    for name in rest[: max(0, total - sum(parts.values()))]:
        parts[name] += 1
    return parts


def read_sample(work: Path) -> tuple[dict[str, Any], list[Mutant]]:
    """Return a sample's facts and its mutants."""
    data = json.loads((work / "sample.json").read_text())
    return data, [Mutant(**mutant) for mutant in data["mutants"]]


def commit_of(tree: Path) -> str:
    """Return the commit that is checked out."""
    command = ["git", "-C", tree, "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
