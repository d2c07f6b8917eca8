"""Environments: what makes two of them one, what they are read from, and when they go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.environments import VenvSpec, build_venv, remove_venv
from tarmac.environments.once import made_once
from tarmac.environments.requirements import read_requirements
from tarmac.environments.users import note_user
from tarmac.environments.venvs import read_recipe
from tarmac.errors import RequestError
from tarmac.files import TRUSTED_USERS, StorageError, write_json
from tarmac.processes import identify


@pytest.fixture
def project(tmp_path):
    """Return a directory with a local package, and requirements files that include each other."""
    package = tmp_path / "sub/package"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text(
        '[project]\nname = "own-package"\nversion = "1"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (tmp_path / "sub/limits.txt").write_text("numpy<3\n")
    (tmp_path / "sub/nested.txt").write_text(
        "# a comment\n-c limits.txt\n./package  # beside this file\n"
        "six \\\n  ==1.17.0\n-r more.txt\n"
    )
    (tmp_path / "sub/more.txt").write_text("-e ./package[fast]\ntyping-extensions\n")
    return tmp_path


def test_files_are_read_from_beside_the_file_that_names_them(project):
    found = read_requirements(["-r sub/nested.txt", "click>=8"], project)
    package = project / "sub/package"
    assert found.lines == (
        str(package),
        "six   ==1.17.0",
        f"-e {package}[fast]",
        "typing-extensions",
        "click>=8",
    )
    assert found.constraints == ("numpy<3",)
    assert found.local == (package, package)


@pytest.mark.parametrize(
    "form", ["-r a.txt", "-ra.txt", "--requirement a.txt", "--requirement=a.txt"]
)
def test_every_form_that_pip_takes_is_taken(tmp_path, form):
    (tmp_path / "a.txt").write_text("six\n")
    assert read_requirements([form], tmp_path).lines == ("six",)


def test_a_line_that_is_too_long_for_a_path_is_the_installers_matter(tmp_path):
    line = f"./x>={'9' * 5000}"
    assert read_requirements([line], tmp_path).lines == (line,)


@pytest.mark.parametrize("line", ["numpy==", "a b", "six=1.17"])
def test_a_line_that_is_no_requirement_is_refused_before_the_build(tmp_path, line):
    with pytest.raises(RequestError, match="is no requirement"):
        read_requirements([line], tmp_path)


def test_files_that_are_missing_or_name_each_other_are_said(tmp_path):
    (tmp_path / "a.txt").write_text("-r b.txt\n")
    with pytest.raises(RequestError, match=r"b\.txt: No such file"):
        read_requirements(["-r a.txt"], tmp_path)
    (tmp_path / "b.txt").write_text("-r a.txt\n")
    with pytest.raises(RequestError, match=r"b\.txt and .*a\.txt include each other"):
        read_requirements(["-r a.txt"], tmp_path)


def test_the_content_of_a_local_package_makes_another_environment(project):
    given = ["./sub/package"]
    before = read_requirements(given, project).content()
    assert read_requirements(given, project).content() == before
    (project / "sub/package/module.py").write_text("x = 1\n")
    assert read_requirements(given, project).content() != before


@pytest.fixture
def installer(tmp_path, monkeypatch):
    """Put an installer called uv on the path that makes what it is asked for, without packages."""
    program = tmp_path / "installer/uv"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nfor last; do :; done\n[ "$1" = venv ] && mkdir -p "$last"\nexit 0\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def test_each_installer_builds_an_environment_of_its_own(tmp_path, installer, monkeypatch):
    venv = VenvSpec(requirements=("six",))
    by_uv = build_venv(venv, tmp_path, tmp_path / "venvs")
    assert build_venv(venv, tmp_path, tmp_path / "venvs") == by_uv
    installer.rename(installer.with_name("other"))
    monkeypatch.setattr("tarmac.environments.venvs.install_venv", lambda path, *_: path.mkdir())
    assert build_venv(venv, tmp_path, tmp_path / "venvs") != by_uv


def test_one_whose_interpreter_has_gone_is_built_again(tmp_path, installer):
    venv = VenvSpec(requirements=("six",))
    path = build_venv(venv, tmp_path, tmp_path / "venvs")
    (path / "pyvenv.cfg").touch()
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(tmp_path / "python3.11")
    assert build_venv(venv, tmp_path, tmp_path / "venvs") == path
    assert not (path / "bin").exists()


def test_an_environment_in_use_is_not_removed(tmp_path, installer):
    root = tmp_path / "venvs"
    program = (
        "import sys; from pathlib import Path\n"
        "from tarmac.environments import VenvSpec, build_venv\n"
        "spec = VenvSpec(requirements=('six',))\n"
        "print(build_venv(spec, Path(), Path(sys.argv[1])), flush=True)\n"
        "sys.stdin.read()\n"
    )
    user = subprocess.Popen(
        [sys.executable, "-c", program, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    built = Path(user.stdout.readline().strip())
    with pytest.raises(RequestError, match=f"is in use by process {user.pid}"):
        remove_venv(built.name, root)
    assert built.is_dir()
    user.communicate()
    task = subprocess.Popen(["cat"], env={"VIRTUAL_ENV": str(built)}, stdin=subprocess.PIPE)
    with pytest.raises(RequestError, match=f"is in use by process {task.pid}"):
        remove_venv(built.name, root)
    task.communicate()
    assert remove_venv(built.name, root) == built
    assert not [path for path in root.iterdir() if path.is_dir()]


def test_a_password_of_an_index_is_in_no_file(tmp_path, installer):
    requirements = ("--index-url https://me:hunter2@index.example/simple", "six")
    build_venv(VenvSpec(requirements=requirements), tmp_path, tmp_path / "venvs")
    for path in (tmp_path / "venvs").rglob("*"):
        assert not path.is_file() or "hunter2" not in path.read_text()


def test_a_directory_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    root = tmp_path / "file" / "venvs"
    with pytest.raises(StorageError, match=f"cannot write {root}: Not a directory"):
        build_venv(VenvSpec(requirements=("six",)), tmp_path, root)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (
            "#!/bin/sh\necho broken library >&2; exit 3\n",
            0o755,
            "is not a working Python: broken library",
        ),
        ("#!/nowhere\n", 0o755, "No such file"),
    ],
)
def test_an_interpreter_that_does_not_work_is_said(tmp_path, content, mode, said):
    python = tmp_path / "python-odd"
    python.write_text(content)
    python.chmod(mode)
    assert shutil.which(str(python))
    with pytest.raises(RequestError, match=said):
        build_venv(
            VenvSpec(python=str(python), requirements=("six",)), tmp_path, tmp_path / "venvs"
        )


def test_an_interpreter_is_found_from_where_tarmac_starts(tmp_path, monkeypatch):
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.chdir(tmp_path)
    spec = VenvSpec(python="./python", requirements=())
    assert (build_venv(spec, tmp_path, tmp_path / "venvs") / "bin/python").exists()


def test_notes_of_processes_that_have_ended_go_when_the_next_comes(tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as user:
        ended = identify(user.pid)
        user.communicate()
    notes = tmp_path / "venv.users"
    write_json(notes / "ended.json", ended._asdict())
    note_user(tmp_path / "venv")
    (note,) = notes.iterdir()
    assert str(os.getpid()) in note.name


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to another user")
@pytest.mark.parametrize("foreign", ["environment", "directory", "directory alone"])
def test_what_another_user_has_built_is_not_run(tmp_path, monkeypatch, foreign):
    monkeypatch.delenv(TRUSTED_USERS, raising=False)
    spec, root = VenvSpec(()), tmp_path / "venvs"
    venv, image = root / read_recipe(spec, tmp_path).key, root / "image.sif"
    root.mkdir()
    if foreign != "directory alone":
        venv.mkdir()
        (venv / "requirements.txt").touch()
        image.touch()
    for path in (venv, image) if foreign == "environment" else (root,):
        os.chown(path, 65534, 65534)
    with pytest.raises(RequestError, match="belongs to nobody, and its Python would run as you"):
        build_venv(spec, tmp_path, root)
    with pytest.raises(
        RequestError, match=r"image\.sif belongs to nobody, and what is in it would"
    ):
        made_once(image, lambda part: part.touch())
    assert image.exists() == (foreign != "directory alone")
    monkeypatch.setenv(TRUSTED_USERS, "nobody")
    assert made_once(image, lambda part: part.touch()) == image
    if foreign != "directory alone":
        assert build_venv(spec, tmp_path, root) == venv
