"""How many changed operators, numbers and branches the tests notice, by mutation with Cosmic Ray.

    /tmp/mutation/bin/python bench/mutation.py sample --tree OLD --work W1 --mutants 440
    python bench/mutation.py map --tree OLD --work W1 --marker "not nightly"
    python bench/mutation.py run --tree OLD --work W1
    python bench/mutation.py sample --tree NEW --work W2 --like W1; ... map and run of W2
    python bench/mutation.py report --work W2 --before W1 --write

Cosmic Ray makes the mutants; ``sample`` alone needs it. Lines are drawn by seed, from each room by
its size, in bodies of functions, without annotations and what Triton compiles; one mutant a line.
``--like`` takes the same mutants where function and line are still there, and draws for the others.

``map`` runs the suite once with a probe before each of these statements, in child processes too: so
each mutant has its touching tests and their seconds. ``run`` runs these on each mutant until one
fails: those of the room first, the quick first, up to ``--max-tests`` and ``--max-s``, with
`pytest -x` in a copy of the tree's commit. Tests that fail without mutants never count: a slow test
that fails has to pass again without the mutant. All of it goes on where it was stopped; with larger
limits, ``run`` continues with survivors. ``run --killers W`` saves most of the time at a later
commit: what killed the same change in W runs first. Copies, map and one line per mutant are in
``--work``.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import fcntl
import json
import math
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from _harness import table, write_results
from _mutants import Change, Mutant, Source, read_sample, write_sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PEERS = Path(__file__).parent / "peers"
# A statement that needs nothing but builtins, and does nothing where the file is not: interpreters
# without site packages run such lines, and containers.
PROBE = (
    '__import__("builtins").__dict__.get("mutation_hit", lambda site: exec(open({file!r}).read(),'
    ' {{"SITE": site, "PLACE": {place!r}}}) if __import__("os").path.exists({file!r}) else None)'
    "({number})"
)
# A test that takes longer is one of processes and waits: its failure is checked without the mutant.
QUICK_S = 1.0
KILLED = ("killed", "timeout")


def sample(args: argparse.Namespace) -> None:
    """Draw mutants, and write ``sample.json``."""
    tree = args.tree.resolve()
    options = {"count": args.mutants, "seed": args.seed, "rooms": args.rooms, "like": args.like}
    print(write_sample(tree, args.work, **options))


def prepare(tree: Path, copy: Path, commit: str) -> None:
    """Clone a tree, with an environment of its own, as hard links where it can."""
    mark = copy.with_suffix(".ready")
    if mark.exists() and mark.read_text() == commit:
        subprocess.run(["git", "-C", copy, "checkout", "-q", "--force", commit], check=True)
        return
    shutil.rmtree(copy, ignore_errors=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "-q", tree, copy], check=True)
    subprocess.run(["git", "-C", copy, "checkout", "-q", "--detach", commit], check=True)
    # Tests read samples there.
    shared, link = tree.parent / "shared", copy.parent / "shared"
    if shared.exists() and not link.exists():
        link.symlink_to(shared.resolve())
    links = subprocess.run(["cp", "-al", tree / ".venv", copy / ".venv"], check=False)
    if links.returncode != 0:
        shutil.rmtree(copy / ".venv", ignore_errors=True)
        subprocess.run(["cp", "-a", tree / ".venv", copy / ".venv"], check=True)
    packages = packages_of(copy)
    named = [*(copy / ".venv/bin").iterdir(), copy / ".venv/pyvenv.cfg", *packages.glob("*.pth")]
    for path in named:
        content = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
        if str(tree).encode() in content:
            mode = path.stat().st_mode
            # The file may be another environment's too.
            path.unlink()
            path.write_bytes(content.replace(str(tree).encode(), str(copy).encode()))
            path.chmod(mode)
    mark.write_text(commit)


def packages_of(copy: Path) -> Path:
    """Return the folder of a copy's packages."""
    return next((copy / ".venv/lib").glob("python*/site-packages"))


