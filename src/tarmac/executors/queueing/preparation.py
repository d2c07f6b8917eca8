"""Prepares what nodes need of a run: the agent, environments, secrets, and attempts' elements."""

from __future__ import annotations

from tarmac.executors.attempt import Attempt
from tarmac.executors.elements import build_environments, prepare_element
from tarmac.executors.interface import Site
from tarmac.executors.spool import Spool, sweep_spools
from tarmac.files import storage_errors
from tarmac.node import AttemptSpec, place_agent


class Preparation:
    """Prepares a run for nodes that see this machine's files at the same paths.

    Makes the run's directory, and builds the environments that options ask to build here.

    Args:
        site: Directory, tasks and settings of the run.
        name: Name of the executor, which is the key of its part of a task's options.
        grace_s: Seconds between a program's SIGTERM and SIGKILL, fewer than between the engine's
            own to the agent. Default 10.

    Attributes:
        agent: File of the agent in the run's directory.
        spool: Private files with the secrets of the run, outside its directory.

    Raises:
        RequestError: An environment cannot be built as its options ask.
        StorageError: The run's directory cannot be written.
    """

    def __init__(self, site: Site, name: str, *, grace_s: float = 10.0) -> None:
        build_environments(site.tasks, site.base, engine=name)
        sweep_spools()
        self._site, self._name, self._grace_s = site, name, grace_s
        self.spool = Spool(site.run)
        with storage_errors(site.run):
            site.run.mkdir(parents=True, exist_ok=True)
            self.agent = place_agent(site.run)

    def element(self, attempt: Attempt, nonce: str) -> AttemptSpec:
        """Return the agent's element for an attempt; see `prepare_element`."""
        options = attempt.task.options.get(self._name, {})
        return prepare_element(
            attempt, nonce, self._site, self.spool, options=options, grace_s=self._grace_s
        )
