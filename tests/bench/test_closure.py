"""What is brought to a machine without a network is what it lacks, in versions that fit."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import wheels
from gpu_driver import CannotRunError
from gpu_driver.closure import LEFT_OUT, Package, close, roots_of
from gpu_driver.site import prepare

pytest.importorskip("optuna", reason="needs pip install 'tarmac-gpu[search]'")

ROOT = Path(wheels.__file__).parents[1]
LINUX = {"sys_platform": "linux", "python_version": "3.12"}


def package(name: str, version: str, *requires: str) -> Package:
    return Package(name, version, requires)


def closed(roots: list[str], here: list[Package], carried: list[Package]):
    mine, theirs = ({p.name: p for p in packages} for packages in (carried, here))
    return close(roots, theirs.get, mine.get, LINUX)


def test_what_is_here_and_new_enough_is_left_alone():
    here = [package("click", "8.3", "colorama; sys_platform == 'win32'")]
    found = closed(["click>=8.2"], here, [package("click", "8.5")])
    assert (found.brought, found.unmet) == (frozenset(), ())
    assert found.chosen["click"].version == "8.3"


def test_what_is_missing_or_too_old_is_brought_with_all_that_it_needs():
    carried = [package("alembic", "1.20", "Mako>=1.3"), package("mako", "1.4"), package("x", "2")]
    found = closed(["alembic", "x>=2"], [package("x", "1")], carried)
    assert (found.brought, found.unmet) == ({"alembic", "mako", "x"}, ())


def test_packages_that_only_fit_together_are_replaced_together():
    here = [package("pydantic", "2.0", "pydantic_core==2.0"), package("pydantic-core", "2.0")]
    ours = [package("pydantic", "2.14", "pydantic-core==2.50"), package("pydantic-core", "2.50")]
    assert closed(["pydantic>=2"], here, ours).brought == frozenset()
    # Its partner is looked at before and after the one that makes it too old.
    for roots in (["pydantic>=2.11", "pydantic-core"], ["pydantic-core", "pydantic>=2.11"]):
        assert closed(roots, here, ours).brought == {"pydantic", "pydantic-core"}


def test_extras_and_markers_are_those_of_the_machine_that_it_goes_to():
    here = [package("server", "5", "flask; extra == 'all'", "old; python_version < '3.12'")]
    assert closed(["server[all]"], here, []).unmet == ("flask; extra == 'all'",)
    assert closed(["server"], here, []).unmet == ()


def test_pytorch_and_numpy_are_never_brought():
    assert {"torch", "numpy"} <= LEFT_OUT
    carried = [package("torch", "2.11"), package("numpy", "2.4")]
    assert closed(["torch>=2.11", "numpy"], [], carried).brought == frozenset()


def test_the_project_needs_what_its_extras_name_and_those_they_refer_to():
    roots = roots_of(ROOT / "pyproject.toml", ("search",))
    names = {text.split(">=")[0] for text in roots}
    assert {"click", "torch", "safetensors", "optuna"} <= names
    assert not any(name.startswith("tarmac") for name in names)


@pytest.mark.parametrize("python", wheels.PYTHONS.split(","))
def test_a_machine_of_any_tested_python_is_brought_pinned_versions(python):
    needed = wheels.needed(python, "x86_64")
    pins = wheels.pins()
    # What a usual image of PyTorch lacks, and what Tarmac cannot start without.
    assert {"pydantic", "pydantic-core", "optuna", "sqlalchemy", "cloup", "ruamel-yaml"} <= set(
        needed
    )
    assert {name: pins[name] for name in needed} == needed
    assert not LEFT_OUT & set(needed)


def wheel(directory: Path, name: str, version: str, *requires: str) -> None:
    """Make a wheel of one module."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    with zipfile.ZipFile(directory / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name.replace('-', '_')}.py", f"VERSION = {version!r}\n")
        info = f"{stem}.dist-info"
        archive.writestr(f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", *lines, ""]))
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")


def project(root: Path, *needs: str) -> Path:
    named = ", ".join(f'"{need}"' for need in needs)
    extras = "\n".join(f"{name} = []" for name in ("train", "search", "test"))
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "p"\ndependencies = [{named}]\n'
        f"[project.optional-dependencies]\n{extras}\n"
    )
    (root / "wheels").mkdir()
    return root


def test_missing_packages_are_installed_from_wheels_without_a_network(tmp_path):
    root = project(tmp_path, "pluggy", "absent-one>=1")
    wheel(root / "wheels", "absent-one", "1.5", "absent-two")
    wheel(root / "wheels", "absent-two", "3")
    wheel(root / "wheels", "pluggy", "99")
    site = root / ".gpu" / "site"
    closure = prepare(root, root / "wheels", site)
    assert closure.brought == {"absent-one", "absent-two"}
    program = "import absent_one, absent_two; print(absent_one.VERSION, absent_two.VERSION)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.5 3\n"
    assert not (site / "pluggy.py").exists()
    # A second time nothing is installed: what is there stays as it is.
    (site / "absent_one.py").write_text("changed")
    prepare(root, root / "wheels", site)
    assert (site / "absent_one.py").read_text() == "changed"


def test_what_is_neither_here_nor_among_the_wheels_is_named_with_what_to_do(tmp_path):
    root = project(tmp_path, "absent-one>=1")
    wheel(root / "wheels", "absent-one", "0.5")
    with pytest.raises(CannotRunError, match=r"absent-one>=1\n.*make wheels"):
        prepare(root, root / "wheels", root / "site")


def test_a_wheel_that_pip_refuses_leaves_nothing_half_installed(tmp_path):
    root = project(tmp_path, "absent-one")
    wheel(root / "wheels", "absent-one", "1")
    path = root / "wheels" / "absent_one-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../outside.py", "")
    with pytest.raises(CannotRunError, match="pip could not install"):
        prepare(root, root / "wheels", root / "site")
    assert not (root / "site").exists()
