"""Where the processes of a training meet, and leave each other words."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.rendezvous import rendezvous as rendezvous_of

from tarmac.errors import PeerFailed, RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.training.processes.rendezvous import Rendezvous

__all__ = ["Absent", "Board", "meet"]

_MEET_S = 300.0

# One rank may fetch data for all meanwhile.
_EXCHANGE_S = 3600.0

_LAST_WORDS = "last words"

# A rank that fails leaves its words before its connections close, so they are there or never come.
_LAST_WORDS_S = 2.0


class Absent(PeerFailed):
    """Some ranks have not come to an exchange.

    Args:
        ranks: Those.
        rank: This process's.
        limit_s: How long it has waited.

    Attributes:
        ranks: As given.
        speaks: Whether this process is the one of those that came that should say so.
    """

    def __init__(self, ranks: Sequence[int], rank: int, limit_s: float) -> None:
        names = "rank " if len(ranks) == 1 else "ranks "
        names += ", ".join(map(str, ranks))
        super().__init__(f"{names} did not get ready within {limit_s:g} s of the others")
        self.ranks = ranks
        self.speaks = all(other in ranks for other in range(rank))


class Board:
    """Texts that all ranks can read.

    Args:
        rendezvous: Which process this is.
        store: What the ranks share.
        limit_s: How long ranks wait for each other in an exchange.

    Attributes:
        rendezvous: As given.
        store: As given.
        rank: This process's.
    """

    def __init__(self, rendezvous: Rendezvous, store: Store, limit_s: float) -> None:
        self.rendezvous = rendezvous
        self.rank = rendezvous.rank
        self.store = store
        self._limit_s = limit_s
        self._num_exchanges = 0

    def exchange(self, text: str) -> list[str]:
        """Give a text and return every rank's, by rank; all must call it.

        Raises:
            Absent: Some rank has not called it in time.
            PeerFailed: Another rank is gone.
        """
        prefix = f"exchange/{self._num_exchanges}"
        self._num_exchanges += 1
        keys = [f"{prefix}/{rank}" for rank in range(self.rendezvous.world_size)]
        try:
            self.store.set(keys[self.rank], text)
            absent = self._wait(keys)
            if absent:
                raise Absent(absent, self.rank, self._limit_s)
            return [value.decode() for value in self.store.multi_get(keys)]
        except dist.DistError as error:
            raise PeerFailed(f"rank {self.rank} lost the others: {error}") from error

    def leave_words(self, text: str) -> bool:
        """Say to all why this rank leaves; return whether it is the first that does."""
        try:
            return self.store.compare_set(_LAST_WORDS, "", text).decode() == text
        except dist.DistError:
            return True

    def last_words(self) -> str | None:
        """Return what a rank that left has said, if any has."""
        try:
            self.store.wait([_LAST_WORDS], timedelta(seconds=_LAST_WORDS_S))
            return str(self.store.get(_LAST_WORDS).decode())
        except dist.DistError:
            return None

    def _wait(self, keys: list[str]) -> list[int]:
        """Wait for all keys; return the ranks whose have not come."""
        try:
            self.store.wait(keys, timedelta(seconds=self._limit_s))
        except dist.DistStoreError:
            return [rank for rank, key in enumerate(keys) if not self.store.check([key])]
        return []


def meet(
    rendezvous: Rendezvous, limit_s: float = _MEET_S, exchange_s: float = _EXCHANGE_S
) -> Board:
    """Meet the other processes.

    Args:
        rendezvous: Which process this is.
        limit_s: How long to wait for them.
        exchange_s: How long to wait for them in an exchange.

    Raises:
        RequestError: The port is in use.
        TarmacError: The others do not come.
    """
    store = _get_default_store() if dist.is_initialized() else _open_store(rendezvous, limit_s)
    # A launcher's store outlives one training, and so would its keys.
    number = store.add(f"tarmac/{rendezvous.rank}", 1)
    return Board(rendezvous, PrefixStore(f"tarmac/training-{number}", store), exchange_s)


def _open_store(rendezvous: Rendezvous, limit_s: float) -> Store:
    limit = timedelta(seconds=limit_s)
    try:
        found = rendezvous_of("env://", rendezvous.rank, rendezvous.world_size, timeout=limit)
        store, _, _ = next(iter(found))
    except dist.DistNetworkError as error:
        if "EADDRINUSE" in str(error):
            raise RequestError(
                f"{rendezvous.address}, where the ranks should meet, is in use",
                hint="Another training may be running. Set another MASTER_PORT, or give torchrun "
                "--standalone.",
            ) from error
        raise TarmacError(
            f"rank {rendezvous.rank} did not meet the others at {rendezvous.address} within "
            f"{limit_s:g} s",
            hint="See that all of them were started, and that the address can be reached.",
        ) from error
    except dist.DistStoreError as error:
        raise TarmacError(
            f"not all {rendezvous.world_size} ranks came to {rendezvous.address} within "
            f"{limit_s:g} s",
            hint="See that all of them were started, with the same WORLD_SIZE.",
        ) from error
    assert isinstance(store, Store)
    return store
