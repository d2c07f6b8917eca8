"""TOML that no parser should be asked to take is refused in words of ours."""

from __future__ import annotations

import pytest

from tarmac.documents import parse_toml
from tarmac.errors import RequestError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000, "x.toml: nested too deeply"),
        ("a = " + "1" * 5000, "x.toml: a number in it has too many digits"),
        ("a = 1\nb = 1e", "x.toml:2:6: "),
    ],
)
def test_what_is_refused_is_said_in_words_of_ours(text, words):
    with pytest.raises(RequestError) as refusal:
        parse_toml(text, "x.toml")
    assert str(refusal.value).startswith(words)
