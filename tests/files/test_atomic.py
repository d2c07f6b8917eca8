"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.files import (
    StorageError,
    atomic,
    atomic_writer,
    new_directory,
    open_regular,
    output_errors,
    write_bytes,
    write_json,
)


def test_a_file_and_its_directories_are_made(tmp_path):
    write_json(tmp_path / "a" / "b.json", {"x": 1})
    assert (tmp_path / "a" / "b.json").read_text() == '{\n  "x": 1\n}\n'
    assert stat.S_IMODE((tmp_path / "a" / "b.json").stat().st_mode) & 0o044 == 0o044


def test_directories_that_another_thread_makes_at_the_same_time_are_taken(tmp_path, monkeypatch):
    directory, look = tmp_path / "runs" / "task", Path.stat

    def made_after_it_was_looked_for(path, **options):
        try:
            return look(path, **options)
        except FileNotFoundError:
            if path == directory:
                os.makedirs(path)  # noqa: PTH103
            raise

    monkeypatch.setattr(Path, "stat", made_after_it_was_looked_for)
    write_bytes(directory / "file", b"new")
    assert (directory / "file").read_bytes() == b"new"


def test_an_error_while_writing_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_writer(path) as file:
        file.writelines([b"new", "text"])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    program = (
        "import os, signal, sys, pathlib; from tarmac.files import atomic_writer\n"
        "with atomic_writer(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(b'new' * 100_000); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


def test_a_file_that_does_not_fit_is_refused_in_words(tmp_path):
    program = (
        "import pathlib, resource, signal, sys; from tarmac.files import write_bytes\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_bytes(pathlib.Path(sys.argv[1]), b'x' * 2000)\n"
    )
    path = tmp_path / "file"
    process = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert f"{path} would be larger than a file may be here" in process.stderr
    assert "ulimit -f" in process.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("code", "num_inodes", "words"),
    [
        (errno.ENOSPC, 0, ("no inodes left to write", "df -i")),
        (errno.ENOSPC, 7, ("no space left to write", "MiB are free there")),
        (errno.EDQUOT, 0, ("your quota leaves no space to write", "quota -s")),
    ],
)
def test_what_there_is_no_more_of_is_said(tmp_path, monkeypatch, code, num_inodes, words):
    def full(*_):
        raise OSError(code, os.strerror(code))

    found = os.statvfs(tmp_path)
    values = [*found[:7], num_inodes, *found[8:]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=words[0]) as raised:
        write_bytes(tmp_path / "file", b"")
    assert words[1] in raised.value.hint
    assert not [*tmp_path.iterdir()]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot write .*file/inner: "):
        write_bytes(tmp_path / "file" / "inner", b"")


def test_a_pipe_is_written_into_and_stays_one(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        write_bytes(path, b"page")
        assert reader.communicate()[0] == b"page"
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.timeout(20)
def test_a_pipe_that_nobody_reads_keeps_no_writer_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_READER_TIMEOUT_S", 0.0)
    path = tmp_path / "a pipe"
    os.mkfifo(path)
    with pytest.raises(StorageError, match="it is a pipe without a reader") as caught:
        write_bytes(path, b"weights")
    assert caught.value.hint.endswith(f"rm '{path}'")


def test_a_full_device_is_named_and_stays_one():
    with pytest.raises(StorageError, match="no space left to write /dev/full") as caught:
        write_bytes(Path("/dev/full"), b"page")
    assert "--output" not in caught.value.hint
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_standard_output_that_leads_to_a_file_is_written_into(tmp_path):
    program = (
        "from pathlib import Path; from tarmac.files import write_text\n"
        "print('before', flush=True); write_text(Path('/dev/stdout'), 'page\\n')\n"
    )
    before = Path("/dev/stdout").readlink()
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text().splitlines()[-1] == "page"
    assert Path("/dev/stdout").readlink() == before


def test_a_folder_in_place_of_a_file_leaves_no_descriptor_open(tmp_path):
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(99):
        with pytest.raises(IsADirectoryError), open_regular(tmp_path):
            pass
    # Other threads open and close some meanwhile.
    assert len([*Path("/proc/self/fd").iterdir()]) < before + 90


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_no_run_is_no_fault_of_the_request(tmp_path, code):
    with pytest.raises(StorageError) as caught, output_errors("runs", tmp_path):
        raise OSError(code, os.strerror(code))
    assert caught.value.exit_code == 1


def test_a_place_where_no_run_can_be_is_a_fault_of_the_request(tmp_path):
    with (
        pytest.raises(RequestError, match="runs cannot be made in"),
        output_errors("runs", tmp_path),
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_new_directory_has_its_name_once_it_is_whole_and_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), new_directory(tmp_path / "runs" / "a"):
        raise KeyError
    assert not [*(tmp_path / "runs").iterdir()]
    with new_directory(tmp_path / "runs" / "a") as made:
        (made / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["runs", "a", "file"]
