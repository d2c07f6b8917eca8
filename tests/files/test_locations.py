"""Where something is, taken apart without losing a letter of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile import each_name
from tarmac.files import Location, without_password


@each_name
def test_a_name_stays_whole_in_paths_uris_of_files_and_keys(name):
    assert Location.parse(name).below(Path("/base")) == Path("/base") / name
    assert Location.parse(f"/data/{name}").below(Path("/base")) == Path("/data") / name
    uri = Path(f"/data/{name}").as_uri()
    assert Location.parse(uri).below(Path("/base")) == Path("/data") / name
    key = Location.parse(f"s3://bucket/in/{name}")
    assert (key.host, key.path, key.name) == ("bucket", f"in/{name}", name)


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path"),
    [
        ("https://me:word@host:8/a%20b?x=1#y", "https", "me:word@host:8", "a b"),
        ("HTTP://host", "http", "host", ""),
        ("http://host?x=/y", "http", "host", ""),
        ("s3://bucket", "s3", "bucket", ""),
        ("gs://bucket/", "gs", "bucket", ""),
        ("a:b", "", "", "a:b"),
        ("file:///kept#1", "file", "", "/kept#1"),
    ],
)
def test_a_location_has_a_scheme_a_host_and_a_path(text, scheme, host, path):
    found = Location.parse(text)
    assert (found.scheme, found.host, found.path) == (scheme, host, path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:wo@rd@host/a", "https://host/a"),
        ("https://token@host/a?sig=word#x", "https://host/a"),
        ("from https://me:word@a/x to https://me:word@b/y", "from https://a/x to https://b/y"),
        ("no package in https://a/t/tk-12/c, and b", "no package in https://a/c, and b"),
        ("data/me@home?", "data/me@home?"),
        ("torch==2.13.0", "torch==2.13.0"),
    ],
)
def test_what_is_shown_of_a_url_has_no_password(text, shown):
    assert without_password(text) == shown
