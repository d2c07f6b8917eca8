"""The agent packed into one file that needs only Python and travels with a run."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import marshal
import os
import shlex
import sys
import zipfile
from pathlib import Path

from tarmac.node.durable import replace_file

_PACKAGE = Path(__file__).parents[1]

# Prefix of the archive for `sh agent.pyz`: finds a Python, or prints what is missing. The agent
# ignores the user's Python settings (-I -S); its program inherits them. The Python that packed the
# agent comes first: only that version reads the compiled modules, and its path avoids the wrapper
# of a version manager, which takes twice as long as the whole agent.
_PREFIX = """\
#!/bin/sh
# Tarmac's agent: sh agent.pyz SPEC UNIT [PER_JOB]
for python in {own} python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
  case $("$python" -V 2>&1) in
  "Python 3.9"* | "Python 3."[1-9][0-9]*)
    exec "$python" -I -S -c '
import sys
del sys.argv[0]
sys.path.insert(0, sys.argv[0])
from tarmac.node.main import run
run()
' "$0" "$@" ;;
  esac
done
echo "tarmac: no Python 3.9 or newer is on ${{SLURMD_NODENAME:-$(hostname)}}" >&2
echo "tarmac: python3 there: $(python3 -V 2>&1)" >&2
echo "tarmac: load one before, as by options: {{slurm: {{setup: [module load python]}}}}" >&2
exit 127
"""

# Valid in any Python version, so that an old Python can print the error.
_MAIN = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("tarmac: the agent needs Python 3.9 or newer; this is %s" % sys.version.split()[0])
from tarmac.node.main import run
run()
"""

_ROOMS = ("node", "processes")
_MODULES = ("control_groups.py", "lazy.py", "process_ids.py")


def agent_file(run: Path) -> Path:
    """Return the path of the agent in the directory of a run that this version started."""
    return run / "agent.pyz"


def place_agent(run: Path) -> Path:
    """Write this version's agent into a run's directory if it is missing, and return its path.

    The agent of another version that started the run stays beside it: queued and running attempts
    read it.

    Args:
        run: Directory of the run, which must exist.

    Raises:
        OSError: The agent cannot be read or written.
    """
    path, content = agent_file(run), _packed()
    if path.exists() and path.read_bytes() != content:
        digest = hashlib.sha256(content).hexdigest()[:8]
        path = path.with_name(f"{path.stem}-{digest}{path.suffix}")
    if not path.exists():
        _write(path, content)
    return path


def write_agent(path: Path, *, python: str = sys.executable) -> None:
    """Write the agent, with reproducible bytes for a version of Tarmac and an interpreter.

    Args:
        path: File to write, which both ``sh`` and ``python3`` can run.
        python: Interpreter that ``sh`` tries first. Default: this process's interpreter.

    Raises:
        OSError: The file cannot be written.
    """
    _write(path, _packed(python))


def small_agent() -> bytes:
    """Return the agent as the smallest file for ``python3``: compressed sources.

    It has no part for ``sh``, and takes twice as long to start.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in sorted(_sources().items()):
            packed.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 9)
    return archive.getvalue()


def _sources() -> dict[str, str]:
    # The real __init__ of `tarmac` and of `tarmac.node` would load modules that no agent needs.
    content = {"__main__.py": _MAIN, "tarmac/__init__.py": "", "tarmac/node/__init__.py": ""}
    sources = [_PACKAGE / name for name in _MODULES]
    for room in _ROOMS:
        sources += (_PACKAGE / room).glob("*.py")
    for source in sources:
        name = str(Path("tarmac", source.relative_to(_PACKAGE)))
        content.setdefault(name, source.read_text(encoding="utf-8"))
    return content


def _packed(python: str = sys.executable) -> bytes:
    archive = io.BytesIO()
    archive.write(os.fsencode(_PREFIX.format(own=shlex.quote(python))))
    # Not compressed, because compressed bytes differ between machines.
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_STORED) as packed:
        for name, text in sorted(_sources().items()):
            packed.writestr(zipfile.ZipInfo(name), text)
            with contextlib.suppress(ValueError):
                packed.writestr(zipfile.ZipInfo(f"{name}c"), _compiled(name, text))
    return archive.getvalue()


def _write(path: Path, content: bytes) -> None:
    replace_file(path, content)
    path.chmod(0o755)


def _compiled(name: str, text: str) -> bytes:
    """Return the bytecode of a module for this version of Python; other versions use the source.

    Bytecode nearly halves the start of an agent: 0.07 s of CPU time instead of 0.12 s (Python 3.11,
    one core of an AMD EPYC).

    Raises:
        ValueError: The module has a constant that the marshal format does not support.
    """
    code = compile(text, name, "exec", dont_inherit=True)
    # PEP 552: Python never compares it with the source. Marshal version 2 has reproducible bytes.
    is_unchecked = (1).to_bytes(4, "little") + bytes(8)
    return importlib.util.MAGIC_NUMBER + is_unchecked + marshal.dumps(code, 2)
