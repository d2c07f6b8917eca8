"""How the agents of one attempt on several nodes meet, and speak with each other.

The conductor, on the first node, listens, and tells every agent by its environment where. Each of
them tries all the names and addresses that the first node may have, until one answers with the
attempt's token: which of them is routed between two nodes is known to nobody beforehand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hmac
import json
import os
import re
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INVITATION = "TARMAC_MEETING"

# Nodes that are waking up, or whose prolog takes long, come late.
MEET_WITHIN_S = 300.0

# A host that has lost its power or its network sends no end of a connection.
BEAT_EVERY_S = 5.0
SILENT_AFTER_S = 45.0

_CONNECT_S = 3.0
_TRY_EVERY_S = 0.2
_GREETING_BYTES = 4096

# ioctl(2) for the IPv4 address of an interface: netdevice(7).
_SIOCGIFADDR = 0x8915


class Unreachable(Exception):  # noqa: N818 - says what is so
    """A host answers at none of its addresses; the words say what each did."""


@dataclasses.dataclass(frozen=True)
class Invitation:
    """Where agents meet, as they find it in their environment.

    Attributes:
        addresses: Names and addresses that the host may have.
        port: TCP port that the host listens on.
        token: Both sides show it; of one attempt.
    """

    addresses: Sequence[str]
    port: int
    token: str

    def to_variables(self) -> Mapping[str, str]:
        """Return it as what an agent's environment holds; no argument shows the token."""
        return {_INVITATION: " ".join([str(self.port), self.token, *self.addresses])}

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> Invitation | None:
        """Return the one that is in an environment; None where none is."""
        return cls.take(dict(environment)) if _INVITATION in environment else None

    @classmethod
    def take(cls, environment: dict[str, str]) -> Invitation:
        """Take it out of an environment, which no program is to see.

        Raises:
            ValueError: It is not there.
        """
        text = environment.pop(_INVITATION, "")
        port, token, *addresses = text.split(" ") if text else ("", "", "")
        if not port.isdecimal():
            raise ValueError(f"{_INVITATION} is {text!r}: this agent was not started by another")
        return cls(addresses, int(port), token)


class Line:
    """A connection between two agents: a line of JSON for each message.

    Attributes:
        socket: Connected socket, for a selector to wait on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send a message; one to a host that is gone is lost."""
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that have come, after waiting for some; None at the end of all.

        Raises:
            TimeoutError: None have come in the time that the socket allows.
        """
        try:
            received = self.socket.recv(65536)
        except (TimeoutError, socket.timeout) as error:  # noqa: UP041 - two until Python 3.10
            raise TimeoutError from error
        except OSError:
            return None
        if not received:
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            return None

    def close(self) -> None:
        """End the connection."""
        self.socket.close()


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens at a port, by default a free one, at all addresses of this host.

    Raises:
        OSError: The port is not free.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)


def reach(invitation: Invitation, limit_s: float) -> tuple[str, socket.socket]:
    """Connect to a host at the first of its addresses that answers with the token.

    Returns:
        The address, and the connection, on which both have shown the token.

    Raises:
        Unreachable: None has answered in time.
    """
    end = time.monotonic() + limit_s
    problems: dict[str, str] = {}
    while True:
        for address in invitation.addresses:
            try:
                connection = socket.create_connection((address, invitation.port), _CONNECT_S)
            except OSError as error:
                problems[address] = error.strerror or str(error) or "no answer"
                continue
            if _greet(connection, invitation.token):
                return address, connection
            connection.close()
            problems[address] = "another program answers"
        if time.monotonic() > end:
            tried = ", ".join(f"{address} ({why})" for address, why in problems.items())
            raise Unreachable(f"port {invitation.port} of {tried}")
        time.sleep(_TRY_EVERY_S)


def _greet(connection: socket.socket, token: str) -> bool:
    """Whether who answers is who was meant; each waits for the other no longer than to connect."""
    try:
        connection.settimeout(_CONNECT_S)
        connection.sendall(token.encode() + b"\n")
        return _is_shown(connection, token)
    except OSError:
        return False


def knock(connection: socket.socket, token: str) -> bool:
    """Whether who has connected shows the token; it is answered with the same."""
    try:
        connection.settimeout(_CONNECT_S)
        if not _is_shown(connection, token):
            return False
        connection.sendall(token.encode() + b"\n")
    except OSError:
        return False
    return True


def _is_shown(connection: socket.socket, token: str) -> bool:
    # Byte by byte up to the line's end: what follows it is for others to read.
    shown = b""
    while not shown.endswith(b"\n") and len(shown) < _GREETING_BYTES:
        byte = connection.recv(1)
        if not byte:
            return False
        shown += byte
    return hmac.compare_digest(shown.strip(), token.encode())


def host_addresses(environment: Mapping[str, str]) -> list[str]:
    """Return the names and addresses by which other nodes may reach this one, the likeliest first.

    The engine's name for it comes first, which sites resolve to the network that is meant for it; a
    pod has that of its service.
    Loopback ones come last: for nodes that are on one machine. A token tells whether the host that
    answers at one is the right one.
    """
    pod = ""
    if "TARMAC_KUBERNETES_JOB" in environment:
        job = environment["TARMAC_KUBERNETES_JOB"]
        service = environment.get("TARMAC_KUBERNETES_SERVICE", job)
        pod = f"{job}-{environment.get('JOB_COMPLETION_INDEX', '0')}.{service}"
    names = [environment.get("SLURMD_NODENAME", ""), pod, socket.gethostname(), socket.getfqdn()]
    ranked = [*filter(None, names), *_interface_addresses()]
    loopback = [address for address in ranked if _is_loopback(address)]
    rest = [address for address in ranked if address not in loopback]
    return list(dict.fromkeys([*rest, *loopback, "127.0.0.1"]))


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith(("127.", "localhost."))


def _interface_addresses() -> list[str]:
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            # An interface that has none refuses to say.
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(
                    sock.fileno(), _SIOCGIFADDR, struct.pack("256s", os.fsencode(name)[:15])
                )
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return addresses


def hosts_of(nodes: str) -> list[str]:
    """Return the hosts of a list in Slurm's form.

    Example:
        >>> hosts_of("n[1-2,08-10],gpu1")
        ['n1', 'n2', 'n08', 'n09', 'n10', 'gpu1']
    """
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]*(?:\[[^\]]*\][^,\[]*)*", nodes):
        if part:
            hosts += _expanded(part)
    return hosts


def _expanded(part: str) -> list[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if match is None:
        return [part]
    before, ranges, after = match.groups()
    numbers: list[str] = []
    for text in ranges.split(","):
        first, _, last = text.partition("-")
        if last and first.isdecimal() and last.isdecimal():
            numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
        else:
            numbers.append(text)
    return [f"{before}{number}{rest}" for number in numbers for rest in _expanded(after)]


def program_variables(
    *, nodes: int, rank: int, gpus: int, address: str, port: int
) -> Mapping[str, str]:
    """Return what a program on one of several nodes needs to find the others.

    ``PET_*`` are what torchrun takes its options from, so that a bare ``torchrun train.py`` does
    right: torch/distributed/argparse_util.py.

    Args:
        nodes: How many there are.
        rank: Rank of this node, from 0.
        gpus: That each has; 0 leaves the number of processes to the program.
        address: Host name or address of the first node.
        port: A free one there.
    """
    variables = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "NNODES": str(nodes),
        "NODE_RANK": str(rank),
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(port),
    }
    if gpus:
        variables["PET_NPROC_PER_NODE"] = str(gpus)
    return variables
