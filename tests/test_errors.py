"""Errors say what is wrong and what to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tarmac.errors import Interrupted, RequestError, TarmacError, quoted, unknown_name


def test_an_error_shows_its_hint_below_its_message():
    assert str(TarmacError("it broke", hint="mend it")) == "it broke\nmend it"
    assert [kind("x").exit_code for kind in (TarmacError, RequestError, Interrupted)] == [1, 2, 130]


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    error = unknown_name("setting", "hiden", {"hidden": "default 8", "dropout": ""})
    assert str(error) == (
        "unknown setting 'hiden', did you mean 'hidden'?\nValid:\n  hidden   default 8\n  dropout"
    )
    assert "did you mean" not in str(unknown_name("framework", "nosuch", {"torch": "", "jax": ""}))
    assert str(unknown_name("dog", "zzz", {})) == "unknown dog 'zzz'\nValid: none"


@pytest.mark.parametrize(
    "name", ["a b", "r\udcffe", "it's", "-\r\x1b[K\n1\u202e'\\x0a", "ä\x9b漢\t"]
)
def test_a_shell_reads_a_quoted_name_as_it_is(name):
    words = quoted("printf", "%s.", name, "end")
    assert words.isprintable()
    done = subprocess.run(["bash", "-c", words], capture_output=True, check=True)
    assert os.fsdecode(done.stdout) == f"{name}.end."


@pytest.mark.parametrize("name", ["-r x", "--", "-"])
def test_a_quoted_path_is_no_option(tmp_path, name):
    (tmp_path / name).write_text("here")
    command = f"cat {quoted(Path(name))}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout == b"here"
