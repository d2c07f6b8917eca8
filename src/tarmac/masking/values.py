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

Both are looked for in the text as it is, and with its escapes decoded (`tarmac.masking.escapes`).

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

from tarmac.masking.escapes import on_terminal, source_span, unescaped
from tarmac.masking.forms import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tarmac.masking.escapes import Unit

_Record = TypeVar("_Record")

# A shorter value may stand in any word without being the secret, ...
_MIN_ANYWHERE = 6
# ... and one that is shorter still may be any word.
_MIN_WORD = 3

_ANCHOR_BYTES, _DIGEST_BYTES = 2, 16

# JSON in JSON in a URL.
_MAX_LAYERS = 3

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
    if not (_known or _learned):
        return text
    content = text.encode(errors="surrogatepass")
    spans = _learned_spans(content, range(len(content)))
    spans += _escaped_spans(content, _MAX_LAYERS)
    return _without(content, spans).decode(errors="surrogatepass") if spans else text


def without_known_in(record: _Record, *names: str) -> _Record:
    """Return a dataclass with `without_known` of some of its fields: texts, or several of them.

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
            if len(text.strip()) >= _MIN_ANYWHERE:
                yield text


def fingerprints(key: bytes) -> list[str]:
    """Return what lets a process that has the key find this one's secrets in texts.

    Args:
        key: Secret key of 16 to 64 bytes.
    """
    return sorted({_fingerprint(text.encode(errors="surrogateescape"), key) for text in _known})


def learn(key: bytes, marks: Iterable[str]) -> None:
    """Have secrets of another process left out of all texts from now on.

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
    # With escapes of its own: what is left where these are decoded with those of the text.
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


def _escaped_spans(content: bytes, num_layers: int) -> list[tuple[int, int]]:
    """Return where a text has secrets with some or all of their characters escaped."""
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
    """Yield the places where a secret of some bytes may begin that holds a decoded escape."""
    end = 0
    for unit in units:
        yield from range(max(end, unit.plain_start - num_bytes), unit.plain_end)
        end = max(end, unit.plain_end)


def _without(content: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a text with ``(hidden)`` for its parts; those that overlap are hidden as one."""
    shown, place = [], 0
    for start, end in sorted(spans):
        if start >= place:
            shown += [content[place:start], HIDDEN.encode()]
        place = max(place, end)
    return b"".join([*shown, content[place:]])
