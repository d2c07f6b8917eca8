"""Environments of projects and of scripts: what is installed, and what makes another of them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tarmac.environments import ProjectSpec, VenvSpec, build_venv
from tarmac.environments.projects import ScriptNeeds, read_script
from tarmac.errors import RequestError

uv = pytest.mark.skipif(not shutil.which("uv"), reason="needs uv: pip install uv")

# Builds without packages of an index.
_BACKEND = """
import os, zipfile

def _wheel(directory, content):
    name = "mine-1-py3-none-any.whl"
    info = {
        "METADATA": "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n",
        "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(os.path.join(directory, name), "w") as file:
        for path, text in content.items():
            file.writestr(path, text)
        for path, text in info.items():
            file.writestr("mine-1.dist-info/" + path, text)
    return name

def build_editable(directory, config_settings=None, metadata_directory=None):
    return _wheel(directory, {"mine.pth": os.getcwd() + "\\n"})

build_wheel = build_editable
"""


@pytest.fixture
def project(tmp_path, make_wheel):
    """Return a locked project, whose extra and group are a local wheel."""
    directory = tmp_path / "my project"
    directory.mkdir()
    wheel = make_wheel("kind = 'extra'\n").as_uri()
    (directory / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = []\n'
        f'[project.optional-dependencies]\nFast_Math = ["tool @ {wheel}"]\n'
        f'[dependency-groups]\nlate = ["tool @ {wheel}"]\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (directory / "backend.py").write_text(_BACKEND)
    (directory / "mine.py").write_text("value = 1\n")
    lock(directory)
    return directory


def lock(directory):
    subprocess.run(["uv", "lock", "--quiet", "--offline"], cwd=directory, check=True)


def imported(path, *modules):
    """Return of each module whether an environment has it."""
    code = "import importlib.util as u, sys\nfor n in sys.argv[1:]: print(bool(u.find_spec(n)))"
    done = subprocess.run(
        [path / "bin/python", "-I", "-c", code, *modules],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line == "True" for line in done.stdout.split()]


@uv
@pytest.mark.parametrize(("is_locked", "is_package"), [(True, True), (True, False), (False, False)])
def test_extras_and_groups_are_installed_where_they_are_named(
    project, tmp_path, is_locked, is_package
):
    if not is_package:
        file = project / "pyproject.toml"
        file.write_text(file.read_text().partition("[build-system]")[0])
        lock(project)
    if not is_locked:
        (project / "uv.lock").unlink()
    built = {
        build_venv(ProjectSpec("my project", **more), tmp_path, tmp_path / "venvs"): more
        for more in ({}, {"extras": ("fast-math",)}, {"groups": ("late",)})
    }
    assert len(built) == 3
    for path, more in built.items():
        assert imported(path, "mine", "tool") == [is_package, bool(more)]
    assert (project / "uv.lock").exists() == is_locked


@uv
@pytest.mark.parametrize("is_locked", [True, False])
def test_the_default_group_is_installed_with_a_lock_and_without(project, tmp_path, is_locked):
    file = project / "pyproject.toml"
    file.write_text(file.read_text().replace("late =", "dev ="))
    lock(project)
    if not is_locked:
        (project / "uv.lock").unlink()
    path = build_venv(ProjectSpec("my project/pyproject.toml"), tmp_path, tmp_path / "venvs")
    assert imported(path, "tool") == [True]


@uv
def test_settings_of_uv_are_the_projects_and_not_of_where_tarmac_starts(
    project, tmp_path, make_wheel, monkeypatch
):
    wheel = make_wheel("kind = 'found'\n")
    (project / "uv.lock").unlink()
    text = (project / "pyproject.toml").read_text()
    settings = f'[tool.uv]\nno-index = true\nfind-links = ["{wheel.parent}"]\n'
    dependent = text.replace("dependencies = []", 'dependencies = ["tool"]', 1)
    (project / "pyproject.toml").write_text(dependent + settings)
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "venvs"
    elsewhere.mkdir()
    (elsewhere / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\n[tool.uv]\nconstraint-dependencies = ["tool==9"]\n'
    )
    monkeypatch.chdir(elsewhere)
    assert imported(build_venv(ProjectSpec("my project"), tmp_path, root), "tool") == [True]
    venv = build_venv(VenvSpec((f"tool @ {wheel.as_uri()}",)), tmp_path, root)
    assert imported(venv, "tool") == [True]


@uv
def test_a_member_of_a_workspace_has_what_the_workspaces_lock_says(project, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["my*"]\n')
    (project / "uv.lock").unlink()
    unlocked = build_venv(ProjectSpec("my project"), tmp_path, tmp_path / "venvs")
    lock(tmp_path)
    locked = build_venv(ProjectSpec("my project"), tmp_path, tmp_path / "venvs")
    assert locked != unlocked
    assert imported(locked, "mine") == [True]


@uv
def test_a_package_without_a_lock_is_linked_to(project, tmp_path):
    (project / "uv.lock").unlink()
    spec = ProjectSpec("my project", groups=("late",))
    path = build_venv(spec, tmp_path, tmp_path / "venvs")
    assert imported(path, "mine", "tool") == [True, True]
    assert not (project / "uv.lock").exists()


@uv
def test_the_lock_makes_another_environment_and_the_code_is_linked_to(project, tmp_path):
    spec, root = ProjectSpec(str(project)), tmp_path / "venvs"
    path = build_venv(spec, tmp_path, root)
    (project / "mine.py").write_text("value = 2\n")
    assert build_venv(spec, tmp_path, root) == path
    told = subprocess.check_output([path / "bin/python", "-c", "import mine; print(mine.value)"])
    assert told == b"2\n"
    with (project / "uv.lock").open("a") as file:
        file.write("# another\n")
    assert build_venv(spec, tmp_path, root) != path


@uv
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"extras": ("fast",)}, r"the project has no extra 'fast'"),
        ({"groups": ("dev",)}, r"the project has no group 'dev'"),
        ({"path": "nowhere"}, r"nowhere/pyproject\.toml: No such file"),
        ({"path": "nowhere.py"}, r"nowhere\.py: No such file"),
        ({"path": "tool-1.0-py3-none-any.whl"}, r"pyproject\.toml: Not a directory"),
    ],
)
def test_what_a_project_lacks_is_named(project, tmp_path, more, words):
    with pytest.raises(RequestError, match=words):
        build_venv(ProjectSpec(**({"path": "my project"} | more)), tmp_path, tmp_path / "venvs")


@uv
@pytest.mark.parametrize("columns", ["20", "200"])
def test_a_python_that_is_not_here_is_named(project, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    file = project / "pyproject.toml"
    file.write_text(file.read_text().replace(">=3.9", ">=3.99"))
    with pytest.raises(RequestError, match=r">=3\.99") as raised:
        build_venv(ProjectSpec("my project"), tmp_path, tmp_path / "venvs")
    assert "uv python install" in raised.value.hint


def test_without_uv_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequestError, match="by uv, which is not here") as raised:
        build_venv(ProjectSpec("."), tmp_path, tmp_path / "venvs")
    assert "pip install uv" in raised.value.hint


def script(*lines):
    return "".join(f"{line}\n" for line in ("import os", "# /// script", *lines, "# ///"))


def test_a_script_gets_what_it_lists(tmp_path, make_wheel):
    wheel = make_wheel("kind = 'script'\n")
    (tmp_path / "train.py").write_text(
        script("# requires-python = '>=3.9'", f"# dependencies = ['tool @ {wheel.as_uri()}']")
    )
    path = build_venv(ProjectSpec("train.py"), tmp_path, tmp_path / "venvs")
    assert imported(path, "tool", "tarmac") == [True, False]


@uv
def test_a_script_keeps_its_settings_of_uv(tmp_path, make_wheel):
    wheel = make_wheel("kind = 'script'\n")
    settings = ["# [tool.uv]", "# no-index = true", f"# find-links = ['{wheel.parent}']"]
    (tmp_path / "my train.py").write_text(script("# dependencies = ['tool']", *settings))
    path = build_venv(ProjectSpec("my train.py"), tmp_path, tmp_path / "venvs")
    assert imported(path, "tool", "tarmac") == [True, False]
    assert build_venv(ProjectSpec("my train.py"), tmp_path, tmp_path / "venvs") == path


@uv
def test_a_lock_beside_a_script_says_what_it_gets(tmp_path, make_wheel):
    wheel = make_wheel("kind = 'script'\n")
    file = tmp_path / "train.py"
    file.write_text(
        script("# requires-python = '>=3.9'", f"# dependencies = ['tool @ {wheel.as_uri()}']")
    )
    unlocked = build_venv(ProjectSpec("train.py"), tmp_path, tmp_path / "venvs")
    subprocess.run(["uv", "lock", "--quiet", "--offline", "--script", file], check=True)
    locked = build_venv(ProjectSpec("train.py"), tmp_path, tmp_path / "venvs")
    assert locked != unlocked
    assert imported(locked, "tool") == [True]
    # Of a file that was changed, it stays what is installed.
    file.write_text(script("# requires-python = '>=3.9'", "# dependencies = ['another']"))
    assert imported(build_venv(ProjectSpec("train.py"), tmp_path, tmp_path / "venvs"), "tool") == [
        True
    ]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("print(1)\n", None),
        ("# /// other\n# x = 1\n# ///\n", None),
        (script("# dependencies = []"), ScriptNeeds(())),
        (script("#", "# dependencies = [", "#   'six',", "# ]"), ScriptNeeds(("six",))),
        (script("# requires-python = '>=3.12'"), ScriptNeeds((), ">=3.12")),
        (script("# [tool.uv]", "# no-index = true"), ScriptNeeds((), is_for_uv=True)),
        # The last end that fits is the block's.
        ("# /// script\n# a = '''\n# ///\n# '''\n# ///\n", ScriptNeeds(())),
    ],
)
def test_what_a_script_lists_is_read(tmp_path, text, needs):
    path = tmp_path / "s.py"
    path.write_text(text)
    assert read_script(path) == needs


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["# dependencies = ["], "Invalid value"),
        (["# x = 1", "#  y z"], "Expected '=' after a key"),
        (["# dependencies = 3"], "expected a list of requirements"),
        (["# dependencies = ['six ==']"], "Expected"),
        (["# requires-python = 'new'"], "Invalid specifier"),
        (["# requires-python = 3"], "expected a text"),
        (["# x = 1", "# ///", "", "# /// script", "# y = 1"], "second block"),
        (["# x = 1", "# ///", "# /// script", "# y = 1"], "second block"),
    ],
)
def test_a_list_of_another_form_is_refused_with_its_place(tmp_path, lines, words):
    path = tmp_path / "s.py"
    path.write_text(script(*lines))
    with pytest.raises(RequestError, match=rf"s\.py:\d+(:\d+)?: .*{words}"):
        read_script(path)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["# x = 1", "#  y z"], "4:6"),
        (["# dependencies = ["], "2"),
        (["# x = 1", "# ///", "# /// script", "# y = 1"], "5"),
    ],
)
def test_what_is_wrong_in_a_block_is_told_with_its_line_in_the_script(tmp_path, lines, place):
    path = tmp_path / "s.py"
    path.write_text(script(*lines))
    with pytest.raises(RequestError, match=rf"s\.py:({place}): "):
        read_script(path)


def test_a_script_without_a_list_is_refused_and_so_are_extras_of_one(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("print(1)\n")
    with pytest.raises(RequestError, match="does not say what it needs"):
        build_venv(ProjectSpec("s.py"), tmp_path, tmp_path / "venvs")
    with pytest.raises(RequestError, match="no extras"):
        build_venv(ProjectSpec("s.py", extras=("x",)), tmp_path, tmp_path / "venvs")


def test_a_script_for_this_python_needs_no_uv(tmp_path, monkeypatch):
    (tmp_path / "s.py").write_text(
        script(f"# requires-python = '=={sys.version_info[0]}.*'", "# dependencies = []")
    )
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = build_venv(ProjectSpec("s.py"), tmp_path, tmp_path / "venvs")
    assert (path / "bin/python").exists()
