"""The user's settings: where work runs without being told, and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.jobs import Job, executor_names
from tarmac.settings import Settings, read_settings, settings_path
from tarmac.tasks.secrets import read_secret_mapping

CLOUD = """
from pydantic import BaseModel, ConfigDict
from tarmac.jobs import ExecutorKind

class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    partition: str | None = None
    account: str | None = None
    hosts: int = 1

KIND = ExecutorKind("cloud", "a cloud", refuse=None, open=None, options=Options)
"""


@pytest.fixture(autouse=True)
def _cloud(tmp_path, monkeypatch):
    """Install a package with an executor, ``cloud``, that takes options."""
    made = tmp_path / "packages" / "cloud_of_tests-1.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: cloud-of-tests\nVersion: 1\n")
    (made / "entry_points.txt").write_text("[tarmac.executors]\ncloud = cloud_of_tests:KIND\n")
    (made.parent / "cloud_of_tests.py").write_text(CLOUD)
    monkeypatch.syspath_prepend(made.parent)


@pytest.fixture
def write(tmp_path, monkeypatch):
    def write(text: str) -> Path:
        path = tmp_path / "settings.toml"
        path.write_text(text)
        monkeypatch.setenv("TARMAC_SETTINGS_FILE", str(path))
        return path

    return write


@pytest.mark.parametrize("named", [None, ""])
def test_without_a_file_nothing_is_set(tmp_path, monkeypatch, named):
    monkeypatch.delenv("TARMAC_SETTINGS_FILE", raising=False)
    if named is not None:
        monkeypatch.setenv("TARMAC_SETTINGS_FILE", named)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path() == tmp_path / "tarmac" / "settings.toml"
    assert read_settings() == Settings()
    with pytest.raises(RequestError, match="unknown profile 'debug': there is no file") as caught:
        read_settings("debug")
    assert "[profiles.debug]" in caught.value.hint


def test_tests_do_not_read_the_settings_of_who_runs_them(tmp_path, monkeypatch):
    theirs = tmp_path / "tarmac" / "settings.toml"
    theirs.parent.mkdir()
    theirs.write_text('on = "cloud"')
    theirs.with_name("secrets.toml").write_text('"a/b" = {env = "MINE"}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read_settings() == Settings()
    assert read_secret_mapping() == {}


def test_a_file_that_is_named_and_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_SETTINGS_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(RequestError, match=r"none\.toml"):
        read_settings()


def test_a_profile_goes_over_what_stands_above_all_profiles(write):
    write(
        """
        on = "cloud"
        runner = "here"
        [cloud]
        account = "vision"
        partition = "gpu"
        [profiles.debug.cloud]
        partition = "debug"
        [profiles.laptop]
        on = "local"
        """
    )
    cloud = {"account": "vision", "partition": "gpu"}
    assert read_settings() == Settings("cloud", "here", {"cloud": cloud})
    debug = {"account": "vision", "partition": "debug"}
    assert read_settings("debug") == Settings("cloud", "here", {"cloud": debug})
    assert read_settings("laptop").on == "local"


def test_what_a_job_says_itself_goes_over_the_settings():
    settings = Settings(options={"cloud": {"account": "vision", "partition": "gpu"}})
    job = Job(name="x", command=("true",), options={"cloud": {"partition": "long"}})
    assert settings.applied_to(job).options == {"cloud": {"account": "vision", "partition": "long"}}
    assert Settings().applied_to(job) is job


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('on = "clod"', "{file}:1:1: on: 'clod': expected {executors}"),
        ('runner = "there"', "{file}:1:1: runner: 'there': expected 'here' or 'engine'"),
        ('runer = "here"', "{file}:1:1: runer: unknown key\n  did you mean 'runner'?"),
        (
            '[cloud]\naccount = "a"\npartiton = "gpu"',
            "{file}:3:1: cloud.partiton: unknown key\n  did you mean 'partition'?",
        ),
        (
            '[profiles.big.cloud]\nhosts = "many"',
            "{file}:2:1: profiles.big.cloud.hosts: 'many': expected a whole number",
        ),
        ("[profiles]\nbig = 1", "{file}:2:1: profiles.big: expected keys and their values"),
        ("profiles = 1", "{file}:1:1: profiles: expected tables: [profiles.NAME]"),
        ("[local]\ncpus = 1", "{file}:1:2: local: takes no options"),
        ("on = ", "{file}:1:6: invalid value"),
    ],
)
def test_a_mistake_is_said_with_its_line_and_the_nearest_key(write, text, said):
    path = write(text)
    with pytest.raises(RequestError) as caught:
        read_settings()
    executors = " or ".join(map(repr, executor_names()))
    assert str(caught.value) == said.format(file=path, executors=executors)


def test_an_unknown_profile_is_named_with_those_that_there_are(write):
    path = write('[profiles.debug]\non = "cloud"\n[profiles.long]\n')
    with pytest.raises(RequestError) as caught:
        read_settings("debgu")
    assert str(caught.value) == (
        f"{path}: unknown profile 'debgu', did you mean 'debug'?\nValid: debug, long"
    )


def test_the_settings_that_the_examples_show_are_right(monkeypatch):
    shown = Path(__file__).parents[1] / "examples" / "slurm" / "settings.toml"
    monkeypatch.setenv("TARMAC_SETTINGS_FILE", str(shown))
    debug = read_settings("debug")
    assert debug.on == "slurm"
    assert debug.options["slurm"]["partition"] == "debug"
    assert debug.options["slurm"]["account"] == "vision"
