"""Masking of secrets by their known values, in likely encodings.

Forms (`tarmac.masking.forms`) recognize a secret by the text around it. A password of ten letters
in a sentence has no form: only its value identifies it. Two kinds of processes mask by value:

- A run's runner resolves secrets and calls `remember` with each. Its messages and the run's
  records pass through `without_known`.
- A page is made later from a task's logs, by a process that resolves no secrets. No file stores
  the values for that process. Instead, the runner stores `fingerprints`: a digest of each
  encoding, under a key in the user's own state directory, outside of the run. A process with the
  run and the key can search a text. The run alone does not allow guesses at the secret. The
  alternative, to mask the streams themselves as CI services do, was rejected: a task's output is
  the user's data and stays unchanged.

Both search the text as written, and with its escapes decoded (`tarmac.masking.escapes`).

A value of 6 characters or more is masked anywhere. A value of 3 to 5 characters is masked as a
separate word, and only by the process that resolved it. Shorter values, such as ``1`` or ``no``,
occur anywhere without being the secret, and are shown.

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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from tarmac.masking.escapes import Unit, on_terminal, source_span, unescaped
from tarmac.masking.forms import HIDDEN

_Record = TypeVar("_Record")

# A shorter value may be part of any word without being the secret.
_MIN_ANYWHERE = 6
# A shorter value may be any word.
_MIN_WORD = 3

_ANCHOR_BYTES, _DIGEST_BYTES = 2, 16

# Enough for JSON in JSON in a URL.
_MAX_LAYERS = 3

_known: set[str] = set()
# Sorted by length on demand, the longest first: a secret may contain another one.
_in_order: list[str] = []
_words: dict[str, re.Pattern[str]] = {}
# By key, anchor and length of a secret: its digests.
_learned: dict[bytes, dict[bytes, dict[int, set[bytes]]]] = {}


def remember(value: str) -> None:
    """Mask a secret of this process in all texts from now on."""
    if len(value.strip()) < _MIN_WORD:
        return
    if len(value.strip()) < _MIN_ANYWHERE:
        word = re.escape(value.strip())
        _words.setdefault(value.strip(), re.compile(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])"))
        return
    if value not in _known:
        _known.update(encodings_of(value))


def num_remembered() -> int:
    """Return the number of masked encodings of this process's secrets, which only grows."""
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
    """Return a text with ``(hidden)`` for secrets that this process has remembered or learned."""
    if len(_in_order) != len(_known):
        _in_order[:] = sorted(_known, key=len, reverse=True)
    for secret in _in_order:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    for word, pattern in _words.items():
        if word in text:
            text = pattern.sub(HIDDEN, text)
    if not (_known or _learned):
        return text
    content = text.encode(errors="surrogatepass")
    spans = _learned_spans(content, range(len(content)))
    spans += _escaped_spans(content, _MAX_LAYERS)
    return _without(content, spans).decode(errors="surrogatepass") if spans else text


