"""How many GPUs a definition asked for, and when a task may not do with what is here."""

from __future__ import annotations

import dataclasses

import pytest

from tarmac.errors import RequestError
from tarmac.hkube.serving.devices import Asked, read_asked, refuse_fewer_gpus, why_too_few
from tarmac.machine import find_devices

CPU = find_devices("cpu")
GPUS = tuple(dataclasses.replace(CPU[0], type="cuda", index=number) for number in range(4))


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, None),
        ({"TARMAC_GPUS": "2"}, (2, "TARMAC_GPUS is 2")),
        ({"TARMAC_GPUS": "0.5"}, (1, "TARMAC_GPUS is 0.5")),
        ({"TARMAC_GPUS": "0"}, None),
        ({"TARMAC_GPUS": "0", "NVIDIA_VISIBLE_DEVICES": "GPU-8a56a4bc"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, (2, "NVIDIA_VISIBLE_DEVICES is GPU-1,GPU-2")),
        ({"CUDA_VISIBLE_DEVICES": "0"}, (1, "CUDA_VISIBLE_DEVICES is 0")),
        # As for a task that was given none of the GPUs of the container that it is in.
        ({"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "GPU-1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "GPU-1"}, None),
        (
            {"CUDA_VISIBLE_DEVICES": "GPU-2", "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"},
            (1, "CUDA_VISIBLE_DEVICES is GPU-2"),
        ),
    ],
)
def test_how_many_gpus_were_asked_for_is_known(environment, asked):
    assert read_asked(environment) == (None if asked is None else Asked(*asked))


@pytest.mark.parametrize("text", ["two", "-1", "nan", "inf"])
def test_a_number_of_gpus_that_cannot_be_is_refused(text):
    with pytest.raises(RequestError, match=rf"TARMAC_GPUS is '{text}', expected a number of GPUs"):
        read_asked({"TARMAC_GPUS": text})


@pytest.mark.parametrize(
    ("request_", "found", "words"),
    [
        ("auto", CPU, "a GPU was requested (x), but none is usable"),
        ("1", CPU, "a GPU was requested (x), but none is usable"),
        ("auto", GPUS[:1], "2 GPUs were requested (x), but there is 1"),
        ("all", GPUS[:1], "2 GPUs were requested (x), but there is 1"),
        ("auto", GPUS[:2], ""),
        ("auto", GPUS, ""),
        # Whoever names devices means them.
        ("1", GPUS[:1], ""),
        ("cuda:0", GPUS[:1], ""),
        ("cpu", CPU, ""),
        ("cpu:2", CPU, ""),
    ],
)
def test_no_task_is_trained_on_less_than_was_asked_for_in_silence(request_, found, words):
    said = why_too_few(Asked(2, "x"), request_, found)
    assert said == words


def test_what_is_too_little_is_refused_with_what_to_do():
    with pytest.raises(RequestError) as caught:
        refuse_fewer_gpus("auto", {"TARMAC_GPUS": "1000"})
    assert "TARMAC_GPUS is 1000" in caught.value.message
    assert '"devices": ' in str(caught.value.hint)
