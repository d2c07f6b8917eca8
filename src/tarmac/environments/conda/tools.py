"""Build conda environments with conda, mamba or micromamba."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tarmac.environments.conda.files import CondaFile, read_conda_file
from tarmac.environments.installer import run_installer
from tarmac.errors import RequestError, TarmacError
from tarmac.files import parse_json, write_text

_ANSWER_S = 60

# Disables questions to the user: no single flag does so for all commands of these tools.
_ASKS_NOTHING = {"CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToolRecipe:
    """A recipe for conda, mamba or micromamba; see `tarmac.environments.venvs.Recipe`.

    Attributes:
        key: Digest of everything that determines the packages, including the tool.
        file: Parsed file that lists the packages.
        program: Path of conda, mamba or micromamba.
    """

    key: str
    file: CondaFile
    program: str

    def install(self, path: Path) -> None:
        """Build the environment from scratch; ``requirements.txt`` is written last.

        Raises:
            TarmacError: The build failed. The message contains the tool's error.
        """
        shutil.rmtree(path, ignore_errors=True)
        # In conda, only `env create` reads an environment.yml, and only `create` the other forms.
        verb = ("env", "create") if self.file.form == "yml" else ("create",)
        place = ("--file", str(self.file.path), "--prefix", str(path))
        run_installer([self.program, *verb, "--quiet", *place], path.parent, _ASKS_NOTHING)
        names = sorted(file.stem for file in path.glob("conda-meta/*.json"))
        write_text(path / "requirements.txt", "".join(f"{name}\n" for name in names))


def read_for_tool(path: Path, tool: str) -> ToolRecipe:
    """Return the recipe of an environment, with everything that determines its key.

    Args:
        path: File that lists the packages.
        tool: Name of the program: ``conda``, ``mamba`` or ``micromamba``.

    Raises:
        RequestError: The file or the tool does not exist, or the file has an unknown form.
        TarmacError: The tool gives no answer about this machine.
    """
    program = shutil.which(tool)
    if program is None:
        raise RequestError(
            f"environment: {tool} is not on the PATH",
            hint="Leave tool out: Tarmac builds environments of conda's by itself.",
        )
    machine = _machine(program)
    file = read_conda_file(path, str(machine.get("platform")))
    content = (
        tool,
        file.text,
        file.pip.content() if file.pip is not None else "",
        machine.get("platform"),
        # The first key is conda's, the second that of mamba and micromamba.
        machine.get("virtual_pkgs"),
        machine.get("virtual packages"),
        # Relative paths depend on the file's directory.
        str(path.parent) if file.has_paths else "",
    )
    key = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return ToolRecipe(key=key, file=file, program=program)


def _machine(program: str) -> dict[str, Any]:
    command = [program, "info", "--json"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_S,
            check=True,
        )
        content = parse_json(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise TarmacError(f"environment: {' '.join(command)}: no answer: {error}") from error
    if not isinstance(content, dict):
        raise TarmacError(f"environment: {' '.join(command)}: no answer that can be read")
    return content
