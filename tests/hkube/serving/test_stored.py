"""Trainings whose output is in an object store, on a real server of its protocol."""

from __future__ import annotations

import os
import shutil

import pytest

pytest.importorskip("obstore", reason="object stores are an extra")

from tarmac.errors import TarmacError
from tarmac.hkube.protocol import Message
from tarmac.hkube.serving.stored import fetch_run
from tarmac.runs import Run


def test_weights_and_events_are_in_the_store_that_the_variables_of_tensorflow_name(
    s3, served_here, worker
):
    served_here()
    done = worker.ask("t", {"epochs": 1, "output": "s3://bucket/folder/"})
    assert done.command == "done"
    assert done.data["output"] == "s3://bucket/folder/t/model.safetensors"
    found = s3.list_objects_v2(Bucket="bucket", Prefix="folder/t/")["Contents"]
    names = {each["Key"].removeprefix("folder/t/") for each in found}
    assert {"model.safetensors", "run.json", "metrics.jsonl"} < names
    assert any(name.startswith("events.out.tfevents.") for name in names)


def test_a_stopped_task_goes_on_on_another_machine(s3, served_here, worker, tmp_path):
    asked = {"epochs": 60, "output": "s3://bucket/other", "devices": "cpu", "precision": "fp32"}
    here = served_here()
    worker.begin("t", asked)
    worker.hear("progress")
    worker.say("stop", {"forceStop": True})
    assert worker.hear_next() == Message("stopped")
    # Another task whose name begins like it.
    assert worker.ask("t2", asked).command == "done"
    whole = Run.open(tmp_path / "runs" / "t2").model.read_bytes()
    shutil.rmtree(tmp_path / "runs")
    done = worker.ask("t", asked)
    assert done.command == "done"
    assert "t goes on from its newest checkpoint" in here.lines
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["t"]
    body = s3.get_object(Bucket="bucket", Key="other/t/model.safetensors")["Body"].read()
    assert body == whole
    shutil.rmtree(tmp_path / "runs")
    assert worker.ask("t", asked) == done


def test_a_store_that_does_not_answer_as_it_should_is_named_before_anything_is_trained(
    s3, served_here, worker, tmp_path
):
    here = served_here()
    told = worker.ask("t", {"epochs": 1, "output": "s3://missing/folder"})
    assert told.command == "errorMessage"
    assert "s3://missing/folder/t" in told.error["message"]
    assert "hunter2" not in str(told) + str(here.lines)
    assert not (tmp_path / "runs" / "t").exists()


def test_what_a_store_holds_is_written_into_the_runs_directory_alone(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="evil/t/run.json", Body=b"{}")
    s3.put_object(Bucket="bucket", Key="evil/t/a/../../../../x", Body=b"")
    with pytest.raises(TarmacError, match="invalid path"):
        fetch_run("s3://bucket/evil/t", tmp_path / "runs" / "t", os.environ)
    assert not [*tmp_path.iterdir()]
