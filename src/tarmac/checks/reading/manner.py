"""How a line tells of a failure: as an error, as a warning, or only as a text that speaks of it.

Pure, and judged by the line alone: what raised an error, a level of a log, or the marks of prose,
of source code, of commands and of settings before the words that a pattern has matched.

Example:
    >>> line = "RuntimeError: CUDA out of memory"
    >>> manner_of(line, line.index("CUDA"))
    <Manner.RAISED: 3>
    >>> line = 'If you see "CUDA out of memory", lower the batch size.'
    >>> manner_of(line, line.index("CUDA"))
    <Manner.SPOKEN: 0>
"""

from __future__ import annotations

import enum
import re

from tarmac.checks.reading.lines import FRAME, bare

__all__ = ["Manner", "manner_of"]

# What stands further before a message says nothing of it.
_REACH = 400


class Manner(enum.IntEnum):
    """How a line tells of a failure; the larger, the surer that it happened."""

    SPOKEN = 0
    WARNED = 1
    PRINTED = 2
    RAISED = 3


# What raises: an exception's name, C++'s last words, a level of a log above a warning's.
_RAISED = re.compile(
    r"(?:\b[A-Za-z_]\w{0,60}\.){0,8}"
    r"\b[A-Z]\w{0,60}(?:Error|Exception|Exit|Interrupt|Failure|OutOfResources)\b(?=[:(\s])"
    r"|\bwhat\(\): |\bterminate called|\bAborted\b"
    r"|(?<![A-Za-z])(?:ERROR|FATAL|CRITICAL|[Ff]atal|panic|[Ee]rror)\b(?=[:\]| ])"
)

# A category of Python's, or a level of a log as a word or a letter. Kubernetes calls an event
# "Warning   Failed", and NCCL says what ends a program after "NCCL WARN".
_WARNED = re.compile(
    r"\b\w{0,40}Warning:|\[\w{0,8}warn(?:ing)?\]|\blevel=\"?(?:warn|warning|info|debug)\b"
    r"|(?<!NCCL )(?<![A-Za-z])(?:WARN|WARNING|[Ww]arning)\b(?=[:\]|]| (?! ))"
    r"|(?:^|[\s\[])W(?:\d{4}\b|(?= \w{0,40}[/.]))"
)
_INFORMED = re.compile(
    r"(?<![A-Za-z])(?:INFO|DEBUG|NOTICE|TRACE)\b(?=[:\]| ])"
    r"|(?:^|[\s\[])I(?:\d{4}\b|(?= \w{0,40}[/.]))"
)

# A program that goes on: it tries again with less, or leaves something out.
_WENT_ON = re.compile(
    r"(?i)\b(?:retry(?:ing)?|skip(?:ping|ped)|ignor(?:ing|ed)|fall(?:ing)? ?back|recovered"
    r"|trying again|not a failure)\b"
)

# Prose that speaks of errors.
_PROSE = re.compile(
    r"(?i)\b(?:if|when|whenever|once|unless|in case)"
    r" (?:you|it|there|an?|the|this|that|your|we|users?)\b"
    r"|\b(?:to (?:avoid|prevent|fix|cause)|(?:avoid|prevent|cause|lead to|mean)s|errors? like"
    r"|such as|looks? like|similar to|e\.g\.|i\.e\.|for example|faq|todo|how to"
    r"|what is|why do(?:es)?|workaround for|search(?:ing)? for"
    r"|looking for|printed as)\b"
    r"|\b(?:can|may|might|could|would|should)"
    r" (?:raise|throw|see|get|hit|show|print|cause|lead to)\b"
)

# A line of a changelog or of git log: bullets, a hash, a scope, a verb.
_HISTORY = re.compile(
    r"^[\s*|/\\_.+>-]{0,20}(?:(?:commit )?(?=\d{0,40}[a-f])[0-9a-f]{7,40} "
    r"|(?:[0-9a-f]{7,40} )?(?:\([^)]{0,80}\) )?(?:[a-z]+(?:\([\w./ -]{1,40}\))?!?: )?"
    r"(?:fix|handle|avoid|prevent|catch|resolve|document|explain|mention|detect|improve|work around"
    r"|close|revert|mitigate|add|update|refactor|support|expect|say|show|name)(?:e?[sd])?\b)",
    re.IGNORECASE,
)

