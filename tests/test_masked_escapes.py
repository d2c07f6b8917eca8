"""A secret is masked however its characters are escaped, and however forms are mixed."""

from __future__ import annotations

import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.masking import fingerprints, learn, remember, values, without_known

_SECRET = 'Zq9!vKx+Lm "p<b>7'
_PATHS = "C:\\new ü's%2fé&amp;\\\\x41"
_KEY = b"k" * 32


@pytest.fixture(autouse=True, params=["resolved", "learned"])
def _secrets(request):
    """Secrets that this process has resolved, or that it knows by the marks of another one."""
    remember(_SECRET)
    remember(_PATHS)
    if request.param == "learned":
        marks = fingerprints(_KEY)
        values._known.clear()
        learn(_KEY, marks)


def _pairs(text, separator):
    return separator.join(f"{byte:02x}" for byte in text.encode())


_FORMS = {
    "colour": lambda text: f"{text[:7]}\x1b[0m{text[7:]}",
    "highlight": "\x1b[01;31m\x1b[K".join,
    "title": "\x1b]0;title\x07".join,
    "html.escape": html.escape,
    "encodeURIComponent": lambda text: quote(text, safe="!'()*"),
    "user in a URL": lambda text: quote(text, safe="!$&'()*+,;="),
    "form in Java": lambda text: quote_plus(text, safe="*"),
    "everything in a URL": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "URL in JSON in HTML": lambda text: html.escape(json.dumps(quote(text, safe="+<")))[6:-6],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "JSON with HTML left out": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003c"),
    "decimal entities": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "hexadecimal entities": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "hex with spaces": lambda text: _pairs(text, " "),
    "hex with colons": lambda text: _pairs(text, ":"),
    "hex in lines": lambda text: _pairs(text, "\n "),
    "hex with colons, upper case": lambda text: _pairs(text, ":").upper(),
    "hex in twos": lambda text: text.encode().hex(" ", 2),
    "hex in twos, from the start": lambda text: text.encode().hex(" ", -2),
    "hex in fours": lambda text: text.encode().hex(":", 4),
    "hex in eights, upper case": lambda text: text.encode().hex("-", -8).upper(),
    "bytes in C": lambda text: "0x" + _pairs(text, ", 0x"),
    "bytes in a string": lambda text: "\\x" + _pairs(text, "\\x"),
    "bytes in a string, upper case": lambda text: (
        "\\x" + "\\x".join(_pairs(text, " ").upper().split())
    ),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "single quotes": lambda text: text.replace("'", "'\"'\"'"),
}


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("secret", [_SECRET, _PATHS])
def test_a_secret_is_masked_in_each_form(form, secret):
    escaped = _FORMS[form](secret)
    assert without_known(f"it is {escaped}; ü %41") == "it is (hidden); ü %41"


def test_a_secret_is_masked_within_a_longer_dump():
    dump = _pairs(f"user:{_SECRET};", " ")
    assert without_known(dump) == "75 73 65 72 3a(hidden) 3b"


_ESCAPES = [
    lambda letter: letter,
    lambda letter: quote(letter, safe=""),
    lambda letter: quote(letter, safe="").lower() if letter not in "ZKL" else letter,
    lambda letter: f"&#{ord(letter)};",
    html.escape,
    lambda letter: f"\\u{ord(letter):04x}",
    lambda letter: json.dumps(letter)[1:-1],
    lambda letter: letter if letter.isalnum() else f"\\{letter}",
]


@given(st.lists(st.sampled_from(_ESCAPES), min_size=len(_SECRET), max_size=len(_SECRET)))
def test_a_secret_is_masked_where_each_of_its_characters_is_escaped_in_another_way(ways):
    escaped = "".join(way(letter) for way, letter in zip(ways, _SECRET, strict=True))
    assert without_known(f"<{escaped}>") == "<(hidden)>"


@given(st.text())
def test_a_text_without_secrets_stays_as_it_is(text):
    assert without_known(text) == text
    assert without_known(f"{text}\n{_SECRET}\n{text}") == f"{text}\n(hidden)\n{text}"


def test_a_secret_of_escaped_spaces_hides_no_spaces():
    remember("%20%20%20%20%20%20")
    assert without_known("        x") == "        x"
