"""The files and commands of what keeps a trial Slurm's accounts, without its daemons."""

from __future__ import annotations

import subprocess
import types
from pathlib import Path

import pytest

from tarmac.errors import RequestError, TarmacError
from tarmac.testing.slurm import accounts as module
from tarmac.testing.slurm.accounts import Accounts


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return the accounts of a cluster, and the commands that set up its database."""
    monkeypatch.setattr(module, "search_path", lambda: "/usr/bin")
    tables = tmp_path / "mysql_system_tables.sql"
    tables.write_bytes(b"CREATE TABLE proc;\n")
    monkeypatch.setattr(module, "_SYSTEM_TABLES", (tmp_path / "none.sql", tables))
    ran = []

    def run(command, **options):
        ran.append((command, options["input"]))
        return subprocess.CompletedProcess(command, len(ran) - 1, b"", b"first\nno room\n")

    monkeypatch.setattr(module, "subprocess", types.SimpleNamespace(run=run))
    directory = tmp_path / "c"
    directory.mkdir()
    return Accounts(directory=directory, logs=tmp_path / "logs"), ran


def test_all_files_are_written_for_root_alone_and_the_database_is_set_up_once(made):
    accounts, ran = made
    socket = accounts.sockets["munged"]
    socket.touch()
    accounts.write(6819)
    assert not socket.exists()
    conf = accounts.directory / "slurmdbd.conf"
    assert "DbdPort=6819\n" in conf.read_text()
    assert f"AuthInfo=socket={socket}\n" in conf.read_text()
    key = accounts.directory / "munge.key"
    assert len(key.read_bytes()) == 1024
    assert {path.stat().st_mode & 0o777 for path in (conf, key)} == {0o600}
    assert (accounts.directory / "database").stat().st_mode & 0o777 == 0o700
    ((command, given),) = ran
    assert command[-1] == "--bootstrap"
    assert f"--datadir={accounts.directory}/database" in command
    assert given == b"CREATE DATABASE mysql;\nUSE mysql;\nCREATE TABLE proc;\n"
    before = key.read_bytes()
    accounts.write(6820)
    assert len(ran) == 1
    assert key.read_bytes() != before
    assert "DbdPort=6820\n" in conf.read_text()


def test_each_daemon_is_started_in_the_foreground_with_its_own_socket(made):
    accounts, _ = made
    sockets = accounts.sockets
    assert [*sockets] == ["munged", "mariadbd"]
    assert accounts.variables == {"MYSQL_UNIX_PORT": str(sockets["mariadbd"])}
    for daemon, socket in sockets.items():
        assert accounts.command(daemon)[0] == daemon
        assert f"--socket={socket}" in accounts.command(daemon)
    assert "--foreground" in accounts.command("munged")
    assert "--skip-networking" in accounts.command("mariadbd")
    assert accounts.command("slurmdbd") == ("slurmdbd", "-D")
    lines = accounts.lines(6819).splitlines()
    assert "AccountingStoragePort=6819" in lines
    assert f"AccountingStoragePass={sockets['munged']}" in lines


def test_a_database_that_cannot_be_set_up_says_why(made, monkeypatch, tmp_path):
    accounts, ran = made
    ran.append(())
    with pytest.raises(TarmacError, match="cannot set up MariaDB: no room"):
        accounts.write(6819)
    monkeypatch.setattr(module, "_SYSTEM_TABLES", (tmp_path / "tables.sql",))
    (tmp_path / "d").mkdir()
    with pytest.raises(TarmacError, match=r"/usr/share lacks MariaDB's tables\.sql"):
        Accounts(directory=tmp_path / "d", logs=tmp_path).write(6819)


def test_a_directory_whose_path_is_too_long_for_a_socket_is_refused():
    far = Path("/tmp", "x" * 100)
    with pytest.raises(RequestError, match=r"socket paths in .* are too long") as refused:
        Accounts(directory=far, logs=far).write(6819)
    assert "fewer than 87 bytes" in refused.value.hint
