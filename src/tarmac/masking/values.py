"""Leaves out what is known to be a secret by its value, in the encodings that it is likely to take.

Forms (`tarmac.masking.forms`) know a secret by what stands around it. A password of ten letters in
a sentence has no form: whoever has resolved it knows it. Two sides need that:

- The process that resolves secrets, a run's runner, calls `remember` with each. Its messages, and
  what it writes into the run's records, pass through `without_known`.
- A page is made later, by a process that resolves nothing, of what a task has printed. The value
  is stored nowhere for that. The runner leaves `fingerprints`: of each encoding a digest under a
  key that is kept outside of the run, in the user's own state directory. Who has both can search a
  text; who has the run alone can try nothing. To mask the streams themselves, as CI services do,
  was the alternative: what a task prints is the user's data, and stays as it is.

A value of 6 characters or more is left out wherever it stands. One of 3 to 5 is left out as a word
of its own, by the process that has resolved it alone. Shorter ones, such as ``1`` or ``no``, stand
anywhere without being the secret, and are shown.

Example:
    >>> remember("tiger lily")
    >>> without_known("GET /?q=tiger%20lily")
    'GET /?q=(hidden)'
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shlex
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus

from tarmac.masking.forms import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "encodings_of",
    "fingerprints",
    "learn",
    "longest_known",
    "num_remembered",
    "remember",
    "without_known",
    "without_known_in",
]

_Record = TypeVar("_Record")

# A shorter value may stand in any word without being the secret, ...
_MIN_ANYWHERE = 6
# ... and one that is shorter still may be any word.
_MIN_WORD = 3

_ANCHOR_BYTES, _DIGEST_BYTES = 2, 16

_known: set[str] = set()
# The same, the longest first, as what holds another one goes before it; made when it is needed.
_in_order: list[str] = []
_words: dict[str, re.Pattern[str]] = {}
# By key: how texts begin that are secrets, and how long each is with its digest.
_learned: dict[bytes, dict[bytes, dict[int, set[bytes]]]] = {}


def remember(value: str) -> None:
    """Have a secret of this process left out of all texts from now on."""
    if len(value.strip()) < _MIN_WORD:
        return
    if len(value.strip()) < _MIN_ANYWHERE:
        word = re.escape(value.strip())
        _words.setdefault(value.strip(), re.compile(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])"))
        return
    if value not in _known:
        _known.update(encodings_of(value))


def num_remembered() -> int:
    """Return how many encodings of secrets of this process are left out; it only grows."""
    return len(_known)


def longest_known() -> int:
    """Return the length in bytes of the longest secret that this process masks, as encoded."""
    known = (len(text.encode(errors="surrogatepass")) for text in _known)
    learned = (
        length
        for anchors in _learned.values()
        for lengths in anchors.values()
        for length in lengths
    )
    return max((*known, *learned), default=0)


def without_known(text: str) -> str:
    """Return a text with ``(hidden)`` for secrets that this process has resolved or learned of."""
    if len(_in_order) != len(_known):
        _in_order[:] = sorted(_known, key=len, reverse=True)
    for secret in _in_order:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    for word, pattern in _words.items():
        if word in text:
            text = pattern.sub(HIDDEN, text)
    for key, anchors in _learned.items():
        text = _without_learned(text, key, anchors)
    return text


def without_known_in(record: _Record, *names: str) -> _Record:
    """Return a dataclass with `without_known` of some of its fields: texts, or several of them.

    Args:
        record: What happened, or how something ended.
        names: Of fields; those that it does not have are passed over.
    """
    known: Any = record
    words: dict[str, Any] = {}
    for name in names:
        if value := getattr(known, name, None):
            is_text = isinstance(value, str)
            words[name] = without_known(value) if is_text else tuple(map(without_known, value))
    hidden: _Record = dataclasses.replace(known, **words) if words else record
    return hidden


def encodings_of(value: str) -> Iterator[str]:
    """Yield a secret as texts may have it, of 6 characters and more: as it is, and encoded.

    For URLs, JSON (also JSON in JSON), Python, HTML and shells, as hexadecimal digits, and in
    base64 at each of the three offsets that it can have there, also over several lines. Each line
    of one with several lines counts, as logs have prefixes and JSON Lines break.
    """
    parts = [value, value.strip()]
    lines = [line.strip() for line in value.splitlines()]
    # "-----BEGIN ...", "{" and the like are in every such file.
    parts += [line for line in lines if len(line) > _MIN_ANYWHERE and not line.startswith("-----")]
    for part in dict.fromkeys(parts):
        for text in (part, *_escaped(part), *_in_base64(part.encode(errors="surrogateescape"))):
            if len(text) >= _MIN_ANYWHERE:
                yield text


def fingerprints(key: bytes) -> list[str]:
    """Return what lets a process that has the key find this one's secrets in texts.

    Args:
        key: 16 to 64 bytes.
    """
    return sorted({_fingerprint(text.encode(errors="surrogateescape"), key) for text in _known})


def learn(key: bytes, marks: Iterable[str]) -> None:
    """Have secrets of another process left out of all texts from now on.

    Args:
        key: That these were made with.
        marks: Of `fingerprints`. What is none is passed over.
    """
    anchors = _learned.setdefault(key, {})
    for mark in marks:
        match = re.fullmatch(r"([0-9]{1,7}):([0-9a-f]{4}):([0-9a-f]{32})", mark)
        if match is not None:
            lengths = anchors.setdefault(bytes.fromhex(match[2]), {})
            lengths.setdefault(int(match[1]), set()).add(bytes.fromhex(match[3]))


def _escaped(value: str) -> Iterator[str]:
    for url in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield url
        yield re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), url)
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield json.dumps(text)[1:-1]
        yield text.replace("/", "\\/")
    yield repr(value)[1:-1]
    yield re.sub("[&<>\"']", lambda sign: f"&#{ord(sign.group())};", value)
    yield value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield shlex.quote(value).strip("'")
    yield value.replace("'", "'\\''")
    yield re.sub(r"([\\\"$`])", r"\\\1", value)
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)
    digits = value.encode(errors="surrogateescape").hex()
    yield digits
    yield digits.upper()


def _in_base64(value: bytes) -> Iterator[str]:
    for before in range(3):
        # Characters that also hold bits of what stands before or after it are left aside.
        start = -(-before * 8 // 6)
        end = (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * before + value).decode()[start:end]
            yield text
            # Each line of one that begins a file of lines, as base64 and openssl write it.
            for width in () if before else (76, 64):
                yield from (text[at : at + width] for at in range(0, len(text), width))


def _fingerprint(secret: bytes, key: bytes) -> str:
    """Return a secret's length, two bytes that say where to look, and its digest.

    Two bytes of how it begins leave that open: 65,536 times fewer texts are asked for a digest.
    """
    return f"{len(secret)}:{_anchor(secret, key).hex()}:{_digest(secret, key).hex()}"


def _anchor(text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(
        text[:_MIN_ANYWHERE], digest_size=_ANCHOR_BYTES, key=key, person=b"anchor"
    ).digest()


def _digest(text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES, key=key, person=b"secret").digest()


def _without_learned(text: str, key: bytes, anchors: dict[bytes, dict[int, set[bytes]]]) -> str:
    content = text.encode(errors="surrogatepass")
    shown, at, place = [], 0, 0
    while place <= len(content) - _MIN_ANYWHERE:
        lengths = anchors.get(_anchor(content[place : place + _MIN_ANYWHERE], key))
        for length in sorted(lengths or (), reverse=True):
            piece = content[place : place + length]
            assert lengths is not None
            if len(piece) == length and _digest(piece, key) in lengths[length]:
                shown += [content[at:place], HIDDEN.encode()]
                at = place = place + length
                break
        else:
            place += 1
    return b"".join([*shown, content[at:]]).decode(errors="surrogatepass")
