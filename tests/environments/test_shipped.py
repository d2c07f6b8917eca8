"""Environments for nodes: built by the first, unpacked by the others, wherever their disks are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tarmac.environments import VenvSpec, node_directory, once, shipped_venv
from tarmac.environments.once import made_once
from tarmac.environments.venvs import read_recipe
from tarmac.errors import TarmacError
from tarmac.files import StorageError
from waiting import limit_s, wait_until


@pytest.fixture
def spec(make_wheel, tmp_path, monkeypatch):
    """Return an environment of one package with a script, and count what is built."""
    wheel = make_wheel("import sys\n\n\ndef main():\n    print(sys.prefix)\n", has_script=True)
    uv = shutil.which("uv") or pytest.skip("no uv is here; provide one: pip install uv")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "uv").write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/built\nexec "{uv}" "$@"\n')
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return VenvSpec(requirements=(str(wheel),), python=sys.executable)


def builds(tmp_path: Path) -> int:
    return (tmp_path / "built").read_text().split().count("venv")


def printed(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("place", ["n2", "a place, with 'spaces'", "l" * 150])
def test_another_node_gets_it_as_one_file_and_its_scripts_work_there(spec, tmp_path, place):
    first = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    shutil.move(first, tmp_path / "another-nodes-disk")
    found = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / place)
    assert found.parent == tmp_path / place
    assert printed(found / "bin/tool") == str(found)
    assert printed(found / "bin/python", "-c", "import tool; tool.main()") == str(found)
    assert builds(tmp_path) == 1
    assert len([path for path in (tmp_path / "store").iterdir() if path.suffix == ".tar"]) == 1


def test_an_installer_whose_cache_cannot_be_written_works_without(spec, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "file" / "cache"))
    made = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    assert printed(made / "bin/tool") == str(made)


def test_an_installer_that_hangs_is_named(spec, tmp_path, monkeypatch):
    (tmp_path / "programs/uv").write_text("#!/bin/sh\nexec sleep 600\n")
    # The interpreter, which does answer, may take longer.
    monkeypatch.setattr("tarmac.environments.venvs.python_version", lambda _: sys.version)
    monkeypatch.setattr("tarmac.environments.installer._ANSWER_S", 0.1)
    with pytest.raises(TarmacError, match=r"programs/uv cache dir does not answer in 0\.1 s"):
        shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")


# Of a node with an older C library, and one with another processor.
@pytest.mark.parametrize(
    ("says", "answer"),
    [
        ("platform.libc_ver", ("glibc", "2.17")),
        ("sysconfig.get_platform", "linux-aarch64"),
    ],
)
def test_nodes_of_another_kind_get_one_of_their_own(spec, tmp_path, monkeypatch, says, answer):
    store = tmp_path / "store"
    first = shipped_venv(spec, tmp_path, store, tmp_path / "n1")
    with monkeypatch.context() as other:
        other.setattr(f"tarmac.environments.shipped.{says}", lambda: answer)
        second = shipped_venv(spec, tmp_path, store, tmp_path / "n2")
    assert first.name != second.name
    assert sorted(path.name for path in store.glob("*.tar")) == sorted(
        f"{path.name}.tar" for path in (first, second)
    )
    assert builds(tmp_path) == 2
    # A third node is like the first.
    assert shipped_venv(spec, tmp_path, store, tmp_path / "n3").name == first.name
    assert builds(tmp_path) == 2


def test_nodes_whose_python_lies_elsewhere_get_one_of_their_own(tmp_path):
    elsewhere = tmp_path / "python"
    elsewhere.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    elsewhere.chmod(0o755)
    specs = [VenvSpec(requirements=("six",), python=str(p)) for p in (sys.executable, elsewhere)]
    keys = {read_recipe(spec, tmp_path, kind="linux-x86_64 glibc 2.36").key for spec in specs}
    assert len(keys) == 2
    # On this machine alone it is found by its path.
    assert len({read_recipe(spec, tmp_path).key for spec in specs}) == 1


def test_the_next_task_of_a_node_unpacks_nothing(spec, tmp_path):
    first = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    shutil.rmtree(tmp_path / "store")
    assert shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1") == first
    assert builds(tmp_path) == 1


def test_an_environment_that_lost_its_interpreter_is_unpacked_again(spec, tmp_path):
    first = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    (first / "bin/python").unlink()
    again = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    assert printed(again / "bin/tool") == str(again)
    assert builds(tmp_path) == 1


_SHIP = """
import sys
from pathlib import Path
from tarmac.environments import VenvSpec, shipped_venv
wheel, base, root = sys.argv[1:]
spec = VenvSpec(requirements=(wheel,), python=sys.executable)
print(shipped_venv(spec, Path(base), Path(base) / "store", Path(root)))
"""


def ship(spec, tmp_path, node: str) -> subprocess.Popen:
    command = [sys.executable, "-c", _SHIP, spec.requirements[0], str(tmp_path)]
    return subprocess.Popen([*command, str(tmp_path / node)], stdout=subprocess.PIPE, text=True)


def test_nodes_that_begin_together_build_it_once(spec, tmp_path):
    processes = [ship(spec, tmp_path, f"n{number}") for number in range(3)]
    places = [process.communicate(timeout=limit_s(120))[0].strip() for process in processes]
    assert all(printed(Path(place) / "bin/tool") == place for place in places)
    assert builds(tmp_path) == 1


def test_a_builder_that_is_killed_is_followed_by_the_next(spec, tmp_path):
    uv = tmp_path / "programs/uv"
    real = uv.read_text()
    steps = (f"cd {tmp_path}", "echo $$ > part", "mv part stuck", "kill -STOP $$")
    uv.write_text("\n".join(("#!/bin/sh", *steps, "")))
    builder = ship(spec, tmp_path, "n1")
    wait_until((tmp_path / "stuck").exists, "the builder's uv", unless=builder.poll)
    uv.write_text(real)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    os.kill(int((tmp_path / "stuck").read_text()), signal.SIGKILL)
    found = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n2")
    assert printed(found / "bin/tool") == str(found)


def test_a_damaged_archive_is_said(spec, tmp_path):
    shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    (archive,) = (tmp_path / "store").glob("*.tar")
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(TarmacError, match="is damaged") as caught:
        shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n2")
    assert caught.value.hint == "Remove it; Tarmac builds it again"
    assert not list((tmp_path / "n2").glob("*/bin"))


def test_a_full_disk_is_said_and_leaves_no_part(spec, tmp_path, small_disk):
    disk = small_disk("64k")
    with pytest.raises(StorageError, match="no space left"):
        shipped_venv(spec, tmp_path, disk / "store", tmp_path / "n1")
    assert not [path for path in (disk / "store").iterdir() if "tar" in path.suffix]


def test_those_that_wait_for_one_that_fails_fail_in_its_words(tmp_path, monkeypatch):
    begun, waiting, go = (threading.Event() for _ in range(3))
    path, failures = tmp_path / "store/file", []

    def fail(part: Path) -> None:
        begun.set()
        go.wait(limit_s(60))
        raise TarmacError("no such package", hint="spell it right")

    def get() -> None:
        try:
            made_once(path, fail)
        except TarmacError as error:
            failures.append(str(error))

    def sleep(_: float) -> None:
        waiting.set()
        builder.join(limit_s(60))

    monkeypatch.setattr(once.time, "sleep", sleep)
    builder = threading.Thread(target=get)
    builder.start()
    assert begun.wait(limit_s(60))
    waiter = threading.Thread(target=get)
    waiter.start()
    assert waiting.wait(limit_s(60))
    begun.clear()
    go.set()
    waiter.join(limit_s(60))
    assert not begun.is_set()
    assert len(failures) == 2
    assert all("no such package" in words for words in failures)
    # Whoever comes later tries again.
    assert made_once(path, lambda part: part.write_text("made")).read_text() == "made"
    assert not [left for left in path.parent.iterdir() if "failed" in left.name]


def test_a_nodes_directory_is_its_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path))
    directory = node_directory()
    assert directory.parent == tmp_path
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o755)
    with pytest.raises(TarmacError, match="other users could change"):
        node_directory()


def test_what_no_task_has_used_for_long_makes_room(spec, tmp_path):
    first = shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    old, users = tmp_path / "n1/0123", tmp_path / "n1/0123.users"
    old.mkdir()
    shutil.copytree(first.with_name(f"{first.name}.users"), users)
    (note,) = users.iterdir()
    os.utime(note, (0, 0))
    shutil.rmtree(first)
    shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    assert old.exists(), "this process uses it"
    note.write_text("{}")
    os.utime(note, (0, 0))
    shutil.rmtree(first)
    shipped_venv(spec, tmp_path, tmp_path / "store", tmp_path / "n1")
    assert not old.exists()
