"""An MLflow server as far as Tarmac asks one: experiments and runs, kept in memory."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from typing import Any


class MlflowStandIn(http.server.ThreadingHTTPServer):
    """Answers on a port of its own of the loopback, while it is entered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.refused_steps: set[int] = set()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> MlflowStandIn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def answer(self, call: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answers = {
            "experiments/get-by-name": self._find_experiment,
            "experiments/create": self._create_experiment,
            "runs/create": self._create,
            "runs/search": self._search,
            "runs/log-batch": self._log,
            "runs/update": self._update,
            "runs/get": lambda asked: {"run": self._described(asked["run_id"])},
        }
        try:
            return 200, answers[call](asked)
        except LookupError as error:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": str(error)}
        except ValueError as error:
            return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": str(error)}

    def _find_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        name = asked["experiment_name"]
        return {"experiment": {"experiment_id": self.experiments[name], "name": name}}

    def _create_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.experiments[asked["name"]] = "1"
        return {"experiment_id": "1"}

    def _create(self, asked: dict[str, Any]) -> dict[str, Any]:
        run_id = f"run{len(self.runs)}"
        tags = {tag["key"]: tag["value"] for tag in asked["tags"]}
        run = {"tags": tags, "name": asked["run_name"], "status": "RUNNING"}
        self.runs[run_id] = run | {"params": {}, "metrics": []}
        return {"run": self._described(run_id)}

    def _search(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = [
            run_id
            for run_id, run in self.runs.items()
            if f"'{run['tags']['tarmac.run']}'" in asked["filter"]
        ]
        return {"runs": [self._described(run_id) for run_id in found]}

    def _log(self, asked: dict[str, Any]) -> dict[str, Any]:
        metrics = asked.get("metrics", [])
        if any(point["step"] in self.refused_steps for point in metrics):
            raise ValueError("not today")
        run = self.runs[asked["run_id"]]
        run["metrics"] += metrics
        run["params"] |= {each["key"]: each["value"] for each in asked.get("params", [])}
        return {}

    def _update(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.runs[asked["run_id"]]["status"] = asked["status"]
        return {"run_info": self._described(asked["run_id"])["info"]}

    def _described(self, run_id: str) -> dict[str, Any]:
        run = self.runs[run_id]
        info = {"run_id": run_id, "run_uuid": run_id, "experiment_id": "1", "user_id": "u"}
        info |= {"status": run["status"], "lifecycle_stage": "active", "start_time": 1}
        tags = [{"key": key, "value": value} for key, value in run["tags"].items()]
        return {"info": info, "data": {"tags": tags}}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: MlflowStandIn

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self._answer(path, dict(urllib.parse.parse_qsl(query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self.path, json.loads(body))

    do_PATCH = do_POST  # noqa: N815 - named so by http.server

    def _answer(self, path: str, asked: dict[str, Any]) -> None:
        status, answer = self.server.answer(path.removeprefix("/api/2.0/mlflow/"), asked)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