def pytest_in(copy: Path, options: Iterable[str], **variables: str) -> subprocess.Popen[bytes]:
    """Start pytest in a copy, with a log beside it."""
    shutil.copy(PEERS / "mutation_tests.py", packages_of(copy))
    programs = copy / ".venv/bin"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with copy.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            [programs / "python", "-m", "pytest", "-p", "mutation_tests", *options],
            cwd=copy,
            env=environment
            | {"PATH": f"{programs}:{os.environ['PATH']}"}
            | {"MUTATION_WORK": str(copy.parents[1]), **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def map_tests(args: argparse.Namespace) -> None:
    """Run the suite once with probes; write ``tests.jsonl`` and ``hits.txt``."""
    facts, mutants = read_sample(args.work)
    work, tree = args.work.resolve(), args.tree.resolve()
    copy = work / "trees" / "map"
    prepare(tree, copy, facts["commit"])
    hits = Path(shutil.copy(PEERS / "mutation_hits.py", work))
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    for file, there in by_file.items():
        source = Source(copy, file)
        probes = [(source.statement(mutant.first), mutant.number) for mutant in there]
        for line, number in sorted(probes, reverse=True):
            indent = re.match(" *", source.lines[line - 1])[0]
            probe = PROBE.format(number=number, file=str(hits), place=str(work))
            source.lines.insert(line - 1, indent + probe)
        text = "\n".join(source.lines)
        ast.parse(text)
        (copy / file).write_text(text)
    (work / "current").mkdir(exist_ok=True)
    for name in ("hits.txt", "tests.jsonl"):
        # Tests become another user.
        (work / name).touch()
        (work / name).chmod(0o666)
    done = [test["test"] for test in read_lines(work / "tests.jsonl") if "test" in test]
    (work / "done.txt").write_text("\n".join(done))
    options = ["-m", args.marker, "-n", str(args.jobs), "-p", "no:cacheprovider", *args.tests]
    started = time.monotonic()
    process = pytest_in(copy, options, MUTATION_MAP=str(work))
    try:
        process.wait()
    finally:
        end(process, f"MUTATION_MAP={work}")
    tests = [test for test in read_lines(work / "tests.jsonl") if "test" in test]
    failed = sum(test["outcome"] == "failed" for test in tests)
    print(f"{len(tests)} tests, {failed} failed; {(time.monotonic() - started) / 60:.1f} min")
    print(f"the suite's words are in {copy.with_suffix('.log')}")


def lock(work: Path) -> TextIO:
    """Take a measurement's folder for as long as the file that this returns is open."""
    file = (work / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"{work} is being measured by another process") from None
    return file


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines; the last may have been cut off."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return records


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a run's processes: its group, and all others that have its mark."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill all processes that have a variable with this value in their environment."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                os.kill(int(path.name), signal.SIGKILL)


class Map:
    """Which tests touch which mutant, and what they take."""

    def __init__(self, work: Path) -> None:
        records = read_lines(work / "tests.jsonl")
        self.tests = {r["test"]: r for r in records if r.get("outcome") == "passed"}
        self.seconds = {record["number"]: record["seconds"] for record in records}
        users = collections.defaultdict(set)
        for test in self.tests.values():
            for number in (test["number"], *test["fixtures"]):
                users[number].add(test["test"])
        self.touching = collections.defaultdict(set)
        self.imported = set()
        for line in (work / "hits.txt").read_text().splitlines():
            test, site, is_import = map(int, line.split())
            self.touching[site] |= users[test]
            if is_import:
                self.imported.add(site)

    def select(
        self, mutant: Mutant, *, is_cached: bool, max_tests: int, max_s: float, killer: str = ""
    ) -> tuple[list[str], int]:
        """Return the tests to run on a mutant, in order, and how many touch it.

        The killer of the same mutant in another measurement comes first, if it touches this one.
        Of what runs while a module is imported, or is cached, the first test alone shows in the
        map: tests of the room count as touching it too.
        """
        touching = set(self.touching[mutant.number])
        folder = f"tests/{mutant.room}/"
        if touching and (is_cached or mutant.number in self.imported):
            touching |= {test for test in self.tests if test.startswith(folder)}
        chosen, fixtures, total = [], set(), 0.0
        for test in sorted(
            touching,
            key=lambda t: (t != killer, not t.startswith(folder), self.tests[t]["seconds"], t),
        ):
            new = set(self.tests[test]["fixtures"]) - fixtures
            cost = self.tests[test]["seconds"] + sum(self.seconds[number] for number in new)
            if len(chosen) < max_tests and (not chosen or total + cost <= max_s):
                chosen.append(test)
                fixtures |= new
                total += cost
        return chosen, len(touching)


def read_killers(work: Path) -> dict[Change, str]:
    """Return which test killed each change of another measurement."""
    killers = {r["number"]: r["by"] for r in read_lines(work / "results.jsonl") if r.get("by")}
    return {m.change: killers[m.number] for m in read_sample(work)[1] if m.number in killers}


class Runner:
    """Runs tests on mutants, in copies of the tree."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.work = args, args.work.resolve()
        facts, self.mutants = read_sample(self.work)
        self.map = Map(self.work)
        self.results = self.work / "results.jsonl"
        self.killers = read_killers(args.killers) if args.killers else {}
        self.copies: queue.Queue[Path] = queue.Queue()
        self.lock = threading.Lock()
        for number in range(args.jobs):
            copy = self.work / "trees" / f"run-{number}"
            prepare(args.tree.resolve(), copy, facts["commit"])
            self.copies.put(copy)

    def run(self) -> None:
        """Run all that have no result, or survived under smaller limits."""
        last = {record["number"]: record for record in read_lines(self.results)}
        with ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(lambda mutant: self.measure(mutant, last), self.mutants))

    def measure(self, mutant: Mutant, last: dict[int, dict[str, Any]]) -> None:
        """Run a mutant's tests, and append its result."""
        before = last.get(mutant.number, {})
        if before and before["status"] != "survived":
            return
        copy = self.copies.get()
        try:
            tests, touching = self.map.select(
                mutant,
                is_cached=Source(copy, mutant.file).is_cached(mutant.function),
                max_tests=self.args.max_tests,
                max_s=self.args.max_s,
                killer=self.killers.get(mutant.change, ""),
            )
            earlier = before.get("ran", [])
            tests = [test for test in tests if test not in earlier]
            if before and not tests:
                return
            started = time.monotonic()
            outcome = self.outcome(copy, mutant, tests) if tests else {"status": "untouched"}
            record = {
                "number": mutant.number,
                "where": f"{mutant.file}:{mutant.first}",
                **outcome,
                "seconds": round(time.monotonic() - started, 1),
                "touching": touching,
                "ran": earlier + tests,
            }
            with self.lock, self.results.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{record['status']:9} {record['where']} {record['seconds']} s", flush=True)
        finally:
            self.copies.put(copy)

    def outcome(self, copy: Path, mutant: Mutant, tests: list[str]) -> dict[str, Any]:
        """Return how tests ended on a mutant, and which failed."""
        path, unreliable = copy / mutant.file, []
        source, stat = path.read_text(), path.stat()
        mutated = mutant.apply(source)
        while tests:
            path.write_text(mutated)
            # Compiled files are known by size and whole seconds.
            os.utime(path, (stat.st_atime, stat.st_mtime + 1 + mutant.number))
            try:
                status, failed = self.pytest(copy, tests)
            finally:
                path.write_text(source)
                os.utime(path, (stat.st_atime, stat.st_mtime))
            slow = failed in self.map.tests and self.map.tests[failed]["seconds"] > QUICK_S
            if status != "killed" or not slow or self.pytest(copy, [failed])[0] == "survived":
                return {"status": status, "by": failed, "unreliable": unreliable}
            unreliable.append(failed)
            tests = tests[tests.index(failed) + 1 :]
        return {"status": "survived", "by": "", "unreliable": unreliable}

    def pytest(self, copy: Path, tests: list[str]) -> tuple[str, str]:
        """Run tests until the first that fails; return the status and that test's name."""
        chosen = copy.with_suffix(".json")
        chosen.write_text(json.dumps(tests))
        files = dict.fromkeys(test.split("::")[0] for test in tests)
        expected = sum(self.map.tests[test]["seconds"] for test in tests) + sum(
            self.map.seconds[number]
            for number in {n for test in tests for n in self.map.tests[test]["fixtures"]}
        )
        options = ["-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider", *files]
        process = pytest_in(copy, options, MUTATION_TESTS=str(chosen))
        try:
            code = process.wait(3 * expected + 60)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        finally:
            end(process, f"MUTATION_TESTS={chosen}")
        failed = chosen.with_suffix(".failed")
        name = failed.read_text().split("\n")[0] if failed.exists() else ""
        # 5 is that no test was collected, which no mutant can cause.
        return {0: "survived", 5: "error"}.get(code, "killed"), name


def report(args: argparse.Namespace) -> None:
    """Print, and write, killed mutants by room, pairs of two commits, and survivors."""
    sides = {"after": args.work} | ({"before": args.before} if args.before else {})
    data, text = {}, []
    for name, work in sorted(sides.items(), reverse=True):
        facts, mutants = read_sample(work)
        results = {record["number"]: record for record in read_lines(work / "results.jsonl")}
        rows = [(m, results[m.number]) for m in mutants if m.number in results]
        data[name] = {
            "commit": facts["commit"],
            "seed": facts["seed"],
            "sampled": len(mutants),
            "seconds": round(sum(result["seconds"] for _, result in rows)),
            "rooms": _rooms(rows),
            "mutants": [_row(mutant, result) for mutant, result in rows],
        }
        text += [f"## {name}: {facts['commit'][:7]}", "", _room_table(data[name]["rooms"]), ""]
    if args.before:
        text += _pairs(data)
    text += ["## Survivors", ""]
    text += [
        f"- {m['file']}:{m['first']} {m['operator']}, {m['status']}, {m['ran']} of {m['touching']}"
        f" tests: `{m['before']}` -> `{m['after']}`"
        for m in sorted(data["after"]["mutants"], key=lambda m: (m["file"], m["first"]))
        if m["status"] not in KILLED
    ]
    if args.write:
        for side in sides:
            # A line each: `number twin file:line operator status ran/touching`.
            data[side]["mutants"] = [
                "{number} {twin} {file}:{first} {operator} {status} {ran}/{touching}".format(**m)
                for m in data[side]["mutants"]
            ]
        write_results("mutation", data, "\n".join(text))
    else:
        print("\n".join(text))


def _row(mutant: Mutant, result: dict[str, Any]) -> dict[str, Any]:
    row = {name: getattr(mutant, name) for name in ("number", "twin", "file", "first", "operator")}
    row |= {"status": result["status"], "touching": result["touching"], "ran": len(result["ran"])}
    if result["status"] not in KILLED:
        row["before"], row["after"] = (
            " ".join(" ".join(lines).split()) for lines in (mutant.before, mutant.after)
        )
    return row


def _rooms(rows: list[tuple[Mutant, dict[str, Any]]]) -> dict[str, dict[str, int]]:
    rooms = collections.defaultdict(collections.Counter)
    for mutant, result in rows:
        for room in (mutant.room, "all"):
            rooms[room].update(["mutants", result["status"]])
            # Some touching tests were over the limits.
            if result["status"] == "survived" and len(result["ran"]) < result["touching"]:
                rooms[room].update(["limited"])
    return {room: dict(rooms[room]) for room in sorted(rooms)}


def _room_table(rooms: dict[str, dict[str, int]]) -> str:
    columns = ("mutants", "killed", "timeout", "survived", "limited", "untouched", "error")
    rows = []
    for room, counts in rooms.items():
        killed = sum(counts.get(name, 0) for name in KILLED)
        low, high = interval(killed, counts["mutants"])
        rate = f"{killed / counts['mutants']:.1%} ({low:.0%} to {high:.0%})"
        rows.append([room, *(str(counts.get(name, 0)) for name in columns), rate])
    return table(["room", *columns, "killed (95 %)"], rows)


def interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, for 95 %."""
    z = 1.96
    middle, width = count + z * z / 2, z * math.sqrt(count * (total - count) / total + z * z / 4)
    return (middle - width) / (total + z * z), (middle + width) / (total + z * z)


def _pairs(data: dict[str, Any]) -> list[str]:
    """Compare the mutants that both commits have."""
    before = {m["number"]: m for m in data["before"]["mutants"]}
    after = data["after"]["mutants"]
    pairs = [(before[m["twin"]], m) for m in after if m["twin"] in before]
    killed = [sum(pair[side]["status"] in KILLED for pair in pairs) for side in (0, 1)]
    lost = [b for a, b in pairs if a["status"] in KILLED and b["status"] not in KILLED]
    gained = [b for a, b in pairs if a["status"] not in KILLED and b["status"] in KILLED]
    data["pairs"] = {"count": len(pairs), "killed_before": killed[0], "killed_after": killed[1]}
    # Tests may have been written for survivors of an earlier look at the pairs; not for these.
    new = [m["status"] in KILLED for m in after if m["twin"] not in before]
    low, high = interval(sum(new), max(1, len(new)))
    data["anew"] = {"count": len(new), "killed": sum(new)}
    return [
        f"## {len(new)} mutants drawn anew: {sum(new)} killed ({low:.0%} to {high:.0%})",
        "",
        f"## {len(pairs)} mutants of both: {killed[0]} killed before, {killed[1]} killed after",
        "",
        f"{len(gained)} only after, {len(lost)} only before:",
        "",
        *(f"- {m['file']}:{m['first']} {m['operator']}" for m in lost),
        "",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, function in {
        "sample": sample,
        "map": map_tests,
        "run": lambda args: Runner(args).run(),
        "report": report,
    }.items():
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--work", type=Path, required=True, help="folder of the measurement")
        if name != "report":
            command.add_argument("--tree", type=Path, required=True, help="checkout with .venv")
        if name in ("map", "run"):
            command.add_argument("--jobs", type=int, default=2, help="at once; default 2")
        if name == "sample":
            command.add_argument("--mutants", type=int, default=400, help="default 400")
            command.add_argument("--seed", type=int, default=0, help="default 0")
            command.add_argument("--rooms", nargs="+", help="only these; default all")
            command.add_argument("--like", type=Path, help="folder whose sample to repeat here")
        elif name == "map":
            command.add_argument("--marker", default="", help="selects tests, as pytest's -m")
            command.add_argument("tests", nargs="*", help="files of tests; default all")
        elif name == "run":
            command.add_argument("--max-tests", type=int, default=150, help="a mutant; default 150")
            command.add_argument("--max-s", type=float, default=60, help="a mutant; default 60 s")
            command.add_argument("--killers", type=Path, help="folder whose killers run first")
        else:
            command.add_argument("--before", type=Path, help="folder to compare with")
            command.add_argument("--write", action="store_true", help="into bench/results")
    args = parser.parse_args(arguments)
    if args.function is report:
        report(args)
    else:
        args.work.mkdir(parents=True, exist_ok=True)
        with lock(args.work):
            # A measurement that was killed left them.
            kill_marked(f"MUTATION_WORK={args.work.resolve()}")
            args.function(args)


if __name__ == "__main__":
    sys.exit(main())
