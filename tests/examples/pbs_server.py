"""A stand-in of OpenPBS: its commands, and jobs that are processes of this machine.

Identifiers, states, ``Exit_status``, substates and messages are those that OpenPBS documents for
22.05 and 23.06 (User's and Reference Guide, job.h). No real server has been compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_COMMANDS = ("qsub", "qstat", "qdel", "qalter", "pbsnodes")
_CLIENT = """\
#!{python} -IS
import json, socket, sys
text = sys.stdin.read() if {name!r} == "qsub" else ""
with socket.create_connection({address!r}) as line:
    line.sendall(json.dumps([{name!r}, sys.argv[1:], text]).encode() + b"\\n")
    code, out, err = json.loads(line.makefile().read())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""
_ANSWER = {"timestamp": 1764000000, "pbs_version": "23.06.06", "pbs_server": "pbs1"}
_KILL_DELAY_S = 10.0

Unit = dict[str, Any]
Answer = tuple[int, str, str]


class PbsServer:
    """A server with one node, whose commands are in the directory `bin`.

    Attributes:
        has_history: Whether ``qstat -x`` shows ended jobs, as ``job_history_enable`` says.
        refusal: What qsub prints instead of taking a job; empty to take it.
        most_at_once: Most units of one job that ran at the same time.
    """

    def __init__(self, directory: Path, ncpus: int = 8, ngpus: int = 2) -> None:
        self.bin = directory / "bin"
        self.has_history, self.refusal, self.most_at_once = True, "", 0
        self._directory = directory
        self._node = {"ncpus": ncpus, "ngpus": ngpus}
        self._lock = threading.RLock()
        self._jobs: list[list[Unit]] = []
        self._limits: list[int] = []
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                name, words, text = json.loads(self.rfile.readline())
                with server._lock:
                    answer = getattr(server, f"_{name}")(words, text)
                self.wfile.write(json.dumps(answer).encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.bin.mkdir(parents=True)
        for name in _COMMANDS:
            address = self._server.server_address
            client = _CLIENT.format(python=sys.executable, name=name, address=address)
            (self.bin / name).write_text(client)
            (self.bin / name).chmod(0o755)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def requeue(self) -> None:
        """End the running units with SIGTERM, and start them again, as a preemption does."""
        with self._lock:
            for unit in self._units():
                if unit["shown"]["job_state"] == "R":
                    unit["is_requeued"] = True
                    _signal(unit, signal.SIGTERM)

    def close(self) -> None:
        with self._lock:
            for unit in self._units():
                self._end(unit)
                _signal(unit, signal.SIGKILL)
        self._server.shutdown()
        self._server.server_close()

    def _qsub(self, words: list[str], script: str) -> Answer:
        if self.refusal:
            return 38, "", f"qsub: {self.refusal}\n"
        pairs = [*zip(words[::2], words[1::2], strict=True)]
        options, number = dict(pairs), len(self._jobs)
        requested = ":".join(value for name, value in pairs if name in ("-l", "-W"))
        wanted = dict(re.findall(r"(ncpus|ngpus|max_run_subjobs)=(\d+)", requested))
        job = f"{number}[].pbs1" if "-J" in options else f"{number}.pbs1"
        path = self._directory / f"{number}.SC"
        path.write_text(script)
        last = int(options.get("-J", "0-0").partition("-")[2])
        units = [
            {
                "id": job.replace("[]", f"[{index}]"),
                "job": job,
                "script": path,
                "output": options["-o"].replace("^array_index^", str(index)),
                "wanted": {name: int(value) for name, value in wanted.items()},
                "gpus": [],
                "shown": {"Job_Name": options["-N"], "job_state": "Q", "substate": 10}
                | ({"array_id": job, "array_index": index} if "-J" in options else {}),
            }
            for index in range(last + 1)
        ]
        self._jobs.append(units)
        self._limits.append(int(wanted.get("max_run_subjobs", len(units))))
        self._schedule()
        return 0, f"{job}\n", ""

    def _qstat(self, words: list[str], _: str) -> Answer:
        if "-B" in words:
            return 0, json.dumps({**_ANSWER, "Server": {"pbs1": {"server_state": "Active"}}}), ""
        if "-x" in words and not self.has_history:
            return 1, "", "qstat: PBS is not configured to maintain job history\n"
        names = words[words.index("json") + 1 :]
        units = [unit for name in names for unit in self._named(name)] if names else self._units()
        shown: dict[str, Any] = {}
        for unit in units:
            if "-x" in words or not self._is_over(unit["job"]):
                shown[unit["job"]] = {"Job_Name": unit["shown"]["Job_Name"], "job_state": "B"}
                shown[unit["id"]] = unit["shown"]
        missing = [name for name in names if name not in shown]
        err = "".join(f"qstat: Unknown Job Id {name}\n" for name in missing)
        return 153 * bool(missing), json.dumps({**_ANSWER, "Jobs": shown}) if shown else "", err

    def _qdel(self, words: list[str], _: str) -> Answer:
        over = [word for word in words if all(map(_is_over, self._named(word)))]
        for word in words:
            for unit in self._named(word):
                self._end(unit)
        err = "".join(f"qdel: Job has finished {word}\n" for word in over)
        return 35 * bool(over), "", err

    def _qalter(self, words: list[str], _: str) -> Answer:
        number, limit = int(words[2].partition("[")[0]), words[1].removeprefix("max_run_subjobs=")
        self._limits[number] = int(limit)
        self._schedule()
        return 0, "", ""

    def _pbsnodes(self, words: list[str], _: str) -> Answer:
        node = {"state": "free", "resources_available": self._node}
        return 0, json.dumps({**_ANSWER, "nodes": {"n1": node}}), ""

    def _units(self) -> list[Unit]:
        return [unit for units in self._jobs for unit in units]

    def _named(self, name: str) -> list[Unit]:
        units = self._jobs[int(re.match(r"\d+", name)[0])]
        return [unit for unit in units if name in (unit["id"], unit["job"])]

    def _is_over(self, job: str) -> bool:
        return all(map(_is_over, self._named(job)))

    def _schedule(self) -> None:
        """Start the units that fit, in the order of their submission."""
        running = [unit for unit in self._units() if unit["shown"]["job_state"] == "R"]
        for units, limit in zip(self._jobs, self._limits, strict=True):
            for unit in units:
                at_once = sum(other in running for other in units)
                cpus = sum(other["wanted"]["ncpus"] for other in (*running, unit))
                held = [gpu for other in running for gpu in other["gpus"]]
                free = [gpu for gpu in range(self._node["ngpus"]) if gpu not in held]
                num_gpus = unit["wanted"].get("ngpus", 0)
                if unit["shown"]["job_state"] != "Q" or at_once >= limit:
                    continue
                if cpus > self._node["ncpus"] or num_gpus > len(free):
                    unit["shown"]["comment"] = "Not Running: Insufficient amount of resource"
                    continue
                unit["gpus"] = free[:num_gpus]
                running.append(unit)
                self.most_at_once = max(self.most_at_once, at_once + 1)
                self._begin(unit)

    def _begin(self, unit: Unit) -> None:
        shown = unit["shown"]
        shown |= {"job_state": "R", "substate": 42, "exec_host": f"{os.uname().nodename}/0"}
        variables = {name: os.environ.get(name, "/") for name in ("HOME", "LOGNAME", "LANG")}
        variables |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "PBS_JOBID": unit["id"]}
        if "array_index" in shown:
            variables["PBS_ARRAY_INDEX"] = str(shown["array_index"])
        if unit["gpus"]:
            # As PBS's hook for control groups does.
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, unit["gpus"]))
        with Path(unit["output"]).open("ab") as output:
            unit["process"] = subprocess.Popen(
                ["/bin/sh", str(unit["script"])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                cwd=variables["HOME"],
                start_new_session=True,
            )
        threading.Thread(target=self._wait, args=(unit,), daemon=True).start()

    def _wait(self, unit: Unit) -> None:
        code = unit["process"].wait()
        with self._lock:
            if unit.pop("is_requeued", False):
                unit["shown"] |= {"job_state": "Q", "substate": 10}
            else:
                _finish(unit, 91 if unit["shown"]["substate"] == 91 else 93 if code else 92)
                unit["shown"]["Exit_status"] = code if code >= 0 else 256 - code
            unit["gpus"] = []
            self._schedule()

    def _end(self, unit: Unit) -> None:
        if unit["shown"]["job_state"] == "Q":
            _finish(unit, 91)
        elif unit["shown"]["job_state"] == "R":
            unit["shown"]["substate"] = 91
            _signal(unit, signal.SIGTERM)
            timer = threading.Timer(_KILL_DELAY_S, _signal, (unit, signal.SIGKILL))
            timer.daemon = True
            timer.start()


def _is_over(unit: Unit) -> bool:
    return unit["shown"]["job_state"] in "FX"


def _finish(unit: Unit, substate: int) -> None:
    state = "X" if "array_id" in unit["shown"] else "F"
    unit["shown"] |= {"job_state": state, "substate": substate}


def _signal(unit: Unit, number: int) -> None:
    process = unit.get("process")
    if process is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
