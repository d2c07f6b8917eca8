"""The last check, kept for whoever watches the machine."""

import json

import pytest
from click.testing import CliRunner

from tarmac.checks import last_check_file
from tarmac.cli.commands.check import command

pytestmark = pytest.mark.usefixtures("forked_probes")


def test_a_check_is_kept_as_the_last_one_for_its_user_alone():
    assert not last_check_file().exists()
    CliRunner().invoke(command, ["--quick", "--json"])
    report = json.loads(last_check_file().read_text())
    assert report["inventory"]["host"]["boot_id"]
    assert {"checked_at", "findings"} <= report.keys()
    assert last_check_file().stat().st_mode & 0o077 == 0


def test_a_check_that_cannot_be_kept_is_a_check_all_the_same(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    done = CliRunner().invoke(command, ["--quick", "--json"])
    assert json.loads(done.stdout)["checked_at"]
