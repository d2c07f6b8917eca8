"""Draws train.svg from what `tarmac train` really prints: python docs/images/render.py."""

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

COMMAND = ["tarmac", "train", "digits-mlp", "--verify"]
SHOWN_EPOCHS = 4


def main() -> None:
    """Run the command on a terminal of its own, and draw its first and last lines."""
    tarmac = str(Path(sys.executable).parent / "tarmac")
    with tempfile.TemporaryDirectory() as directory:
        reader, writer = pty.openpty()
        environment = os.environ | {"COLUMNS": "110", "LINES": "50", "TERM": "xterm-256color"}
        with subprocess.Popen(
            [tarmac, *COMMAND[1:]], cwd=directory, stdout=writer, stderr=writer, env=environment
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
    kept = [text for text in texts if "━" not in text.plain]
    first = next(i for i, text in enumerate(kept) if text.plain.startswith("epoch  1/"))
    last = max(i for i, text in enumerate(kept) if text.plain.startswith("epoch "))
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(f"[bold green]$[/] {' '.join(COMMAND)}", highlight=False)
    for text in (*kept[: first + SHOWN_EPOCHS], Text("..."), *kept[last:]):
        console.print(text)
    console.save_svg(str(Path(__file__).parent / "train.svg"), title="tarmac")


if __name__ == "__main__":
    main()
