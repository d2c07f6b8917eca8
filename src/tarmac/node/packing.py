"""The agent as one file, which needs nothing but Python: it travels with a run."""

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

# Before the archive, for `sh agent.pyz`: finds a Python, or says what is missing. What it does not
# inherit from the user's settings of Python, its program does. The Python that has packed it comes
# first: it reads its compiled modules, and by its path no wrapper of a version manager is asked,
# which takes twice as long as all that the agent does.
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

# Understood by any Python, so that an old one can say what is wrong.
_MAIN = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("tarmac: the agent needs Python 3.9 or newer; this is %s" % sys.version.split()[0])
from tarmac.node.main import run
run()
"""

_ROOMS = ("node", "processes")
_MODULES = ("control_groups.py", "lazy.py")


def agent_file(run: Path) -> Path:
    """Return the agent's file in the directory of a run that was begun by this version."""
    return run / "agent.pyz"


def place_agent(run: Path) -> Path:
    """Have this version's agent in a run's directory, and return its file.

    The one of another version, which has begun the run, stays as it is beside it: what is queued or
    at work reads it.

    Args:
        run: The directory, which is there.

    Raises:
        OSError: It cannot be read or written.
    """
    path, content = agent_file(run), _packed()
    if path.exists() and path.read_bytes() != content:
        digest = hashlib.sha256(content).hexdigest()[:8]
        path = path.with_name(f"{path.stem}-{digest}{path.suffix}")
    if not path.exists():
        _write(path, content)
    return path


def write_agent(path: Path, *, python: str = sys.executable) -> None:
    """Write the agent; the same bytes each time for one version of Tarmac and one interpreter.

    Args:
        path: Gets a file for ``sh`` and for ``python3``.
        python: The interpreter that ``sh`` tries first; by default this process's.

    Raises:
        OSError: It cannot be written.
    """
    _write(path, _packed(python))


def small_agent() -> bytes:
    """Return the agent as a file for ``python3`` that is as small as can be: sources, compressed.

    It has no lines for ``sh``, and starts in twice the time.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in sorted(_sources().items()):
            packed.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 9)
    return archive.getvalue()


def _sources() -> dict[str, str]:
    # The faces of `tarmac` and `tarmac.node` would load what no agent needs.
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
    # Not compressed: what compresses differs between machines.
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
    """Return a module as this version of Python reads it at once; others take the source.

    It halves what the beginning of an agent costs: 0.07 s of a processor instead of 0.12 s (Python
    3.11, one core of an AMD EPYC).

    Raises:
        ValueError: It holds a constant that this format does not know.
    """
    code = compile(text, name, "exec", dont_inherit=True)
    # PEP 552: never compared with the source. The older format is the same in each process.
    is_unchecked = (1).to_bytes(4, "little") + bytes(8)
    return importlib.util.MAGIC_NUMBER + is_unchecked + marshal.dumps(code, 2)
