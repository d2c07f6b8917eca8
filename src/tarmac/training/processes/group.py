"""A team of processes on `torch.distributed`: NCCL between GPUs, Gloo between CPUs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from tarmac.errors import PeerFailed, RequestError, TarmacError
from tarmac.training.processes.self_test import check_all_reduce, stuck
from tarmac.training.processes.watchdog import OnHang, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.machine import Device
    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.training.processes.store import Board

__all__ = ["ProcessTeam", "join"]


class ProcessTeam:
    """This process's part in a group of processes; see `Team`.

    Args:
        rendezvous: Which process this is.
        watch: Tells the others that this process goes on.
    """

    def __init__(self, rendezvous: Rendezvous, watch: Watch) -> None:
        self.rank = rendezvous.rank
        self.world_size = rendezvous.world_size
        self.local_rank = rendezvous.local_rank
        self.seconds_waiting = 0.0
        self._watch = watch

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes for all."""
        return self.rank == 0

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its sum over all ranks.

        Raises:
            PeerFailed: Another rank is gone.
        """
        with self._waiting():
            dist.all_reduce(tensor)

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank.

        Raises:
            PeerFailed: Another rank is gone.
        """
        values = [None] * self.world_size
        with self._waiting():
            dist.all_gather_object(values, value)
        return values

    def beat(self) -> None:
        """Note that this process goes on."""
        self._watch.beat()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        started = time.perf_counter()
        self._watch.waits = True
        try:
            yield
        except RuntimeError as error:
            raise PeerFailed(f"rank {self.rank} lost the others: {error}") from error
        finally:
            self._watch.waits = False
            self.seconds_waiting += time.perf_counter() - started


@contextlib.contextmanager
def join(
    board: Board,
    device: Device,
    *,
    hang_timeout_s: float,
    on_hang: OnHang,
) -> Iterator[ProcessTeam]:
    """Meet the other processes and see that they add up right.

    A process group that is there already, as Ray makes one, is used and left as it is.

    Args:
        board: Where they have met.
        device: What it computes on.
        hang_timeout_s: After so many seconds without progress a rank is taken for hung.
        on_hang: Is told which; see `Watch`. It is called in a thread of its own, and should end the
            process.

    Raises:
        RequestError: Two ranks have the same GPU.
        TarmacError: The self-test fails.
        PeerFailed: Another rank says what is wrong.
    """
    on_cuda = device.type == "cuda"
    own = device.torch_name if on_cuda else f"pid {os.getpid()}"
    names = _refuse_shared_gpus(board, f"{socket.gethostname()} {own}", device)
    if on_cuda:
        torch.cuda.set_device(device.torch_name)
    is_guest = dist.is_initialized()
    rendezvous = board.rendezvous
    watch = Watch(board.store, rendezvous.rank, rendezvous.world_size, hang_timeout_s, on_hang)
    # The watch must find a hung rank before the group gives up by itself.
    limit = timedelta(seconds=2 * hang_timeout_s + 60)
    is_whole = False
    try:
        if not is_guest:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_cuda else "gloo",
                store=PrefixStore("group", board.store),
                rank=rendezvous.rank,
                world_size=rendezvous.world_size,
                timeout=limit,
                device_id=torch.device(device.torch_name) if on_cuda else None,
            )
        with watch.running():
            team = ProcessTeam(rendezvous, watch)
            if team.world_size > 1:
                watch.stage = stuck(names)
                check_all_reduce(names, team.rank, torch.device(device.torch_name))
                watch.stage = ""
            yield team
            is_whole = True
    except dist.DistError as error:
        raise TarmacError(f"rank {rendezvous.rank} could not join the others: {error}") from error
    finally:
        # NCCL's end waits for all ranks, which do not come where one of them has failed. Its words
        # must get out, and its process ends.
        if not is_guest and dist.is_initialized() and (is_whole or not on_cuda):
            dist.destroy_process_group()


def _refuse_shared_gpus(board: Board, name: str, device: Device) -> list[str]:
    """Return the names of all ranks' devices, once no two ranks have the same one."""
    names, owners = [], dict[str, int]()
    for rank, text in enumerate(board.exchange(json.dumps([name, device.uuid]))):
        where, uuid = json.loads(text)
        names.append(where)
        if uuid is not None and owners.setdefault(uuid, rank) != rank:
            message = (
                f"ranks {owners[uuid]} and {rank} both have {where} ({uuid}), which NCCL refuses"
            )
            if board.rank != owners[uuid]:
                raise PeerFailed(message)
            raise RequestError(
                message, hint="Start one process per GPU, each with its own LOCAL_RANK."
            )
    return names
