"""A workload that is served, hosted by Tarmac as HKube's worker would."""

from __future__ import annotations

import asyncio

from forked import forked_interpreter
from tarmac.errors import TarmacError
from tarmac.formats import read_algorithm
from tarmac.hkube.hosting import Pool, Timers, Work
from tarmac.runs import Run


class _Watch:
    """Keeps what is told of progress, and says when there is some."""

    def __init__(self):
        self.progress_of = []
        self.begun = asyncio.Event()

    def started(self, work, attempt, directory, gpus):
        self.directory = directory

    def progress(self, work, value, details):
        self.progress_of.append((work.name, value, details))
        self.begun.set()

    def retrying(self, work, reason, delay_s):
        raise AssertionError(reason)

    def waiting(self, work, reason):
        pass


class _NoCalls:
    async def run_algorithm(self, caller, algorithm, inputs):
        raise TarmacError("nobody calls")

    async def run_pipeline(self, caller, body):
        raise TarmacError("nobody calls")


def work_for(index, task_id, asked):
    return Work(
        index=index,
        name=f"train[{index}]",
        task_id=task_id,
        algorithm="digits",
        input=[asked],
        job_id="job",
        pipeline="pipeline",
        node="train",
    )


def test_a_served_workload_is_hosted_stopped_and_gone_on_with(tmp_path):
    command = [forked_interpreter(), "-m", "tarmac", "hkube", "serve", "digits-mlp"]
    definition = {
        "name": "digits",
        "cpu": 1,
        "mem": "2Gi",
        "algorithmEnv": {"WORKER_ALGORITHM_ENCODING": "bson"},
        "options": {"tarmac": {"command": command}},
    }
    asked = {"num_epochs": 20, "train_size": 256, "output": str(tmp_path / "out"), "devices": "cpu"}
    asked["precision"] = "fp32"

    async def host():
        watch = _Watch()
        algorithms = {"digits": read_algorithm(definition)}
        pool = Pool(
            algorithms,
            tmp_path / "run",
            base=tmp_path,
            watcher=watch,
            calls=_NoCalls(),
            concurrency=1,
            timers=Timers(start_s=120),
        )
        async with asyncio.timeout(240), pool:
            wrong = await pool.submit(work_for(0, "wrong", asked | {"hiden": 5}))
            whole = await pool.submit(work_for(1, "whole", asked))
            assert watch.progress_of[-1][:2] == ("train[1]", 1.0)
            watch.begun.clear()
            stopped = pool.submit(work_for(2, "t", asked))
            await watch.begun.wait()
            stopped.cancel()
            again = await pool.submit(work_for(3, "t", asked))
        return wrong, whole, again

    wrong, whole, again = asyncio.run(host())
    assert (wrong.why, wrong.code) == ("error", "Failed")
    assert wrong.message.startswith("RequestError: unknown setting of digits-mlp 'hiden'")
    assert "hidden" in wrong.details
    assert whole.why == again.why == ""
    assert again.value == whole.value | {"output": f"{tmp_path}/out/t/model.safetensors"}
    weights = [Run.open(tmp_path / "out" / name).model.read_bytes() for name in ("whole", "t")]
    assert weights[0] == weights[1]
