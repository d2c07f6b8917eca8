"""Names of containers, queried from their engines in a thread when a new container appears."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping

_ENGINES = ("docker", "podman")
_WITHIN_S = 5.0
_ASK_AGAIN_S = 15.0


class ContainerNames:
    """Names of containers by ID; only `wait` waits for the engines.

    Args:
        read: Function that queries the engines, replaced in tests.
        clock: Monotonic clock in seconds, replaced in tests.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read or read_names
        self._clock = clock
        self._names: dict[str, str] = {}
        self._asked_at: float | None = None
        self._thread: threading.Thread | None = None

    def look(self, numbers: Collection[str]) -> Mapping[str, str]:
        """Return the names known so far.

        Args:
            numbers: IDs of the containers in sight, 64 hexadecimal digits each. An unknown ID
                triggers a query of the container engines.
        """
        is_asking = self._thread is not None and self._thread.is_alive()
        now = self._clock()
        is_due = self._asked_at is None or now - self._asked_at >= _ASK_AGAIN_S
        if not is_asking and is_due and any(number not in self._names for number in numbers):
            self._asked_at = now
            # A daemon, because a hung engine must not keep the program from exiting.
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        return dict(self._names)

    def wait(self, within_s: float = 2 * _WITHIN_S) -> None:
        """Wait at most ``within_s`` seconds for a running query of the engines."""
        if self._thread is not None:
            self._thread.join(within_s)

    def _ask(self) -> None:
        self._names = {**self._names, **self._read()}


def read_names() -> Mapping[str, str]:
    """Return the names of this machine's containers by ID, queried from the engines."""
    # Few machines have an engine, so the first snapshot does not wait for this import.
    import subprocess  # noqa: PLC0415

    names: dict[str, str] = {}
    for engine in _ENGINES:
        program = shutil.which(engine)
        if program is None:
            continue
        command = [program, "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_WITHIN_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        for line in done.stdout.splitlines():
            number, _, name = line.partition(" ")
            # The first of several names is the container's own; the others are of links.
            names[number] = name.split(",")[0].strip()
    return names
