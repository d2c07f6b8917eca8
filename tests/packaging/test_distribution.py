"""One place says what the distribution is called, and every hint takes it from there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, metadata
from pathlib import Path

import pytest

import tarmac
from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.distribution import DISTRIBUTION, SCRIPTS, MissingExtraError, explained_imports, require
from tarmac.errors import TarmacError

_ROOT = Path(__file__).parents[2]
MAPPED = (
    "a library does not fit into memory: libtorch_cpu.so: failed to map segment from shared object"
)
NO_FORK = OSError(12, "Cannot allocate memory")
_SOURCES = sorted((_ROOT / "src").rglob("*.py"))
_PAGES = [*sorted((_ROOT / "docs").glob("*.md")), _ROOT / "README.md", _ROOT / "CONTRIBUTING.md"]


def _project() -> dict:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]


def test_the_distribution_is_called_what_the_hints_say():
    assert _project()["name"] == DISTRIBUTION
    assert set(_project()["scripts"]) | {"__main__.py"} == set(SCRIPTS)
    assert tarmac.__version__ == _project()["version"] == metadata(DISTRIBUTION)["Version"]


def test_no_other_module_words_an_install_hint_of_its_own():
    # `tarmac` on the package index is somebody else's.
    hint = re.compile(
        r"pip install[^\n]*\btarmac\b|tarmac(-gpu)?\[|uv (pip|tool) install[^\n]*tarmac"
    )
    own = _ROOT / "src/tarmac/distribution.py"
    wrong = [str(path) for path in _SOURCES if path != own and hint.search(path.read_text())]
    assert wrong == []


def test_the_docs_name_the_distribution_where_they_install_it():
    command = re.compile(r"(?:pip|tool) install[^\n]*?['\" ](tarmac[\w-]*)\b|uvx (tarmac[\w-]*)")
    named = {
        (path.name, name)
        for path in _PAGES
        for found in command.finditer(path.read_text())
        for name in found.groups()
        if name is not None
    }
    assert {name for _, name in named} <= {DISTRIBUTION}, named


def test_each_package_that_is_named_when_missing_is_in_its_extra():
    from tarmac import distribution

    extras = _project()["optional-dependencies"]
    for module, package in distribution._PACKAGES.items():
        names = [re.match(r"[\w-]+", text)[0] for text in extras[package.extra]]
        # A module may be a part of a package of another name, as BSON is of pymongo.
        assert {module.replace("_", "-"), package.name} & {*names}


def test_extras_name_each_package_once():
    extras = _project()["optional-dependencies"]
    listed = [
        re.match(r"[\w-]+", text)[0]
        for extra in (*extras.values(), _project()["dependencies"])
        for text in extra
        # What one Python alone needs, tests may need for another one's sake.
        if not text.startswith(DISTRIBUTION) and "python_full_version" not in text
    ]
    assert sorted(set(listed)) == sorted(listed)


def test_a_missing_package_is_named_with_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"^s3://b/k: object stores need obstore") as caught:
        require("obstore", "s3://b/k")
    assert caught.value.hint == f"pip install '{DISTRIBUTION}[objects]'"
    assert caught.value.exit_code == 2


def test_a_module_that_no_extra_brings_is_left_to_python():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), explained_imports():
        import no_such_module  # noqa: F401


@pytest.mark.parametrize(
    ("error", "message", "limit"),
    [
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), MAPPED, "-v"),
        (OSError("libtorch_cpu.so: failed to map segment from shared object"), MAPPED, "-v"),
        (
            ImportError(
                "\nIMPORTANT: READ THIS\n\nOriginal error was: libtorch_cpu.so: failed to map "
                "segment from shared object\n"
            ),
            MAPPED,
            "-v",
        ),
        (MemoryError(), "out of memory", "-v"),
        (MemoryError("Unable to allocate 9 TiB"), "out of memory: Unable to allocate 9 TiB", "-v"),
        (NO_FORK, f"out of memory: {NO_FORK}", "-v"),
        (RuntimeError("can't start new thread"), "no more threads can be started", "-u"),
    ],
)
def test_a_limit_of_the_process_is_named_where_it_ends_an_import(error, message, limit):
    with pytest.raises(TarmacError) as caught, explained_imports():
        raise error
    assert (caught.value.message, caught.value.exit_code) == (message, 1)
    assert f"ulimit {limit}" in caught.value.hint
    for code in re.findall(r"--explain (\S+)", caught.value.hint):
        assert code in read_catalogue()


def test_an_error_that_no_limit_has_caused_is_left_as_it_is():
    for error in (ImportError("libx.so: undefined symbol"), OSError(2, "none"), RuntimeError("x")):
        with pytest.raises(type(error)) as caught, explained_imports():
            raise error
        assert caught.value is error


def test_code_on_pythonpath_works_without_an_installation(tmp_path):
    # As on a machine without a network, where the repository was copied to.
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(str(distribution(DISTRIBUTION).locate_file(""))).iterdir():
        # A check without PyTorch is as good here, and imports it not.
        if not path.name.startswith(("tarmac", "torch")) and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    copied = tmp_path / "copied"
    copied.mkdir()
    (copied / "tarmac").symlink_to(_ROOT / "src" / "tarmac")
    program = (
        "import tarmac, sys; from pathlib import Path\n"
        "from tarmac.checks import quick_check\n"
        "print(tarmac.__version__, quick_check(Path(sys.argv[1])).schema_version)"
    )

    def version_from(source: Path) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-S", "-c", program, str(tmp_path / "cache")],
            env=os.environ | {"PYTHONPATH": f"{source}:{packages}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert version_from(_ROOT / "src") == [_project()["version"], "3"]
    # The path of the code itself leads nowhere.
    assert version_from(copied) == ["0+unknown", "3"]
