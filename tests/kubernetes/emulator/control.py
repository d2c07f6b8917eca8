"""The loop of the controllers: what changed is looked at again, and what is due in time."""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections import defaultdict
from typing import Protocol

from .errors import ApiError
from .store import Change, Store

# A controller's own name for what it looks at.
Token = tuple[str, str]


class Controller(Protocol):
    """Something that brings the cluster nearer to what its objects ask for."""

    def concerns(self, change: Change) -> list[Token]:
        """Return what is to be looked at after a change."""

    def look(self, token: Token) -> float | None:
        """Look at it; return in how many seconds to look again, or None."""


class Control:
    """Runs controllers, one after another, in one thread."""

    def __init__(self, store: Store, controllers: list[Controller]) -> None:
        self._store = store
        self._controllers = controllers
        self._dirty: dict[int, dict[Token, None]] = defaultdict(dict)
        self._due: list[tuple[float, int, Token]] = []
        self._wake = threading.Event()
        self._is_stopping = False
        self.failures: list[BaseException] = []
        store.listen(self._note)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join(10)

    def look_again(self, which: type, token: Token) -> None:
        """Have a controller of a type look at something."""
        with self._store.changed:
            for number, controller in enumerate(self._controllers):
                if isinstance(controller, which):
                    self._dirty[number][token] = None
        self._wake.set()

    def _note(self, change: Change) -> None:
        for number, controller in enumerate(self._controllers):
            for token in controller.concerns(change):
                self._dirty[number][token] = None
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopping:
            timeout = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            self._wake.wait(timeout)
            self._wake.clear()
            with self._store.changed:
                while self._due and self._due[0][0] <= time.monotonic():
                    _, number, token = heapq.heappop(self._due)
                    self._dirty[number][token] = None
                todo = [
                    (number, token) for number, tokens in self._dirty.items() for token in tokens
                ]
                self._dirty.clear()
            for number, token in todo:
                self._look(number, token)

    def _look(self, number: int, token: Token) -> None:
        again: float | None = 0.05
        with contextlib.suppress(ApiError):
            try:
                again = self._controllers[number].look(token)
            except ApiError:
                raise
            except Exception as error:
                self.failures.append(error)
                raise
        if again is not None:
            heapq.heappush(self._due, (time.monotonic() + again, number, token))
