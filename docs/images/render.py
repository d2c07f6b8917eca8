"""Draws what Tarmac really prints: python docs/images/render.py [check] [train].

`check` makes an environment with a defect that many have met: MXNet 1.9.1 with a NumPy that came
after it. It needs uv and a package index; `train` needs nothing.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 110
SHOWN_EPOCHS = 4
BROKEN = ("mxnet==1.9.1", "numpy==1.26.4")


def main() -> None:
    """Draw the pictures that are named; both by default."""
    draw = {"check": draw_check, "train": draw_train}
    for name in sys.argv[1:] or draw:
        draw[name]()


def draw_check() -> None:
    """Check an environment that does not work, beside Tarmac's own."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["uv", "venv", "--quiet", "old"], cwd=directory, check=True)
        python = "old/bin/python"
        install = ["uv", "pip", "install", "--quiet", "--python", python, *BROKEN]
        subprocess.run(install, cwd=directory, check=True)
        command = ["tarmac", "check", "mxnet", "--python", python]
        _draw("check", command, _run(command, Path(directory)))


def draw_train() -> None:
    """Train, and leave out most epochs."""
    command = ["tarmac", "train", "digits-mlp", "--verify"]
    with tempfile.TemporaryDirectory() as directory:
        kept = _run(command, Path(directory))
    first = next(i for i, text in enumerate(kept) if text.plain.startswith("epoch  1/"))
    last = max(i for i, text in enumerate(kept) if text.plain.startswith("epoch "))
    _draw("train", command, [*kept[: first + SHOWN_EPOCHS], Text("..."), *kept[last:]])


def _run(command: list[str], directory: Path) -> list[Text]:
    """Run a command on a terminal of its own, and return the lines that stay on it."""
    tarmac = str(Path(sys.executable).parent / "tarmac")
    reader, writer = pty.openpty()
    size = {"COLUMNS": str(WIDTH), "LINES": "50", "TERM": "xterm-256color"}
    with subprocess.Popen(
        [tarmac, *command[1:]], cwd=directory, stdout=writer, stderr=writer, env=os.environ | size
    ):
        os.close(writer)
        printed = b""
        while True:
            try:
                printed += os.read(reader, 4096)
            except OSError:
                # A terminal's end is an error on Linux, once its last writer is gone.
                break
    # The live bars are drawn and erased; what stays is what they never overwrote.
    lines = [
        line.split("\x1b[2K")[-1].split("\r")[-1]
        for line in printed.decode().replace("\r\n", "\n").split("\n")
    ]
    texts = [text for text in map(Text.from_ansi, lines) if text.plain.strip()]
    return [text for text in texts if "━" not in text.plain]


def _draw(name: str, command: list[str], lines: list[Text]) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(f"[bold green]$[/] {' '.join(command)}", highlight=False)
    for text in lines:
        console.print(text)
    console.save_svg(str(Path(__file__).parent / f"{name}.svg"), title="tarmac")


if __name__ == "__main__":
    main()
