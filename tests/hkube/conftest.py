"""Packages of Node.js, installed once into the user's cache."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kept import install, kept


@pytest.fixture(scope="session")
def node_packages() -> Callable[..., Path]:
    """Return what installs packages, named as ``name@version``, and returns their folder.

    Other versions of what they require are given by name, as ``zeromq="6.4.2"``.
    """

    def give(*packages: str, **overrides: str) -> Path:
        if shutil.which("node") is None or shutil.which("npm") is None:
            pytest.skip("no Node.js is here; provide it: sudo apt install nodejs npm")
        wanted = dict(package.rsplit("@", 1) for package in packages)
        manifest = {"private": True, "dependencies": wanted, "overrides": overrides}
        text = json.dumps(manifest)
        with kept(f"npm-{hashlib.sha256(text.encode()).hexdigest()[:12]}") as (path, unfinished):
            if unfinished is not None:
                (unfinished / "package.json").write_text(text)
                options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", unfinished)
                install(f"{', '.join(packages)} for Node.js", ["npm", "install", *options])
        return path / "node_modules"

    return give
