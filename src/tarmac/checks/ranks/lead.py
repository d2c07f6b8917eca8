"""Rank 0: waits for all ranks, runs their all-reduces together and in pairs, and ends them."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import TYPE_CHECKING, Any

from tarmac.checks.ranked import Pair, Rank, Ranks
from tarmac.checks.ranks.lines import Line, listen
from tarmac.checks.ranks.rounds import pair_up

if TYPE_CHECKING:
    from tarmac.checks.ranks.place import Place

# Number of other hosts to compare each host with; a single slow one among them is outvoted.
_MAX_ROUNDS = 7

# Seconds to wait for an answer beyond the time limit of the work itself.
_GRACE_S = 15.0
_GREETING_S = 5.0


@dataclasses.dataclass
class _Member:
    rank: Rank
    line: Line
    is_ready: bool = False


class Lead:
    """The leader of the ranks of one launch.

    Args:
        place: Place of this process, which is rank 0.
        timeout_s: Seconds to wait for ranks, and again for their import of PyTorch.
        round_s: Seconds that a group's all-reduce may take, including its rendezvous.
        on_cpu: Whether to leave GPUs out.

    Attributes:
        lost: Ranks that were lost after they had connected, from rank to reason.
    """

    def __init__(self, place: Place, *, timeout_s: float, round_s: float, on_cpu: bool) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._round_s = round_s
        self._on_cpu = on_cpu
        self._server = listen(place)
        self._members: dict[int, _Member] = {}
        self.lost: dict[int, str] = {}
        self._came = threading.Condition()

    def close(self, code: int) -> None:
        """Send all ranks the exit code, and close the connections."""
        with self._came:
            members = list(self._members.values())
        for member in members:
            member.line.send(do="end", code=code)
            member.line.close()
        # Ends the accepting thread's wait.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def gather(self) -> Ranks:
        """Wait for all ranks, and for their PyTorch to start."""
        end = time.monotonic() + self._timeout_s
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()
        with self._came:
            while len(self._members) < self._place.size and time.monotonic() < end:
                self._came.wait(end - time.monotonic())
            # A rank that connects later takes no part, and receives only the exit code.
            members = dict(sorted(self._members.items()))
        for member in members.values():
            before = time.time()
            answer = self._ask(member, {"do": "clock"}, _GREETING_S)
            if "clock" in answer:
                off = answer["clock"] - (before + time.time()) / 2
                member.rank = member.rank.model_copy(update={"clock_off_s": off})
        self._start(list(members))
        return Ranks(
            size=self._place.size,
            limit_s=self._timeout_s,
            ranks=tuple(member.rank for member in members.values()),
            missing=tuple(rank for rank in range(self._place.size) if rank not in members),
        )

    def add_up(self, ranks: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Let some ranks all-reduce as one group, and return each rank's answer."""
        members = [self._members[rank] for rank in ranks if rank not in self.lost]
        self._start([member.rank.rank for member in members if not member.is_ready])
        if not members or not all(member.is_ready for member in members):
            return {
                member.rank.rank: {"error": member.rank.problem, "own": True}
                if not member.is_ready
                else {"error": "its partner cannot", "own": False}
                for member in members
            }
        first = members[0]
        port = self._ask(first, {"do": "port"}, _GREETING_S).get("port", 0)
        group = {
            "do": "add",
            "host": first.rank.address,
            "port": port,
            "count": len(members),
            "limit_s": self._round_s,
            "on_gpu": self._is_on_gpus([member.rank for member in members]),
        }
        with ThreadPoolExecutor(len(members)) as threads:
            answers = threads.map(
                lambda numbered: self._ask(
                    numbered[1], {**group, "rank": numbered[0]}, self._round_s + _GRACE_S
                ),
                enumerate(members),
            )
            results = {
                member.rank.rank: answer for member, answer in zip(members, answers, strict=True)
            }
        for member in members:
            member.is_ready = "error" not in results[member.rank.rank]
        return results

    def meet_in_pairs(self, ranks: Ranks) -> tuple[tuple[Pair, ...], int]:
        """Let hosts, or one host's ranks, all-reduce in pairs.

        Returns:
            The pairs' results, and the size of their message in bytes.
        """
        units = ranks.units
        summaries: list[Pair] = []
        num_bytes = 0
        for number, pairs in enumerate(pair_up(list(units), _MAX_ROUNDS)):
            with ThreadPoolExecutor(max(1, len(pairs))) as threads:
                done = threads.map(lambda pair: self._meet(units[pair[0]], units[pair[1]]), pairs)
                for names, lanes in zip(pairs, done, strict=True):
                    summaries.append(_summed_up(number, names, units, lanes))
                    sizes = [result.get("answer", {}).get("bytes", 0) for result in lanes.values()]
                    num_bytes = max(num_bytes, *sizes, 0)
        return tuple(summaries), num_bytes

    def _meet(self, ours: Sequence[Rank], theirs: Sequence[Rank]) -> dict[int, dict[str, Any]]:
        """Let each rank of one unit all-reduce with its partner in another, all at once."""
        # The host with more ranks has some without a partner.
        lanes = list(zip(ours, theirs, strict=False))
        with ThreadPoolExecutor(len(lanes)) as threads:
            done = threads.map(lambda lane: self._add_two(lane[0].rank, lane[1].rank), lanes)
            return {rank: result for lane in done for rank, result in lane.items()}

    def _add_two(self, a: int, b: int) -> dict[int, dict[str, Any]]:
        gone = {r: {"error": self.lost[r], "own": True} for r in (a, b) if r in self.lost}
        if gone:
            return {r: gone.get(r, {"error": "its partner is gone", "own": False}) for r in (a, b)}
        return self.add_up([a, b])

    def _is_on_gpus(self, ranks: Sequence[Rank]) -> bool:
        gpus = {(rank.host, rank.gpu) for rank in ranks if rank.gpu is not None}
        return not self._on_cpu and len(gpus) == len(ranks)

    def _start(self, ranks: Sequence[int]) -> None:
        """Start PyTorch on some ranks, or restart it where it has failed."""
        if not ranks:
            return
        request = {"do": "start", "limit_s": self._timeout_s}
        members = [self._members[rank] for rank in ranks]
        with ThreadPoolExecutor(len(members)) as threads:
            answers = threads.map(
                lambda member: self._ask(member, request, self._timeout_s + _GRACE_S), members
            )
            for member, answer in zip(members, answers, strict=True):
                member.is_ready = "facts" in answer
                update = answer.get("facts") or {"problem": answer["error"]}
                member.rank = member.rank.model_copy(update=update)

    def _ask(self, member: _Member, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a rank a command and return its answer; without one, mark the rank as lost."""
        member.line.send(**request)
        try:
            answer = member.line.receive(limit_s)
        except TimeoutError:
            how = f"gave no answer for {limit_s:g} s"
        else:
            if answer is not None:
                return answer
            how = "its connection has ended"
        self.lost[member.rank.rank] = how
        return {"error": how, "own": True}

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            line = Line(connection)
            line.send(tarmac=self._place.launch)
            greeting = line.receive(_GREETING_S)
            rank = Rank.model_validate(greeting["rank"] if greeting else None)
        except (OSError, KeyError, ValueError):
            # The other end is no rank of this check.
            connection.close()
            return
        rank = rank.model_copy(update={"address": line.address})
        with self._came:
            if rank.rank < self._place.size and rank.rank not in self._members:
                self._members[rank.rank] = _Member(rank, line)
                self._came.notify_all()


def _summed_up(
    number: int,
    names: tuple[str, str],
    units: Mapping[str, Sequence[Rank]],
    lanes: Mapping[int, Mapping[str, Any]],
) -> Pair:
    """Return a pair with the time of its slowest rank, or with its problem."""
    failed = {rank: result for rank, result in lanes.items() if "error" in result}
    if not failed:
        wrong = [rank for rank, result in lanes.items() if not result["answer"]["ok"]]
        seconds = max(median(result["answer"]["seconds"]) for result in lanes.values())
        problem = f"rank {wrong[0]} got a wrong sum" if wrong else ""
        return Pair(round=number, names=names, seconds=seconds, problem=problem)

    def names_of(ranks: Mapping[int, Any]) -> Iterator[str]:
        for name in names:
            if any(rank.rank in ranks for rank in units[name]):
                yield name

    own = {rank: result for rank, result in failed.items() if result.get("own")}
    rank, result = next(iter((own or failed).items()))
    problem = f"rank {rank}: {result['error']}"
    return Pair(round=number, names=names, problem=problem, own=tuple(names_of(own)))
