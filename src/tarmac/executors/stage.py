"""Staging for an agent: ``python -m tarmac.executors.stage PHASE WORK [OUTCOME EXIT_CODE]``.

The agent writes a `NodeRequest` to standard input and reads a `NodeAnswer` from standard output,
one JSON object each. WORK is the task's directory on this node. The phases:

- ``in``: bring the inputs and make the environment, before the program;
- ``environment``: only make the environment, on the further nodes of a task that share WORK;
- ``out``: keep the outputs, after the program; OUTCOME is ``succeeded`` or ``failed``, EXIT_CODE
  a number or ``none``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tarmac.errors import TarmacError, short_reason
from tarmac.executors.node_staging import NodeAnswer, NodeRequest
from tarmac.masking import remember_environment, without_known


def main() -> None:
    """Perform the phase; errors go into the answer, and the exit code is always 0."""

    def end(*_: object) -> None:
        # An exception unwinds the stack, which removes logins and partial files.
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    # Libraries and installers print to standard output, which must hold only the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    answer = _answer(sys.argv[1:], sys.stdin.buffer.read().decode())
    with open(answers, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(answer.to_text() + "\n")
        file.flush()
        # Exit at once: a normal exit would wait for threads of libraries.
        os._exit(0)


def _answer(arguments: list[str], text: str) -> NodeAnswer:
    phase, work, *end = arguments
    try:
        request = NodeRequest.from_text(text)
        os.environ.update(request.client_variables())
        if phase == "out":
            outcome, exit_code = end
            code = None if exit_code == "none" else int(exit_code)
            return request.keep(Path(work), succeeded=outcome == "succeeded", exit_code=code)
        return request.bring(Path(work), only_environment=phase == "environment")
    except Exception as error:
        hint = error.hint if isinstance(error, TarmacError) else None
        remember_environment(os.environ)
        words = "\n".join(filter(None, (short_reason(error) or type(error).__name__, hint)))
        return NodeAnswer(error=without_known(words))


if __name__ == "__main__":
    main()
