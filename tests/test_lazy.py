"""Faces that import their modules late."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tarmac
from forked import run_python

_SOURCES = Path(tarmac.__file__).parent
FACES = sorted(
    ".".join(path.parent.relative_to(_SOURCES.parent).parts)
    for path in _SOURCES.rglob("__init__.py")
    if "lazy_names(" in path.read_text()
)


@pytest.mark.parametrize("face", FACES)
def test_each_name_of_a_face_is_there(face):
    room = importlib.import_module(face)
    assert room.__all__
    assert dir(room) == room.__all__
    for name in room.__all__:
        assert getattr(room, name) is not None


@pytest.mark.parametrize("face", FACES)
def test_what_a_face_does_not_offer_is_no_attribute(face):
    room = importlib.import_module(face)
    with pytest.raises(AttributeError, match=f"module '{face}' has no attribute 'absent'"):
        room.absent  # noqa: B018


def test_a_face_without_source_files_is_read_from_its_archive(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    (room / "parts.py").write_text("def made():\n    return 1\n")
    (room / "__init__.py").write_text(
        "from tarmac.lazy import lazy_names\n"
        "if False:\n    from room.parts import made as made\n"
        "else:\n    __getattr__, __dir__, __all__ = lazy_names(__name__)\n"
    )
    script = "import shutil, sys; sys.path.insert(0, shutil.make_archive('a', 'zip', '.'))\n"
    script += "shutil.rmtree('room'); from room import made; print(made())"
    done = run_python("-c", script, cwd=tmp_path, check=True)
    assert done.stdout == "1\n"
