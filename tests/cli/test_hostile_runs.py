"""Whatever befalls any file of a run, every verb has words for it and shows all other runs.

`make test-fuzz` tries more, ``TARMAC_FUZZ_SEED=7`` others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from random import Random

import pytest

import tarmac
from damaged_records import MAKERS, damaged, make_good_runs
from mutants import SEED
from tarmac.cli import main
from tarmac.pages import page_of, render_page
from tarmac.server.listing import RunLister
from tarmac.server.site import Address, NoSuchPageError, Site
from tarmac.wording import counted, in_one_line

NUM_TRIES = 24
NUM_TRIES_AT_NIGHT = 300
NUM_VERBS = 6

UNWORDED = re.compile(r"Traceback|Add --debug|pydantic\.dev|For further information")
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "a\ud800\x1b[2J\x07\rb\nc\u202e"

LISTS = {
    "runs list": MAKERS,
    "runs list --json": MAKERS,
    "ps --all": ("job", "pipeline"),
    "ps --json --all": ("job", "pipeline"),
    "search list": ("study",),
    "top --once": (),
    "top --json": (),
    "/": MAKERS,
    "/jobs": ("job", "pipeline"),
    "/searches": ("study",),
}
OF_ALL = (
    "runs show bad",
    "runs show bad --json",
    "runs logs bad",
    "runs compare bad good-{kind}",
    "report bad --html - --no-pictures",
    "report bad good-{kind} --html -",
    "/runs/bad/",
    "/compare?run=bad&run=good-{kind}",
    "runs show latest",
)
OF_KIND = {
    "training": (
        "eval bad --device cpu",
        "export bad --to state --out {tmp}/x",
        "train --resume bad",
        "train digits-mlp --init-from {bad} --epochs 1 --train-size 64 --no-check",
        "train --from-checkpoint {bad} --epochs 3",
        "report bad --html -",
    ),
    "job": (
        "logs bad",
        "ps bad",
        "cancel bad",
        "run --resume bad",
        "/runs/bad/tasks/000000-prepare/",
        "/runs/bad/tasks/000002-train_seed=2_/",
        "/runs/bad/tasks/000000-prepare/stdout",
    ),
    "pipeline": ("logs bad", "run --resume bad", "cancel bad"),
    "study": (
        "search show bad",
        "search show bad --json",
        "search best bad",
        "search export bad",
        "search plot bad",
        "search --resume bad",
    ),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return a directory with a good run of each kind."""
    return make_good_runs(tmp_path_factory.mktemp("hostile") / "runs")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a training that can be gone on with."""
    run = tarmac.train(
        "digits-mlp",
        epochs=1,
        train_size=64,
        validation_size=32,
        device="cpu",
        output=tmp_path_factory.mktemp("trained"),
    )
    record = json.loads((run.path / "run.json").read_text())
    record["configuration"]["epochs"] = 2
    (run.path / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
    return run.path


def flip(path, random):
    content = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 1, 3])):
        if content:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def cut(path, random):
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) + 1)])


def misshape(path, random):
    content = path.read_bytes()
    try:
        path.write_bytes(damaged(content, random))
    except ValueError:
        path.write_bytes(damaged(b"{}", random))


def make_text_hostile(path, random):
    """Put characters that steer a terminal into each text of a record, and huge numbers."""

    def changed(value):
        if isinstance(value, dict):
            return {
                (key + HOSTILE if random.random() < 0.03 else key): changed(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [changed(inner) for inner in value]
        if isinstance(value, str):
            return value + HOSTILE if random.random() < share else value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return random.choice(huge) if random.random() < share else value
        return value

    share = random.choice([0.02, 0.2, 0.5])
    huge = [1e300, -1e300, float("nan"), float("inf"), 10**30, -1, 0]
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError:
        try:
            lines = [json.loads(path.read_text())]
        except ValueError:
            path.write_bytes(path.read_bytes() + HOSTILE.encode(errors="surrogatepass"))
            return
    path.write_text("".join(json.dumps(changed(line)) + "\n" for line in lines))


def put_pipe(path, random):
    del random
    path.unlink()
    os.mkfifo(path)


def put_folder(path, random):
    del random
    path.unlink()
    path.mkdir()


def put_link(path, random):
    path.unlink()
    path.symlink_to(random.choice(["/etc/passwd", path.name, "/dev/zero", "..", "/none"]))


def remove(path, random):
    del random
    path.unlink()


MISHAPS = (
    *(flip, cut, misshape, misshape, make_text_hostile, make_text_hostile),
    *(put_pipe, put_folder, put_link, remove),
)


class Looker:
    """Calls verbs in this process."""

    def __init__(self, output, capsys, tmp_path, kind):
        self.output, self.kind = output, kind
        self._capsys = capsys
        self._words = {"kind": kind, "tmp": str(tmp_path), "bad": str(output / "bad")}

    def __call__(self, verb):
        """Return what a verb prints, or a page."""
        words = [word.format(**self._words) for word in verb.split()]
        return self._page(words[0]) if verb.startswith("/") else self._print(words)

    def _print(self, words):
        with pytest.raises(SystemExit) as caught:
            main([*words, "--output", str(self.output)])
        out, err = self._capsys.readouterr()
        assert not UNWORDED.search(out + err), (words, err)
        assert caught.value.code in (None, 0, 1, 2, 130), words
        if words[:2] == ["runs", "list"]:
            assert not (odd := STEERING.search(out + err)), (words, odd, out + err)
        return out + err

    def _page(self, address):
        site = Site(RunLister(self.output, every_s=0.0), page_of, lambda: None)
        path, _, query = address.partition("?")
        try:
            return render_page(site.page(Address.parse(path.encode(), query.encode())))
        except NoSuchPageError as error:
            return error.message


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "number",
    [
        *range(NUM_TRIES),
        *(pytest.param(n, marks=pytest.mark.fuzz) for n in range(NUM_TRIES, NUM_TRIES_AT_NIGHT)),
    ],
)
def test_whatever_befalls_a_file_of_a_run_all_verbs_have_words(
    output, trained, capsys, tmp_path, number
):
    random = Random(f"{SEED} {number}")
    kind = [*MAKERS][number % len(MAKERS)]
    bad = output / "bad"
    try:
        if kind == "training":
            shutil.copytree(trained, bad)
        else:
            MAKERS[kind](output, "bad")
        files = sorted(path for path in bad.rglob("*") if path.is_file())
        done = []
        for _ in range(random.choice([1, 1, 2])):
            path, mishap = random.choice(files), random.choice(MISHAPS)
            if path.is_file() and not path.is_symlink():
                mishap(path, random)
                done.append((mishap.__name__, str(path.relative_to(bad))))
        print(kind, done)  # noqa: T201
        look = Looker(output, capsys, tmp_path, kind)
        for verb in random.sample([*LISTS], 3):
            shown = look(verb)
            assert all(f"good-{other}" in shown for other in LISTS[verb]), (verb, done, shown)
        own = [*OF_ALL, *OF_KIND[kind]]
        for verb in random.sample(own, min(NUM_VERBS, len(own))):
            print(verb)  # noqa: T201
            look(verb)
    finally:
        shutil.rmtree(bad, ignore_errors=True)
        for new in output.glob("digits-mlp-*"):
            shutil.rmtree(new)


def test_an_index_that_cannot_be_reached_costs_time_alone(output, capsys, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file / "below"))
    assert "good-job" in Looker(output, capsys, tmp_path, "job")("runs list")


def test_a_cache_of_another_user_costs_time_alone(second_user, open_directory, monkeypatch):
    cache = open_directory / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    runs = open_directory / "runs"
    MAKERS["job"](runs, "good-job")
    MAKERS["job"](runs, "closed").chmod(0o700)
    printed = open_directory / "printed"
    printed.touch()
    printed.chmod(0o666)

    def look():
        with printed.open("w") as file, contextlib.redirect_stdout(file):
            for verb in ("runs list", "top --once", "ps --all"):
                with contextlib.suppress(SystemExit):
                    main([*verb.split(), "--output", str(runs)])
            # These are in the cache alone.
            with contextlib.suppress(SystemExit), contextlib.redirect_stderr(file):
                main(["env", "list"])

    second_user(look)
    text = printed.read_text()
    assert f"error: cannot read {cache}/tarmac/venvs: Permission denied" in text
    assert text.count("good-job") == 2
    assert "closed cannot be read: cannot read it: Permission denied" in text


@pytest.mark.parametrize("count", [0, 1, 2])
def test_one_thing_alone_is_said_in_the_singular(count):
    assert counted(count, "task") == ("1 task" if count == 1 else f"{count} tasks")


def test_the_name_of_a_run_is_one_line_of_a_list(output, capsys, tmp_path):
    run = MAKERS["job"](output, "bad")
    name = "bad\n\x1b]0;x\x07\u202ename"
    try:
        run.rename(run.with_name(name))
        line = Looker(output, capsys, tmp_path, "job")("runs list")
        assert f" {in_one_line(name)} " in line
        assert in_one_line(name) == "bad\\n\\x1b]0;x\\x07\\u202ename"
        assert not STEERING.search(line)
    finally:
        shutil.rmtree(output / name)


def test_a_number_without_an_end_takes_few_digits(output, capsys, tmp_path):
    run = MAKERS["training"](output, "bad")
    try:
        record = json.loads((run / "run.json").read_text())
        record |= {"metrics": {"test_accuracy": 1e300}, "elapsed_s": 1e300}
        (run / "run.json").write_text(json.dumps(record))
        look = Looker(output, capsys, tmp_path, "training")
        for verb in ("runs list", "runs show bad", "runs compare bad good-training"):
            assert not re.search(r"\d{20}", look(verb))
    finally:
        shutil.rmtree(run)


@pytest.mark.parametrize(
    "damage",
    [
        ("configuration", "seed", 1.5),
        ("configuration", "epochs", "2"),
        ("configuration", "precision", ["fp32"]),
        ("configuration", "settings", 3),
        ("dataset", "fingerprint", None),
        ("configuration", "workload", ...),
        ("configuration", "precision", ...),
        ("configuration", "settings", ...),
        ("dataset", "fingerprint", ...),
    ],
)
def test_a_record_that_lacks_what_a_verb_needs_is_damaged(trained, capsys, tmp_path, damage):
    part, key, value = damage
    run = shutil.copytree(trained, tmp_path / "runs" / "bad")
    record = json.loads((run / "run.json").read_text())
    if value is ...:
        del record[part][key]
    else:
        record[part][key] = value
    (run / "run.json").write_text(json.dumps(record))
    look = Looker(run.parent, capsys, tmp_path, "training")
    fault = f"it does not say {key}" if value is ... else f"{part}: Value error, {key} is "
    for verb in ("eval bad --device cpu", "train --resume bad"):
        assert f"run.json is damaged: {fault}" in look(verb), verb
