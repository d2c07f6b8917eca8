"""NVIDIA's GPUs by the driver's own numbers, without a framework."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pynvml

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Card", "GpuInfo", "list_gpus", "visible_gpus"]


@dataclasses.dataclass(frozen=True)
class GpuInfo:
    """A GPU, or an instance of one, that can be given to a program.

    Attributes:
        uuid: What ``CUDA_VISIBLE_DEVICES`` takes.
        name: What the vendor calls it.
        memory_bytes: Memory in all.
        is_instance: Whether it is an instance of a GPU that is partitioned (MIG).
    """

    uuid: str
    name: str
    memory_bytes: int
    is_instance: bool = False


@dataclasses.dataclass(frozen=True)
class Card:
    """What the driver says of a card.

    Attributes:
        gpu: The card as a whole; None where the driver cannot say.
        is_partitioned: Whether it is in MIG mode, in which only its instances compute.
        instances: Those.
        problem: The driver's own words, where it cannot say what the card is.
    """

    gpu: GpuInfo | None
    is_partitioned: bool = False
    instances: Sequence[GpuInfo] = ()
    problem: str = ""

    def usable(self) -> Sequence[GpuInfo]:
        """Return what of it can be given to programs."""
        if self.is_partitioned:
            return self.instances
        return () if self.gpu is None else (self.gpu,)


def list_gpus(environment: Mapping[str, str] | None = None) -> tuple[GpuInfo, ...]:
    """Return the GPUs that this process may use; none where there is no driver.

    Args:
        environment: Whose ``CUDA_VISIBLE_DEVICES`` counts; by default this process's.

    Raises:
        RequestError: The driver does not answer, or what ``CUDA_VISIBLE_DEVICES`` says cannot be
            told from here.
    """
    variables = os.environ if environment is None else environment
    return visible_gpus(
        _read_cards(),
        variables.get("CUDA_VISIBLE_DEVICES"),
        is_by_bus=variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
    )


def visible_gpus(
    cards: Sequence[Card], visible: str | None, *, is_by_bus: bool
) -> tuple[GpuInfo, ...]:
    """Return what CUDA would see.

    Names are indices or beginnings of UUIDs; the first that is neither ends the list (CUDA C++
    programming guide, "CUDA environment variables"). A partitioned card stands for its first
    instance.

    Args:
        cards: In the order of the bus.
        visible: The value of ``CUDA_VISIBLE_DEVICES``; None where it is not set, which is all.
        is_by_bus: Whether ``CUDA_DEVICE_ORDER`` asks for the order of the bus. CUDA's own order,
            the fastest first, is known here only where all cards are alike.

    Raises:
        RequestError: A card that is meant cannot be looked at, or an index may mean several.
    """
    found: dict[str, GpuInfo] = {}
    if visible is None:
        for card in cards:
            found |= {gpu.uuid: gpu for gpu in _known(card).usable()}
        return tuple(found.values())
    for word in (part.strip() for part in visible.split(",")):
        gpu = _by_index(cards, int(word), is_by_bus) if word.isdecimal() else _by_uuid(cards, word)
        if gpu is None:
            break
        found[gpu.uuid] = gpu
    return tuple(found.values())


def _known(card: Card) -> Card:
    if card.problem:
        raise _unanswered(card.problem)
    return card


def _unanswered(words: str) -> RequestError:
    return RequestError(
        f"NVIDIA's driver does not say which GPUs there are: {words}",
        hint="See what is wrong: tarmac check. Or name those to use: CUDA_VISIBLE_DEVICES=GPU-...",
    )


def _by_index(cards: Sequence[Card], index: int, is_by_bus: bool) -> GpuInfo | None:
    if index >= len(cards):
        return None
    names = {card.gpu.name for card in cards if card.gpu is not None}
    if len(names) > 1 and not is_by_bus:
        raise RequestError(
            f"CUDA_VISIBLE_DEVICES names GPU {index}, and CUDA numbers GPUs that differ by their "
            f"speed, which the driver does not say: {', '.join(sorted(names))}",
            hint="Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID: nvidia-smi -L",
        )
    return next(iter(_known(cards[index]).usable()), None)


def _by_uuid(cards: Sequence[Card], start: str) -> GpuInfo | None:
    if not start.startswith(("GPU-", "MIG-")):
        return None
    for card in cards:
        if card.gpu is not None and card.is_partitioned and card.gpu.uuid.startswith(start):
            return next(iter(card.instances), None)
    usable = [gpu for card in cards for gpu in card.usable()]
    meant = [gpu for gpu in usable if gpu.uuid.startswith(start)]
    if not meant:
        # It may be one that does not answer.
        for card in cards:
            _known(card)
    return meant[0] if len(meant) == 1 else None


def _read_cards() -> tuple[Card, ...]:
    """Ask the driver; none where there is none."""
    try:
        pynvml.nvmlInit()
    except (
        pynvml.NVMLError_LibraryNotFound,
        pynvml.NVMLError_DriverNotLoaded,
    ):
        return ()
    except pynvml.NVMLError as error:
        raise _unanswered(str(error)) from error
    try:
        return tuple(_read_card(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise _unanswered(str(error)) from error
    finally:
        # What is lost by now was lost before.
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read_card(index: int) -> Card:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        is_partitioned = _is_partitioned(handle)
        return Card(
            _describe(handle),
            is_partitioned,
            _read_instances(handle) if is_partitioned else (),
        )
    except pynvml.NVMLError as error:
        return Card(None, problem=f"GPU {index}: {error}")


def _is_partitioned(handle: Any) -> bool:
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        # The card, or a driver before 450, does not know of it.
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def _read_instances(handle: Any) -> tuple[GpuInfo, ...]:
    found = []
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        # Not every place has an instance, and a container may not see each.
        with contextlib.suppress(pynvml.NVMLError_NotFound, pynvml.NVMLError_NoPermission):
            instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            found.append(dataclasses.replace(_describe(instance), is_instance=True))
    return tuple(found)


def _describe(handle: Any) -> GpuInfo:
    return GpuInfo(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
    )
