"""Where the processes of a training meet, and leave each other words."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.rendezvous import rendezvous as rendezvous_of

from tarmac.errors import PeerFailed, RequestError, TarmacError

if TYPE_CHECKING:
    from tarmac.train.strategies._rendezvous import Rendezvous

__all__ = ["Board", "meet"]

_MEET_S = 300.0

# One rank may fetch data for all meanwhile.
_EXCHANGE_S = 3600.0

# A rank that fails leaves its words before its connections close, so they are there or never come.
_LAST_WORDS_S = 2.0


class Board:
    """Texts that all ranks can read.

    Args:
        rendezvous: Which process this is.
        store: What the ranks share.

    Attributes:
        rendezvous: As given.
        store: As given.
        rank: This process's.
    """

    def __init__(self, rendezvous: Rendezvous, store: Store) -> None:
        self.rendezvous = rendezvous
        self.rank = rendezvous.rank
        self.store = store
        self._num_exchanges = 0

    def exchange(self, text: str) -> list[str]:
        """Give a text and return every rank's, by rank; all must call it.

        Raises:
            PeerFailed: Another rank is gone.
        """
        prefix = f"exchange/{self._num_exchanges}"
        self._num_exchanges += 1
        keys = [f"{prefix}/{rank}" for rank in range(self.rendezvous.world_size)]
        try:
            self.store.set(keys[self.rank], text)
            self.store.wait(keys, timedelta(seconds=_EXCHANGE_S))
            return [value.decode() for value in self.store.multi_get(keys)]
        except dist.DistError as error:
            raise PeerFailed(f"rank {self.rank} lost the others: {error}") from error

    def leave_words(self, text: str) -> None:
        """Say to all why this rank leaves."""
        with contextlib.suppress(dist.DistError):
            self.store.set("last words", text)

    def last_words(self) -> str | None:
        """Return what a rank that left has said, if any has."""
        try:
            self.store.wait(["last words"], timedelta(seconds=_LAST_WORDS_S))
            return str(self.store.get("last words").decode())
        except dist.DistError:
            return None


def meet(rendezvous: Rendezvous, limit_s: float = _MEET_S) -> Board:
    """Meet the other processes.

    Args:
        rendezvous: Which process this is.
        limit_s: How long to wait for them.

    Raises:
        RequestError: The port is in use.
        TarmacError: The others do not come.
    """
    store = _get_default_store() if dist.is_initialized() else _open_store(rendezvous, limit_s)
    # A launcher's store outlives one training, and so would its keys.
    number = store.add(f"tarmac/{rendezvous.rank}", 1)
    return Board(rendezvous, PrefixStore(f"tarmac/training-{number}", store))


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
