"""Programs that know nothing of HKube: input and result are in files."""

from __future__ import annotations

import sys

import pytest
from pools import define, each, make

PLAIN = """
import json, os, sys
given = json.load(open(os.environ["TARMAC_INPUT"]))
print("got", given)
if given[0] == "exit":
    sys.exit(given[1])
if given[0] == "sleep":
    import signal
    signal.pause()
if given[0] == "bad":
    open(os.environ["TARMAC_RESULT"], "w").write("{")
elif given[0] == "deep":
    open(os.environ["TARMAC_RESULT"], "w").write("[" * 600 + "]" * 600)
elif given[0] == "pipe":
    os.mkfifo(os.environ["TARMAC_RESULT"])
elif given[0] == "link":
    os.symlink(os.environ["TARMAC_INPUT"], os.environ["TARMAC_RESULT"])
elif given[0] != "nothing":
    json.dump({"given": given}, open(os.environ["TARMAC_RESULT"], "w"))
"""


@pytest.mark.parametrize(
    ("inputs", "why", "value", "words"),
    [
        (("echo", {"a": 1}), "", {"given": ["echo", {"a": 1}]}, ""),
        (("nothing",), "", None, ""),
        (("exit", 4), "crash", None, "exit code 4"),
        (("bad",), "error", None, "result.json: it is not JSON"),
        (("deep",), "error", None, "result.json: it is nested more than 200 deep"),
        (("pipe",), "error", None, "result.json: it is not a file"),
        (("link",), "error", None, "result.json: Too many levels of symbolic links"),
        ((b"bytes",), "refused", None, "JSON"),
    ],
)
def test_a_plain_program_has_its_input_and_result_in_files(host, inputs, why, value, words):
    algorithm = define(command=[sys.executable, "-c", PLAIN], own={"protocol": "plain"})
    (ending,) = host([algorithm], each(make(*inputs, retry="Never")))
    assert (ending.why, ending.value) == (why, value), ending
    assert words in ending.message


def test_a_plain_program_out_of_time_is_ended(host):
    algorithm = define(command=[sys.executable, "-c", PLAIN], own={"protocol": "plain"})
    (ending,) = host([algorithm], each(make("sleep", ttl_s=0.3)))
    assert (ending.why, ending.message) == ("ttl", "Algorithm TTL expired")
