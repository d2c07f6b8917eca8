"""The key-value store for the rendezvous of a training's processes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.rendezvous import rendezvous as rendezvous_of

from tarmac.errors import PeerFailed, RequestError, TarmacError
from tarmac.training.processes.rendezvous import Rendezvous

_RENDEZVOUS_S = 300.0

# One rank may fetch data for all ranks during a gather.
_GATHER_S = 3600.0

_ERROR_KEY = "error"

# A failing rank publishes its error before its connections close, so a short wait is enough.
_ERROR_WAIT_S = 2.0


class RanksMissing(PeerFailed):
    """The error that some ranks did not take part in a gather in time.

    Args:
        ranks: Ranks that did not call the gather in time.
        rank: Global rank of this process, from 0.
        limit_s: Time that this process has waited, in seconds.

    Attributes:
        ranks: Ranks that did not call the gather in time.
        reports: Whether this process, the lowest rank that is not missing, should report it.
    """

    def __init__(self, ranks: Sequence[int], rank: int, limit_s: float) -> None:
        names = "rank " if len(ranks) == 1 else "ranks "
        names += ", ".join(map(str, ranks))
        super().__init__(f"{names} did not get ready within {limit_s:g} s of the others")
        self.ranks = ranks
        self.reports = all(other in ranks for other in range(rank))


class RankStore:
    """A `torch.distributed` store for the texts of one training's ranks.

    Args:
        rendezvous: Rank and world size of this process.
        keys: The store, with a prefix of this training.
        limit_s: Seconds for which ranks wait for each other in a gather.

    Attributes:
        rendezvous: Rank and world size of this process.
        keys: The store, with a prefix of this training.
        rank: Global rank of this process, from 0.
    """

    def __init__(self, rendezvous: Rendezvous, keys: Store, limit_s: float) -> None:
        self.rendezvous = rendezvous
        self.rank = rendezvous.rank
        self.keys = keys
        self._limit_s = limit_s
        self._num_gathers = 0

    def all_gather(self, text: str) -> list[str]:
        """Share a text and return every rank's text, by rank; all ranks must call it.

        Raises:
            RanksMissing: Some rank has not called it in time.
            PeerFailed: Another rank has ended.
        """
        prefix = f"gather/{self._num_gathers}"
        self._num_gathers += 1
        keys = [f"{prefix}/{rank}" for rank in range(self.rendezvous.world_size)]
        try:
            self.keys.set(keys[self.rank], text)
            absent = self._wait(keys)
            if absent:
                raise RanksMissing(absent, self.rank, self._limit_s)
            return [value.decode() for value in self.keys.multi_get(keys)]
        except dist.DistError as error:
            raise PeerFailed(f"rank {self.rank} lost the others: {error}") from error

    def publish_error(self, text: str) -> bool:
        """Publish why this rank fails; return whether it is the first to publish an error."""
        try:
            return self.keys.compare_set(_ERROR_KEY, "", text).decode() == text
        except dist.DistError:
            return True

    def published_error(self) -> str | None:
        """Return the first error that a rank has published; None if there is none."""
        try:
            self.keys.wait([_ERROR_KEY], timedelta(seconds=_ERROR_WAIT_S))
            return str(self.keys.get(_ERROR_KEY).decode())
        except dist.DistError:
            return None

    def _wait(self, keys: list[str]) -> list[int]:
        """Wait for all keys; return the ranks whose keys are missing after the timeout."""
        try:
            self.keys.wait(keys, timedelta(seconds=self._limit_s))
        except dist.DistStoreError:
            return [rank for rank, key in enumerate(keys) if not self.keys.check([key])]
        return []


def open_store(
    rendezvous: Rendezvous, limit_s: float = _RENDEZVOUS_S, gather_s: float = _GATHER_S
) -> RankStore:
    """Rendezvous with the other processes, and return the store that they share.

    Args:
        rendezvous: Rank and world size of this process.
        limit_s: Seconds to wait for the other processes in the rendezvous.
        gather_s: Seconds to wait for the other processes in a gather.

    Raises:
        RequestError: The port is in use.
        TarmacError: Other processes did not join in time.
    """
    store = _get_default_store() if dist.is_initialized() else _rendezvous(rendezvous, limit_s)
    # A launcher's store keeps its keys over several trainings, so use a prefix for each.
    number = store.add(f"tarmac/{rendezvous.rank}", 1)
    return RankStore(rendezvous, PrefixStore(f"tarmac/training-{number}", store), gather_s)


def _rendezvous(rendezvous: Rendezvous, limit_s: float) -> Store:
    limit = timedelta(seconds=limit_s)
    try:
        handlers = rendezvous_of("env://", rendezvous.rank, rendezvous.world_size, timeout=limit)
        store, _, _ = next(iter(handlers))
    except dist.DistNetworkError as error:
        if "EADDRINUSE" in str(error):
            raise RequestError(
                f"the rendezvous address {rendezvous.address} is in use",
                hint="Another training may be running. Set another MASTER_PORT, or give torchrun "
                "--standalone.",
            ) from error
        raise TarmacError(
            f"rank {rendezvous.rank} did not reach the others at {rendezvous.address} within "
            f"{limit_s:g} s",
            hint="Check that all of them were started, and that the address can be reached.",
        ) from error
    except dist.DistStoreError as error:
        raise TarmacError(
            f"not all {rendezvous.world_size} ranks reached {rendezvous.address} within "
            f"{limit_s:g} s",
            hint="Check that all of them were started, with the same WORLD_SIZE.",
        ) from error
    assert isinstance(store, Store)
    return store
