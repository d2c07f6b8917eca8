"""What tasks get and what is kept of them: whole, checked, whatever its name is."""

from __future__ import annotations

import hashlib
import io
import os
import random
import stat
import tarfile
import threading
import urllib.parse
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hostile import each_name
from tarmac.errors import RequestError, TarmacError
from tarmac.tasks.inputs import fetch_inputs, refuse_missing_inputs
from tarmac.tasks.model import Input, Output
from tarmac.tasks.outputs import keep_outputs, refuse_unknown_stores


@pytest.fixture
def work(tmp_path):
    """Return a task's directory, as a run in ``runs`` below the job file's has it."""
    run = tmp_path / "runs/x-1"
    made = run / "tasks/000-x/work"
    made.mkdir(parents=True)
    (run / "job-run.json").write_text("{}")
    return made


def files_below(directory: Path) -> dict[str, str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in found}


@each_name
def test_inputs_come_by_paths_and_uris_of_any_name(tmp_path, work, name):
    base = tmp_path / name
    (base / "data" / name).mkdir(parents=True)
    (base / name).write_text("file")
    (base / "data" / name / name).write_text("deep")
    inputs = [
        Input(source=name),
        Input(source=(base / name).as_uri(), to="uri"),
        Input(source="data", to="all"),
    ]
    refuse_missing_inputs(inputs, base)
    fetch_inputs(inputs, base, work)
    assert files_below(work) == {name: "file", "uri": "file", f"all/{name}/{name}": "deep"}


@each_name
def test_outputs_of_any_name_are_kept_anywhere(tmp_path, work, name):
    (work / name).write_text("made")
    (work / "other").write_text("not asked for")
    outputs = [
        Output(path=name, to=name),
        Output(path=name, to=(tmp_path / "uri" / name).as_uri()),
    ]
    refuse_unknown_stores(outputs)
    assert keep_outputs(outputs, work, tmp_path / "base", succeeded=True) == []
    assert files_below(tmp_path / "base") == {f"{name}/{name}": "made"}
    assert files_below(tmp_path / "uri") == {f"{name}/{name}": "made"}


def test_names_that_differ_behind_a_hash_are_two_files(tmp_path, work):
    for number in (1, 2):
        (work / "made").write_text(str(number))
        to = f"kept#{number}"
        assert not keep_outputs([Output(path="made", to=to)], work, tmp_path, succeeded=True)
    assert [(tmp_path / f"kept#{n}/made").read_text() for n in (1, 2)] == ["1", "2"]


def test_a_kept_program_can_still_be_started(tmp_path, work):
    (work / "program").touch()
    (work / "program").chmod(0o750)
    keep_outputs([Output(path="program", to="kept")], work, tmp_path, succeeded=True)
    assert stat.S_IMODE((tmp_path / "kept/program").stat().st_mode) == 0o750


@pytest.mark.parametrize("include", [(), ("*",)])
def test_a_directory_that_holds_its_own_run_comes_without_the_runs(tmp_path, work, include):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/main.py").write_text("main")
    (tmp_path / "runs/notes").write_text("notes")
    fetch_inputs([Input(source=".", include=include)], tmp_path, work)
    assert files_below(work) == {"code/main.py": "main", "runs/notes": "notes"}


def test_the_run_of_another_place_comes_whole(tmp_path, work):
    other = tmp_path / "old/x-0"
    other.mkdir(parents=True)
    (other / "job-run.json").write_text("{}")
    fetch_inputs([Input(source="old")], tmp_path, work)
    assert files_below(work) == {"old/x-0/job-run.json": "{}"}


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_circle(path: Path) -> None:
    path.symlink_to("..", target_is_directory=True)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_dangling, "odd is a link to nowhere, which is gone"),
        (os.mkfifo, "odd is neither a file nor a directory"),
        (make_circle, "odd is a link to a directory that contains it"),
    ],
)
def test_what_cannot_be_copied_out_of_a_directory_is_named(tmp_path, work, make, said):
    (tmp_path / "data").mkdir()
    make(tmp_path / "data/odd")
    with pytest.raises(TarmacError, match=said):
        fetch_inputs([Input(source="data")], tmp_path, work)


def test_a_dangling_link_is_refused_before_anything_starts(tmp_path):
    make_dangling(tmp_path / "odd")
    with pytest.raises(RequestError, match="input odd: a link to nowhere, which is gone"):
        refuse_missing_inputs([Input(source="odd")], tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sha256": "0" * 64}, "sha256 is that of one file, and this is a directory"),
        ({"unpack": True}, "unpack is for an archive, and this is a directory"),
    ],
)
def test_what_no_directory_has_is_refused_of_one(tmp_path, work, options, said):
    (tmp_path / "data").mkdir()
    given = [Input(source="data", **options)]
    with pytest.raises(RequestError, match=said):
        refuse_missing_inputs(given, tmp_path)
    # It may become a directory only after its run has begun.
    with pytest.raises(TarmacError, match=said):
        fetch_inputs(given, tmp_path, work)


def test_an_unknown_kind_of_place_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(RequestError, match="input ftp://host/x: ftp:// is not known"):
        refuse_missing_inputs([Input(source="ftp://me:word@host/x")], tmp_path)