# What grep puts before a line of a file that is no log, and all lines of documents.
_GREP = re.compile(
    r"^(?:[\w./@~+-]{1,200}"
    r"\.(?:md|rst|txt|pyi?|ipynb|cc?|cpp|cuh?|h|hpp|js|ts|go|rs|sh|ya?ml|toml|json)"
    r"|(?=\d{1,7}[:-]\s{2}))[:-]?\d{1,7}[:-](?!\d{1,5}:|\s?\w{0,40}(?:Warning|[Ee]rror|fatal)\b)"
)
_DOCUMENT = re.compile(r"^[\w./@~+-]{1,200}\.(?:md|rst|html?|toml|ya?ml)[:-]\d{1,7}[:-]")

_CODE = re.compile(
    r"^[-+]?\s{0,80}(?:raise |throw |return (?:[frbu]?[\"']|$)|case $|>>> |\.\.\. "
    r"|assert |except |elif |if [\w\"'(]|def "
    r"|print\w?\("
    r"|f?printf\(|puts|log(?:g(?:er|ing))?\.\w{1,20}\(|warnings\.warn\(|self\.|pytest\."
    r"|std::"
    r"|const |static |TORCH_\w{1,40}\(|AT_\w{1,40}\(|#(?!\d)|//|/\*|\*(?= )|<!--|\"\"\"|\'\'\'"
    r"|- \[[ x]\]"
    r"|[\w.\]\[\"']{1,60} (?:[:+]?=|:) [\[({]?\s?[rbfu]?[\"'\[({])"
)
_COMMAND = re.compile(
    r"^(?:\++ |[\w.-]{1,60}@[\w.-]{1,60}:[^ ]{0,80}[$#] |[$%❯] )\w"  # noqa: RUF001 - a prompt
    r"|^(?:echo|[ef]?grep|rg|printf|sed|awk) +(?:-\w|[\"'])"
)
# A string of a source file by itself, but for a key of JSON with its value; a row of a table.
_STRING = re.compile(
    r"^(?![\s{]{0,80}[\"'][\w .-]{1,60}[\"']\s?:)"
    r"(?:\s{1,80}[rbfu]?[\"'].{0,2000}[\"'][,)\]]{0,3}|[\"'].{0,2000}[\"'],)$"
    r"|^\s{0,20}\|.{0,4000}\|$"
)
_BOLD = re.compile(r"(?<!\*)\*\*(?!\*)")
# The text that a call is given; an exception's name stands before none of these.
_CALLED = re.compile(r"\b[a-z_][\w.]{0,60}\((?:\w{1,30}=)?[rbfu]?[\"']")
# A text among others of a list, or the value of a setting that looks for texts.
_LISTED = re.compile(r"(?:[\[({,]\s{0,20}|^\s{1,80})[rbfu]?[\"']$|\b(?:in|if|==)\s{1,4}[\"']?$")
_SETTING = re.compile(
    r"(?i)\b\w{0,30}(?:retry|ignore|skip|match|pattern|regex|filter|grep|search|query|expect|title"
    r"|hint|alert|rule|keyword)\w{0,30}[\"']?\s{0,4}[:=]"
)


def manner_of(line: str, place: int) -> Manner:
    """Return how a line tells of what stands at a place of it.

    Args:
        line: As its program wrote it; prefixes of launchers and collectors may stand before it.
        place: Where the words begin that tell of a failure.
    """
    start = line.rfind("\n", 0, place) + 1
    stop = line.find("\n", place)
    whole = line[start : stop if stop >= 0 else None].rstrip(FRAME)
    message = bare(whole)
    end = max(0, place - start - (len(whole) - len(message)))
    before = message[max(0, end - _REACH) : end]
    raised = _RAISED.search(before)
    at_once = raised or _RAISED.match(message, end)
    if _is_spoken(message, before[: raised.start()] if raised else before):
        return Manner.SPOKEN
    if _WARNED.search(before):
        return Manner.WARNED
    if at_once:
        return Manner.RAISED
    if _INFORMED.search(before) or _WENT_ON.search(before):
        return Manner.WARNED
    return Manner.PRINTED


def _is_spoken(message: str, lead: str) -> bool:
    """Tell whether what stands before an error's words, or its exception's name, speaks of it."""
    found = _GREP.match(message)
    rest = lead[found.end() :] if found else lead
    return bool(
        _DOCUMENT.match(message)
        or _STRING.match(message[found.end() :] if found else message)
        or (rest.strip() and any(form.match(rest) for form in (_CODE, _COMMAND, _HISTORY)))
        or any(form.search(rest) for form in (_LISTED, _CALLED, _PROSE, _SETTING))
        or rest.count("`") % 2
        or len(_BOLD.findall(rest)) % 2
    )