def without_known_in(record: _Record, *names: str) -> _Record:
    """Return a dataclass with `without_known` applied to fields of a text or of several texts.

    Args:
        record: Dataclass whose text fields may hold secrets.
        names: Names of the fields to mask; names that the record lacks are skipped.
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
    """Yield the forms of a secret that texts may have, plain and encoded, of 6 or more characters.

    The encodings are those of URLs, JSON (also JSON in JSON), Python, HTML and shells, hexadecimal
    digits, and base64 at each of its three possible offsets, also over several lines. Each line of
    a secret is also a secret by itself, since logs add prefixes and JSON Lines splits lines.
    """
    parts = [value, value.strip()]
    lines = [line.strip() for line in value.splitlines()]
    # Lines such as "-----BEGIN ..." or "{" are in every such file.
    parts += [line for line in lines if len(line) > _MIN_ANYWHERE and not line.startswith("-----")]
    for part in dict.fromkeys(parts):
        for text in (part, *_escaped(part), *_in_base64(part.encode(errors="surrogateescape"))):
            if len(text.strip()) >= _MIN_ANYWHERE:
                yield text


def fingerprints(key: bytes) -> list[str]:
    """Return the marks with which a process with the key can find this process's secrets.

    Args:
        key: Secret key of 16 to 64 bytes.
    """
    return sorted({_fingerprint(text.encode(errors="surrogateescape"), key) for text in _known})


def learn(key: bytes, marks: Iterable[str]) -> None:
    """Mask secrets of another process in all texts from now on.

    Args:
        key: Key that the marks were made with.
        marks: Marks that `fingerprints` returned; any other text is skipped.
    """
    anchors = _learned.setdefault(key, {})
    for mark in marks:
        match = re.fullmatch(r"([0-9]{1,7}):([0-9a-f]{4}):([0-9a-f]{32})", mark)
        if match is not None:
            lengths = anchors.setdefault(bytes.fromhex(match[2]), {})
            lengths.setdefault(int(match[1]), set()).add(bytes.fromhex(match[3]))


def _escaped(value: str) -> Iterator[str]:
    # A secret's own escapes are decoded too when those of a text are.
    content = value.encode(errors="surrogateescape")
    for _ in range(_MAX_LAYERS):
        content, units = unescaped(content)
        if not units:
            break
        yield content.decode(errors="surrogateescape")
    forms = (quote_plus(value), quote_plus(value, safe="*"))
    for url in (quote(value, safe=""), quote(value), *forms):
        yield url
        yield re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), url)
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield json.dumps(text)[1:-1]
        yield text.replace("/", "\\/")
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
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
        # Leave out characters that share bits with the bytes before or after the secret.
        start = -(-before * 8 // 6)
        end = (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * before + value).decode()[start:end]
            yield text
            # The lines of a file that begins with the secret, as base64 and openssl write them.
            for width in () if before else (76, 64):
                yield from (text[at : at + width] for at in range(0, len(text), width))


def _fingerprint(secret: bytes, key: bytes) -> str:
    """Return a secret's length, its anchor and its digest.

    The anchor, two bytes of a digest of the secret's beginning, does not reveal the beginning. It
    saves all but one in 65,536 computations of full digests.
    """
    return f"{len(secret)}:{_anchor(secret, key).hex()}:{_digest(secret, key).hex()}"


def _anchor(text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(
        text[:_MIN_ANYWHERE], digest_size=_ANCHOR_BYTES, key=key, person=b"anchor"
    ).digest()


def _digest(text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES, key=key, person=b"secret").digest()


def _escaped_spans(content: bytes, num_layers: int) -> list[tuple[int, int]]:
    """Return the spans of secrets in a text with some or all of their characters escaped."""
    escaped_spans: list[tuple[int, int]] = []
    for plain, units in (unescaped(content), on_terminal(content)):
        if not units:
            continue
        spans = [*_known_spans(plain), *_learned_spans(plain, _near(units, longest_known()))]
        if num_layers > 1:
            spans += _escaped_spans(plain, num_layers - 1)
        escaped_spans += [source_span(units, *span) for span in spans]
    return escaped_spans


def _known_spans(content: bytes) -> Iterator[tuple[int, int]]:
    for text in _in_order:
        secret = text.encode(errors="surrogatepass")
        start = content.find(secret)
        while start >= 0:
            yield start, start + len(secret)
            start = content.find(secret, start + len(secret))


def _learned_spans(content: bytes, places: Iterable[int]) -> list[tuple[int, int]]:
    spans = []
    places = list(places) if len(_learned) > 1 else places
    for key, anchors in _learned.items():
        end = 0
        for place in places:
            if place < end:
                continue
            lengths = anchors.get(_anchor(content[place : place + _MIN_ANYWHERE], key), {})
            for length in sorted(lengths, reverse=True):
                piece = content[place : place + length]
                if len(piece) == length and _digest(piece, key) in lengths[length]:
                    end = place + length
                    spans.append((place, end))
                    break
    return spans


def _near(units: Sequence[Unit], num_bytes: int) -> Iterator[int]:
    """Yield the places where a secret of some length with a decoded escape in it may begin."""
    end = 0
    for unit in units:
        yield from range(max(end, unit.plain_start - num_bytes), unit.plain_end)
        end = max(end, unit.plain_end)


def _without(content: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a text with ``(hidden)`` for each span; overlapping spans are joined."""
    shown, place = [], 0
    for start, end in sorted(spans):
        if start >= place:
            shown += [content[place:start], HIDDEN.encode()]
        place = max(place, end)
    return b"".join([*shown, content[place:]])
