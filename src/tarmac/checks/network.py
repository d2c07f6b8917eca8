"""The network of a machine: interfaces, and ports of InfiniBand and RoCE."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Port(_Facts):
    """A port of an adapter for remote direct memory access.

    Attributes:
        name: Adapter and number of the port, such as ``mlx5_0/1``.
        state: Logical state: ``ACTIVE``, ``DOWN``, ``INIT`` or ``ARMED``.
        physical: Physical state: ``LinkUp``, ``Disabled``, ``Polling``, or another of the kernel's.
        layer: Link layer: ``InfiniBand``, or ``Ethernet`` for RoCE.
        rate: Rate of the link, such as ``400 Gb/sec (4X NDR)``.
    """

    name: str
    state: str
    physical: str = ""
    layer: str = ""
    rate: str = ""


class Network(_Facts):
    """The network interfaces and ports of a machine.

    Attributes:
        interfaces: Names of all network interfaces, sorted, loopback included.
        ports: Ports of all InfiniBand and RoCE adapters.
        open_module: Whether NVIDIA's kernel module is the open one, which shares a GPU's memory
            with adapters by dma-buf; None where none is loaded.
    """

    interfaces: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    open_module: bool | None = None


def read_network(root: Path) -> Network:
    """Read the network's state from the kernel's files.

    Args:
        root: Directory that has ``proc`` and ``sys``.
    """
    module = _text(root / "proc/driver/nvidia/version")
    return Network(
        interfaces=tuple(sorted(path.name for path in (root / "sys/class/net").glob("*"))),
        ports=tuple(_ports(root)),
        open_module="Open Kernel Module" in module if module else None,
    )


def _ports(root: Path) -> Iterator[Port]:
    for path in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        yield Port(
            name=f"{path.parent.parent.name}/{path.name}",
            # The file has "4: ACTIVE" and the like.
            state=_text(path / "state").partition(": ")[2],
            physical=_text(path / "phys_state").partition(": ")[2],
            layer=_text(path / "link_layer"),
            rate=_text(path / "rate"),
        )


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""