def bomb(kind: str) -> bytes:
    content = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
            for number in range(8):
                file.writestr(str(number), bytes(2**24))
    else:
        with tarfile.open(fileobj=content, mode="w:xz") as tar:
            for number in range(8):
                member = tarfile.TarInfo(str(number))
                member.size = 2**24
                tar.addfile(member, io.BytesIO(bytes(2**24)))
    return content.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.xz"])
def test_an_archive_of_any_kind_that_explodes_is_refused(tmp_path, work, kind):
    (tmp_path / f"bomb.{kind}").write_bytes(bomb(kind))
    with pytest.raises(TarmacError, match="expands to more than an archive of inputs does"):
        fetch_inputs([Input(source=f"bomb.{kind}", unpack=True)], tmp_path, work)


@pytest.mark.parametrize("kind", ["zip", "gz", "xz", "bz2"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_is_named(tmp_path, work, kind, damage):
    content = io.BytesIO()
    data = random.Random(0).randbytes(10_000).hex().encode()
    if kind == "zip":
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a", data)
    else:
        with tarfile.open(fileobj=content, mode=f"w:{kind}") as tar:
            member = tarfile.TarInfo("a")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    whole = bytearray(content.getvalue())
    if damage == "cut":
        del whole[len(whole) // 2 :]
    else:
        for place in range(len(whole) // 2, len(whole) // 2 + 50):
            whole[place] ^= 0xFF
    (tmp_path / "archive").write_bytes(whole)
    with pytest.raises(TarmacError, match=r"input archive: cannot be unpacked: "):
        fetch_inputs([Input(source="archive", unpack=True)], tmp_path, work)


def test_damage_that_only_the_checksum_behind_the_last_file_tells_is_found(tmp_path, work):
    (tmp_path / "a").write_bytes(b"weights" * 1_000)
    with tarfile.open(tmp_path / "archive", "w:gz", compresslevel=0) as tar:
        tar.add(tmp_path / "a", "a")
    whole = (tmp_path / "archive").read_bytes()
    (tmp_path / "archive").write_bytes(whole.replace(b"weights", b"WEIGHTS", 1))
    with pytest.raises(TarmacError, match=r"input archive: cannot be unpacked: CRC check failed"):
        fetch_inputs([Input(source="archive", unpack=True)], tmp_path, work)


class Breaking(BaseHTTPRequestHandler):
    """Gives ``content``, and breaks off after a half of what was asked for, three times."""

    server: BreakingServer

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "bytes=0-")
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        self.server.seen.append((self.path, start, self.headers.get("Authorization")))
        rest = self.server.content[start:]
        breaks = len(self.server.seen) < 4
        if breaks and self.server.changes:
            self.server.content = self.server.content[::-1]
        condition = self.headers.get("If-Range")
        if condition not in (None, self.server.tag()):
            start, rest = 0, self.server.content
        tag = self.server.tag()
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if breaks else rest)

    def log_message(self, *_: object) -> None:
        pass


class BreakingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Breaking)
        self.content = os.urandom(2**16)
        self.changes = False
        self.seen: list[tuple[str, int, str | None]] = []

    def tag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


@pytest.fixture
def breaking():
    with BreakingServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_download_that_breaks_off_goes_on_where_it_was(tmp_path, work, breaking):
    digest = hashlib.sha256(breaking.content).hexdigest()
    url = f"http://127.0.0.1:{breaking.server_port}/data.bin"
    fetch_inputs([Input(source=url, sha256=digest)], tmp_path, work)
    assert (work / "data.bin").read_bytes() == breaking.content
    starts = [start for _, start, _ in breaking.seen]
    assert starts == sorted(set(starts))
    assert len(starts) == 4
    assert [path.name for path in work.iterdir()] == ["data.bin"]


@each_name
def test_a_url_may_have_any_name_and_its_query_is_no_part_of_it(tmp_path, work, breaking, name):
    breaking.seen += [("", 0, None)] * 3
    url = f"http://127.0.0.1:{breaking.server_port}/{urllib.parse.quote(name)}?version=2"
    fetch_inputs([Input(source=url)], tmp_path, work)
    assert (work / name).read_bytes() == breaking.content
    assert breaking.seen[-1][0] == f"/{urllib.parse.quote(name)}?version=2"


def test_a_login_in_a_url_reaches_the_server_and_no_message(tmp_path, work, breaking):
    breaking.seen += [("", 0, None)] * 3
    source = f"http://me:hunter2@127.0.0.1:{breaking.server_port}/a?sig=swordfish"
    with pytest.raises(TarmacError, match="its SHA-256 is") as caught:
        fetch_inputs([Input(source=source, sha256="0" * 64)], tmp_path, work)
    assert breaking.seen[-1][2].startswith("Basic ")
    with BreakingServer() as closed:
        port = closed.server_port
    with pytest.raises(TarmacError, match=f"input http://127.0.0.1:{port}/a: ") as gone:
        fetch_inputs(
            [Input(source=f"http://me:hunter2@127.0.0.1:{port}/a?sig=swordfish")], tmp_path, work
        )
    for error in (caught.value, gone.value):
        assert "hunter2" not in str(error)
        assert "swordfish" not in str(error)
