"""Values, messages, addresses and files of HKube's protocol, as nobody has vouched for them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import math
import os
from pathlib import Path

import bson
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.hkube.protocol import (
    ENCODINGS,
    MAX_NESTING,
    Link,
    Message,
    ProtocolError,
    decode,
    dump_value,
    encode,
    load_value,
    read_link,
    read_stored,
    stored_bytes,
    worker_url,
)

each_encoding = pytest.mark.parametrize("encoding", ENCODINGS)

_text = st.text(st.characters(exclude_categories=["Cs"]))
_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text
)


def _values(leaves):
    keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    return st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(keys, x), max_leaves=20)


@each_encoding
@given(value=_values(_leaves))
def test_a_value_comes_back_as_it_was(encoding, value):
    assert load_value(dump_value(value, encoding), encoding) == value


@pytest.mark.parametrize("encoding", ["msgpack", "bson"])
@given(value=_values(_leaves | st.binary()))
def test_a_value_with_binary_data_comes_back_as_it_was(encoding, value):
    back = load_value(dump_value(value, encoding), encoding)
    assert back == value
    # BSON's own class would look the same.
    assert str(back) == str(value)


@each_encoding
@given(data=st.binary() | st.binary().map(msgpack.packb))
def test_any_bytes_are_a_value_or_a_refusal(encoding, data):
    with contextlib.suppress(ProtocolError):
        # What is taken can also be kept.
        dump_value(load_value(data, encoding), "msgpack")


@given(data=st.text() | _values(_leaves | st.floats() | st.integers()).map(json.dumps))
def test_any_text_is_a_message_or_a_refusal(data):
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode(data, "json").command, str)


@each_encoding
@pytest.mark.parametrize(
    "message",
    [
        Message("initialized"),
        Message("done", {"loss": 0.5, "acc": [1, None]}),
        Message("errorMessage", None, {"code": "Failed", "message": "no", "details": "line 1"}),
    ],
    ids=lambda message: message.command,
)
def test_a_message_comes_back_as_it_was(encoding, message):
    frame = encode(message, encoding)
    assert isinstance(frame, str) == (encoding == "json")
    assert decode(frame, encoding) == message


def test_frames_are_those_of_the_wrappers():
    fields = {"command": "started", "data": None}
    assert json.loads(encode(Message("started"), "json")) == fields
    assert msgpack.unpackb(encode(Message("started"), "msgpack")) == fields
    # BSON has no bare values.
    assert bson.decode(encode(Message("started"), "bson")) == {"data": fields}


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "it is a list"),
        ("null", "it is a NoneType"),
        ("{}", "'command' is not a text"),
        ('{"command": 1}', "'command' is not a text"),
        (b"\xff\xfe{", "not JSON"),
        ('{"command": "x", "data": ' + "9" * 5000 + "}", "not JSON"),
        ('{"command": "x", "data": ' + "[" * 5000 + "]" * 5000 + "}", "nested more than"),
    ],
)
def test_a_frame_that_is_no_message_is_refused_with_its_reason(frame, what):
    with pytest.raises(ProtocolError, match=what):
        decode(frame, "json")


@pytest.mark.parametrize("encoding", ["msgpack", "bson"])
def test_text_is_no_binary_message(encoding):
    with pytest.raises(ProtocolError, match="it is text"):
        decode('{"command": "started"}', encoding)


def test_an_error_that_is_no_object_is_its_own_message():
    assert decode('{"command": "errorMessage", "error": "no"}', "json").error == {"message": "no"}


@each_encoding
@pytest.mark.parametrize("depth", [MAX_NESTING - 2, MAX_NESTING + 1, 400, 3000])
def test_nesting_is_bounded(encoding, depth):
    if encoding == "json":
        data = "[" * depth + "]" * depth
    elif encoding == "msgpack":
        data = b"\x91" * (depth - 1) + b"\x90"
    else:
        # Documents within documents, each {"0": ...}.
        data = b"\x05\0\0\0\0"
        for name in [b"0"] * (depth - 1) + [b"data"]:
            size = 4 + 1 + len(name) + 1 + len(data) + 1
            data = size.to_bytes(4, "little") + b"\x04" + name + b"\0" + data + b"\0"
    if depth <= MAX_NESTING:
        # What is taken can also be kept.
        dump_value(load_value(data, encoding), "msgpack")
    else:
        with pytest.raises(ProtocolError):
            load_value(data, encoding)


def test_values_of_bson_alone_become_what_javascript_makes_of_them():
    identifier = bson.ObjectId()
    data = {
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000),
        "identifier": identifier,
        "decimal": bson.Decimal128("1.5"),
        "large": 2**40,
        "binary": bson.Binary(b"\x01", 5),
    }
    value = load_value(bson.encode({"data": data}), "bson")
    assert value == {
        "when": "2026-01-02T03:04:05.678Z",
        "identifier": str(identifier),
        "decimal": "1.5",
        "large": 2**40,
        "binary": b"\x01",
    }
    assert type(value["binary"]) is bytes


@pytest.mark.parametrize("value", [bson.Regex("a"), bson.Code("x"), bson.MinKey()], ids=str)
def test_a_value_of_bson_that_is_no_data_is_refused(value):
    with pytest.raises(ProtocolError, match=type(value).__name__):
        load_value(bson.encode({"data": [value]}), "bson")


def test_keys_of_messagepack_that_are_no_text_become_text():
    packed = msgpack.packb({1: {"a": {None: 0}}, False: 1.5, b"b": 2, "c": 3})
    value = {"1": {"a": {"null": 0}}, "false": 1.5, "b": 2, "c": 3}
    assert load_value(packed, "msgpack") == value


def test_dates_of_messagepack_are_text_and_its_other_extensions_are_refused():
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    packed = msgpack.packb([moment], datetime=True)
    assert load_value(packed, "msgpack") == ["2026-01-02T00:00:00.000Z"]
    with pytest.raises(ProtocolError, match="ExtType"):
        load_value(msgpack.packb(msgpack.ExtType(5, b"x")), "msgpack")


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_kept():
    assert load_value(r'{"\ud83d": ["\ud83d\ude00", "a\udc00"]}', "json") == {"�": ["😀", "a�"]}
    for encoding in ENCODINGS:
        back = load_value(dump_value("a\ud83d", encoding), encoding)
        assert back == "a�"


def test_numbers_that_an_encoding_has_not_are_those_of_javascript():
    value = [math.nan, math.inf, 2**80, -(2**2000)]
    assert load_value(dump_value(value, "json"), "json") == [None, None, 2**80, -(2**2000)]
    for encoding in ("msgpack", "bson"):
        back = load_value(dump_value(value, encoding), encoding)
        assert math.isnan(back[0])
        assert back[1:] == [math.inf, float(2**80), -math.inf]


@pytest.mark.parametrize(
    ("value", "encoding", "what"),
    [
        ({"input": [{"x": b"1"}]}, "json", r"input\[0\].x is binary data"),
        ({"input": [{1, 2}]}, "msgpack", r"input\[0\] is of the type set"),
        ([object()], "bson", r"\[0\] is of the type object"),
        ({"a\0b": 1}, "bson", "BSON cannot carry it"),
    ],
)
def test_what_an_encoding_cannot_carry_is_named(value, encoding, what):
    with pytest.raises(ProtocolError, match=what):
        dump_value(value, encoding)


@pytest.mark.parametrize(
    ("target", "link"),
    [
        ("/", Link("v1", "json", has_query=False)),
        ("/?storage=v3&encoding=bson", Link("v3", "bson")),
        ("/?encoding=msgpack&hostname=pod-1", Link("v1", "msgpack")),
        ("/" + Link("v2", "msgpack").query, Link("v2", "msgpack")),
    ],
)
def test_a_query_says_storage_and_encoding(target, link):
    assert read_link(target) == link


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("/?encoding=pickle", "encoding is 'pickle', expected one of json, msgpack, bson"),
        ("/?storage=v9", "storage is 'v9', expected one of v1, v2, v3"),
        ("//[", "cannot be read"),
        ("/?" + "a=1&" * 200, "cannot be read"),
    ],
)
def test_a_query_that_asks_for_what_there_is_not_is_refused(target, what):
    with pytest.raises(ProtocolError, match=what):
        read_link(target)


@given(target=st.text() | st.text().map("/?encoding={}".format))
def test_any_target_is_a_link_or_a_refusal(target):
    with contextlib.suppress(ProtocolError):
        assert read_link(target).encoding in ENCODINGS


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "ws://127.0.0.1:3000"),
        ({"WORKER_SOCKET_HOST": "10.0.0.1", "WORKER_SOCKET_PORT": "3001"}, "ws://10.0.0.1:3001"),
        ({"WORKER_SOCKET_PROTOCOL": "wss", "WORKER_SOCKET_HOST": ""}, "wss://127.0.0.1:3000"),
        ({"WORKER_SOCKET_URL": "ws://a:1/x", "WORKER_SOCKET_PORT": "3001"}, "ws://a:1/x"),
    ],
)
def test_the_worker_is_where_the_variables_say(environ, url):
    assert worker_url(environ) == url


def _store(directory: Path, path: str, content: bytes) -> Path:
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@each_encoding
@pytest.mark.parametrize("value", [{"loss": [0.5]}, None, b"\x00\x01raw"], ids=str)
def test_a_stored_value_is_read_once(tmp_path, encoding, value):
    file = _store(tmp_path, "local-hkube/job/task", stored_bytes(value, encoding))
    assert read_stored(tmp_path, "local-hkube/job/task", max_bytes=100) == value
    assert not file.exists()


def test_a_file_of_the_python_wrapper_is_read(tmp_path):
    # As hkube_python_wrapper 2.4.2 has written {'a': [1, 2]}, by STORAGE_ENCODING=msgpack.
    _store(tmp_path, "local-hkube/j/t", base64.b64decode("AQgCAwAASEuBoWGSAQI="))
    assert read_stored(tmp_path, "local-hkube/j/t", max_bytes=100) == {"a": [1, 2]}


@pytest.mark.parametrize(
    "path",
    [
        *(None, 5, "", "/etc/passwd", "../secret", "a/../../secret", "a//t", "./t"),
        *("link", "linked/secret", "pipe", "folder", "missing", "a\0b", "x" * 5000, "a/\ud800"),
    ],
    ids=repr,
)
def test_a_path_that_is_no_file_below_the_storage_is_refused(tmp_path, path):
    _store(tmp_path, "secret", stored_bytes("secret", "msgpack"))
    storage = tmp_path / "storage"
    (storage / "folder").mkdir(parents=True)
    (storage / "link").symlink_to("../secret")
    (storage / "linked").symlink_to("..")
    os.mkfifo(storage / "pipe")
    with pytest.raises(ProtocolError):
        read_stored(storage, path, max_bytes=100)
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no header"),
        (b"\x81\xa1a\x01" * 3, "no header"),
        (b"\x01\x08\x02\x09\0\0HK{}", "unknown encoding 9"),
        (b"\x01\x08\x02\x03\0\0HK\xc1", "not MessagePack"),
        (b"\x01\x08\x02\x03\0\0HK" + b"\x90" * 100, "more than 100"),
    ],
)
def test_a_file_that_is_none_of_the_storage_is_refused(tmp_path, content, what):
    _store(tmp_path, "t", content)
    with pytest.raises(ProtocolError, match=what):
        read_stored(tmp_path, "t", max_bytes=100)
