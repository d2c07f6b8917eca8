"""An environment that exists, beside the file of what it must have."""

from __future__ import annotations

import pytest

from conda_channel import index, make_package
from tarmac.environments import CondaSpec, build_venv, existing_prefix
from tarmac.errors import RequestError

pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    """Return a channel with a library of two versions, and what needs it."""
    path = tmp_path_factory.mktemp("conda") / "channel"
    for version in ("1.0", "2.1"):
        make_package(path, "base-lib", version)
    info = "lib/python3.11/site-packages/my_tool-3.0.dist-info/METADATA"
    make_package(path, "tool", files={info: "Metadata-Version: 2.1\nName: my_tool\nVersion: 3.0\n"})
    index(path)
    return path


@pytest.fixture
def compare(tmp_path, channel, monkeypatch):
    """Return a function that compares an environment of base-lib 2.1 and tool 1.0 with a file."""
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "packages"))
    (tmp_path / "made.yml").write_text(f"channels: [{channel}]\ndependencies: [base-lib, tool]\n")
    prefix = build_venv(CondaSpec(file="made.yml"), tmp_path, tmp_path / "venvs")

    def look(text):
        (tmp_path / "wanted.yml").write_text(text)
        return existing_prefix(CondaSpec(prefix=str(prefix), file="wanted.yml"), tmp_path)

    return look


@pytest.mark.parametrize(
    "text",
    [
        "dependencies: [tool]",
        "dependencies: ['conda-forge::base-lib >=2', 'tool=1']",
        "dependencies: [tool, {pip: [My.Tool>=2, './a/path', 'other; python_version < \"3\"']}]",
        "@EXPLICIT\nhttps://a.example/noarch/tool-1.0-0.conda\n",
    ],
)
def test_one_that_has_it_all_is_taken(compare, text):
    assert (compare(text) / "conda-meta").is_dir()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dependencies: [base-lib<2]", "it has base-lib 2.1, not base-lib<2"),
        ("dependencies: [tool, numpy, scipy]", "it has no numpy, and 1 more"),
        ("dependencies: [tool, {pip: [my-tool==4]}]", "it has my-tool 3.0, not my-tool==4"),
        ("dependencies: [{pip: [six]}]", "it has no six"),
        (
            "@EXPLICIT\nhttps://a.example/noarch/base-lib-1.0-0.conda\n",
            "it has base-lib 2.1, not base-lib==1.0=0",
        ),
    ],
)
def test_one_that_differs_is_refused_with_what_brings_it_there(compare, tmp_path, text, words):
    with pytest.raises(RequestError, match=r"differs from .*wanted\.yml") as raised:
        compare(text)
    assert raised.value.message.endswith(f": {words}")
    assert f"--file {tmp_path}/wanted.yml" in raised.value.hint
