"""What a definition says of the worker's side of its algorithm."""

from __future__ import annotations

import pytest

from tarmac.formats import read_algorithm
from tarmac.hkube.hosting.algorithms import Hosted
from tarmac.jobs import plan_tasks


def _hosted(worker_env, base) -> Hosted:
    algorithm = read_algorithm(
        {
            "name": "green-alg",
            "workerEnv": worker_env,
            "options": {"tarmac": {"command": ["true"]}},
        }
    )
    return Hosted(algorithm, next(iter(plan_tasks(algorithm.job, base))))


@pytest.mark.parametrize(
    ("worker_env", "options"),
    [
        ({}, {}),
        ({"ALGORITHM_DISCONNECTED_TIMEOUT_MS": "3600000"}, {"disconnected_timeout_s": 3600.0}),
        ({"WRAPPER_TIMEOUT_DURATION": 20000}, {"alive_timeout_s": 20.0}),
        ({"WORKER_SOCKET_MAX_PAYLOAD_BYTES": "1e8"}, {"max_payload_bytes": 100_000_000}),
        ({"WORKER_SOCKET_MAX_PAYLOAD_BYTES": "inf", "WRAPPER_TIMEOUT_DURATION": "-1"}, {}),
        ({"WORKER_SOCKET_MAX_PAYLOAD_BYTES": "much"}, {}),
    ],
)
def test_the_workers_settings_of_a_definition_are_those_of_its_socket(
    tmp_path, worker_env, options
):
    said = _hosted(worker_env, tmp_path).session_options
    del said["users"]
    assert said == options
