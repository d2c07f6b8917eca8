"""A team of processes on `torch.distributed`: NCCL between GPUs, Gloo between CPUs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from tarmac.errors import PeerFailed, RequestError, TarmacError
from tarmac.machine import Device
from tarmac.training.processes.reach import Place, find_unreached, listening
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.training.processes.self_test import check_all_reduce, stuck
from tarmac.training.processes.store import RankStore
from tarmac.training.processes.watchdog import OnHang, Watchdog


class ProcessTeam:
    """This process's membership in a group of processes; see `Team`.

    Args:
        rendezvous: Rank and world size of this process.
        watchdog: Watchdog that sends this process's heartbeats.
    """

    def __init__(self, rendezvous: Rendezvous, watchdog: Watchdog) -> None:
        self.rank = rendezvous.rank
        self.world_size = rendezvous.world_size
        self.local_rank = rendezvous.local_rank
        self.seconds_waiting = 0.0
        self._watchdog = watchdog

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes for all ranks."""
        return self.rank == 0

    @property
    def can_capture(self) -> bool:
        """Whether a CUDA graph can hold `all_reduce`: NCCL's, which copies nothing to the host."""
        return "cuda:nccl" in dist.get_backend_config().split(",")

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its sum over all ranks.

        Raises:
            PeerFailed: Another rank has ended.
        """
        with self._waiting():
            dist.all_reduce(tensor)

    def all_gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank.

        Raises:
            PeerFailed: Another rank has ended.
        """
        values = [None] * self.world_size
        with self._waiting():
            dist.all_gather_object(values, value)
        return values

    def heartbeat(self) -> None:
        """Record that this process makes progress."""
        self._watchdog.heartbeat()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        started = time.perf_counter()
        self._watchdog.waits = True
        try:
            yield
        except RuntimeError as error:
            raise PeerFailed(f"rank {self.rank} lost the others: {error}") from error
        finally:
            self._watchdog.waits = False
            self.seconds_waiting += time.perf_counter() - started


@contextlib.contextmanager
def losses_told(rank: int) -> Iterator[None]:
    """Turn errors of PyTorch's own messages into a `PeerFailed` if another rank was lost.

    PyTorch sends such messages to gather a sharded model's parameters and to write its checkpoints.

    Raises:
        PeerFailed: Another rank has ended.
    """
    try:
        yield
    except (RuntimeError, TarmacError) as error:
        if isinstance(error, PeerFailed) or not _is_of_the_group(error):
            raise
        raise PeerFailed(f"rank {rank} lost the others: {error}") from error


def _is_of_the_group(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes is a failed message to another rank."""
    while error is not None:
        # Gloo has no error class, but its messages name its source files.
        if isinstance(error, dist.DistError) or "/gloo/" in str(error):
            return True
        error = error.__cause__
    return False


@contextlib.contextmanager
def join(
    store: RankStore,
    device: Device,
    *,
    hang_timeout_s: float,
    on_hang: OnHang,
) -> Iterator[ProcessTeam]:
    """Join the other processes in a group, and test the group's all-reduce.

    An existing process group, such as Ray's, is used and left unchanged.

    Args:
        store: Store through which the ranks exchange texts.
        device: Device on which this process computes.
        hang_timeout_s: Seconds without progress after which a rank counts as hung.
        on_hang: Called with the hung ranks; see `Watchdog`. It runs in a thread of its own, and
            should end the process.

    Raises:
        RequestError: Two ranks have the same GPU.
        TarmacError: The self-test fails.
        PeerFailed: Another rank reports the error.
    """
    on_cuda = device.type == "cuda"
    own = device.torch_name if on_cuda else f"pid {os.getpid()}"
    # Slurm's name of the node, if Slurm has started the process.
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    with listening(host) as place:
        names, places = _refuse_shared_gpus(store, f"{host} {own}", device, place)
        with _joined(store, device, names, places, limit_s=hang_timeout_s, on_hang=on_hang) as team:
            yield team


@contextlib.contextmanager
def _joined(
    store: RankStore,
    device: Device,
    names: Sequence[str],
    places: Sequence[Place],
    *,
    limit_s: float,
    on_hang: OnHang,
) -> Iterator[ProcessTeam]:
    on_cuda = device.type == "cuda"
    if on_cuda:
        torch.cuda.set_device(device.torch_name)
    is_guest = dist.is_initialized()
    rendezvous = store.rendezvous
    watchdog = Watchdog(store.keys, rendezvous.rank, rendezvous.world_size, limit_s, on_hang)
    # The watchdog uses this store in a thread of its own.
    watchdog_store: Store = store.keys.clone()  # type: ignore[attr-defined]  # undeclared

    def unreached() -> str:
        return find_unreached(watchdog_store, rendezvous.rank, places)

    # The watchdog must find a hung rank before the group itself times out.
    limit = timedelta(seconds=2 * limit_s + 60)
    is_whole = False
    try:
        if not is_guest:
            try:
                dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if on_cuda else "gloo",
                    store=PrefixStore("group", store.keys),
                    rank=rendezvous.rank,
                    world_size=rendezvous.world_size,
                    timeout=limit,
                    device_id=torch.device(device.torch_name) if on_cuda else None,
                )
            except RuntimeError as error:
                raise _not_joined(rendezvous.rank, error, unreached()) from error
        with watchdog.running():
            team = ProcessTeam(rendezvous, watchdog)
            if team.world_size > 1:
                watchdog.stage = lambda: stuck(names, unreached())
                check_all_reduce(names, team.rank, torch.device(device.torch_name))
                watchdog.stage = str
            yield team
            is_whole = True
    except dist.DistError as error:
        raise _not_joined(rendezvous.rank, error, unreached()) from error
    finally:
        # NCCL's shutdown waits for all ranks, which hangs if one of them has failed. Skip it then,
        # so that this rank can report its error and end.
        if not is_guest and dist.is_initialized() and (is_whole or not on_cuda):
            dist.destroy_process_group()


def _not_joined(rank: int, error: RuntimeError, unreached: str) -> TarmacError:
    if not unreached:
        return TarmacError(f"rank {rank} could not join the others: {error}")
    return TarmacError(
        f"rank {rank} could not join the others: {unreached}",
        hint="Make the name of each host resolve to an address that the others reach, or set "
        "GLOO_SOCKET_IFNAME to the network between them. Firewalls must let all ports "
        "through.",
    )


def _refuse_shared_gpus(
    store: RankStore, name: str, device: Device, place: Place
) -> tuple[list[str], list[Place]]:
    """Return all ranks' names and places; refuse two ranks with the same device."""
    names, places, owners = [], [], dict[str, int]()
    for rank, text in enumerate(store.all_gather(json.dumps([name, device.uuid, place]))):
        where, uuid, (host, address, port) = json.loads(text)
        names.append(where)
        places.append((host, address, port))
        if uuid is not None and owners.setdefault(uuid, rank) != rank:
            message = (
                f"ranks {owners[uuid]} and {rank} both have {where} ({uuid}), which NCCL refuses"
            )
            if store.rank != owners[uuid]:
                raise PeerFailed(message)
            raise RequestError(
                message, hint="Start one process per GPU, each with its own LOCAL_RANK."
            )
    return names, places
