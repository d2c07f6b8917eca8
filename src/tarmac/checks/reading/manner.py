"""How a line reports a failure: as an error, as a warning, or only as a text that mentions it.

The functions are pure and judge the line alone. They look at the text before a pattern's match: the
name of an exception, a log's level, or the marks of prose, source code, commands and settings.

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

# Characters before a message that are judged; text further ahead is unrelated to the message.
_REACH = 400


class Manner(enum.IntEnum):
    """How a line reports a failure; a larger value means a surer report.

    A line may only mention a failure (SPOKEN), warn of it (WARNED), print it (PRINTED), or raise
    it as an error (RAISED).
    """

    SPOKEN = 0
    WARNED = 1
    PRINTED = 2
    RAISED = 3


# Signs of a raised error: an exception's name, C++'s message at abort, a level above a warning.
_RAISED = re.compile(
    r"(?:\b[A-Za-z_]\w{0,60}\.){0,8}"
    r"\b[A-Z]\w{0,60}(?:Error|Exception|Exit|Interrupt|Failure|OutOfResources)\b(?=[:(\s])"
    r"|\bwhat\(\): |\bterminate called|\bAborted\b"
    r"|(?<![A-Za-z])(?:ERROR|FATAL|CRITICAL|[Ff]atal|panic|[Ee]rror)\b(?=[:\]| ])(?! =)"
)

# Python's warning categories, and a log's level as a word or a letter. Excluded: Kubernetes' event
# "Warning   Failed", and "NCCL WARN", which precedes errors that end a program.
_WARNED = re.compile(
    r"\b\w{0,40}Warning:|\[\w{0,8}warn(?:ing)?\]|\blevel=\"?(?:warn|warning|info|debug)\b"
    r"|(?<!NCCL )(?<![A-Za-z])(?:WARN|WARNING|[Ww]arning)\b(?=[:\]|]| (?! ))"
    r"|(?:^|[\s\[])W(?:\d{4}\b|(?= \w{0,40}[/.]))"
)
_INFORMED = re.compile(
    r"(?<![A-Za-z])(?:INFO|DEBUG|NOTICE|TRACE)\b(?=[:\]| ])"
    r"|(?:^|[\s\[])I(?:\d{4}\b|(?= \w{0,40}[/.]))"
)

# Signs that the program continues: it retries with less, or leaves something out.
_WENT_ON = re.compile(
    r"(?i)\b(?:retry(?:ing)?|skip(?:ping|ped)|ignor(?:ing|ed)|fall(?:ing)? ?back|recovered"
    r"|trying again|not a failure)\b"
)

# Prose about errors.
_PROSE = re.compile(
    r"(?i)\b(?:if|when|whenever|once|unless|in case)"
    r" (?:you|it|there|an?|the|this|that|your|we|users?)\b"
    r"|\b(?:to (?:avoid|prevent|fix|cause)|(?:avoid|prevent|cause|lead to|mean)s|errors? like"
    r"|such as|looks? like|similar to|for example|faq|todo|how to|causing"
    r"|what is|why do(?:es)?|workaround for|search(?:ing)? for"
    r"|looking for|printed as)\b|\b(?:e\.g\.|i\.e\.)"
    r"|\b(?:can|may|might|could|would|should)"
    r" (?:raise|throw|see|get|hit|show|print|cause|lead to)\b"
)

# A sentence in which a person reports an error, or which describes what a program does repeatedly;
# a program reports its own error once and in the past tense. The search starts after the last mark
# that precedes a message, so the text after "I get this: " is judged by itself.
_MARKS = (": ", "] ", "| ")
_API = re.compile(r"\b(?:CUDA|HIP|NCCL) (?:driver )?(?:error: )?$")
_PROGRAM = re.compile(r"(?<=[ \"'(])[\w.-]{1,40}: $")
_PERSON = re.compile(
    r"(?:^|[\s(])(?:I(?:'[a-z]{1,2})?\s(?=[a-z']{2,20}[\s,])"
    r"|(?i:we|my|our|he|she|they|(?:any|every|some)(?:body|one)|people|colleagues?|admins|users)"
    r"(?:'[a-z]{1,2})?\s)"
)
_TOLD = re.compile(
    r"(?i)(?:^|[\s(])(?:"
    r"(?:(?:prints?|printed|shows?|showed|says?|gives|raises?|throws?|saw|seen|sees|report|cures?|removes?"
    r"|leads? to|led to|(?:dies|fails|ends|stops|crashes|exits|aborts|breaks)(?: \w{1,12})? with"
    r"|(?:keeps|always|sometimes|often|no longer) \w{1,12} with|any ?more with)"
    r"(?: (?:me|us|it|him|an?|the|that)){0,2})"
    r"|(?:against|(?:reasons?|fix) for|(?:causes?|cases|incidents|kinds|lots) of)"
    r"(?: (?:an?|all|any|many|that|the)){0,2}|the (?:old|same|usual)) $"
)

# A line of a changelog or of git log, with bullets, a hash, a scope, a verb.
_HISTORY = re.compile(
    r"^[\s*|/\\_.+>-]{0,20}(?:(?:commit )?(?=\d{0,40}[a-f])[0-9a-f]{7,40} "
    r"|(?:[0-9a-f]{7,40} )?(?:\([^)]{0,80}\) )?(?:[a-z]+(?:\([\w./ -]{1,40}\))?!?: )?"
    r"(?:fix|handle|avoid|prevent|catch|resolve|document|explain|mention|detect|improve|work around"
    r"|close|revert|mitigate|add|update|refactor|support|expect|say|show|name)(?:e?[sd])?\b)",
    re.IGNORECASE,
)

# The prefix that grep puts before a line of a file that is no log; and the same before a line of a
# document, where every line is prose.
_GREP = re.compile(
    r"^(?:[\w./@~+-]{1,200}"
    r"\.(?:md|rst|txt|pyi?|ipynb|cc?|cpp|cuh?|h|hpp|js|ts|go|rs|sh|ya?ml|toml|json)"
    r"|(?=\d{1,7}[:-]\s{2}))[:-]?\d{1,7}[:-](?!\d{1,5}:|\s?\w{0,40}(?:Warning|[Ee]rror|fatal)\b)"
)
_DOCUMENT = re.compile(r"^[\w./@~+-]{1,200}\.(?:md|rst|html?|toml|ya?ml)[:-]\d{1,7}[:-]")

_CODE = re.compile(
    r"^[-+]?\s{0,80}(?:\}? ?catch \(|raise |throw |return (?:[frbu]?[\"']|$)|case $|>>> |\.\.\. "
    r"|assert |except |elif |(?:if|or|and) [\"'(]|if \w|def |class |import \w|from (?:[\w.]|$)"
    r"|with [\w.]{1,60}\(|[=!]= "
    r"|print\w?\("
    r"|f?printf\(|puts|log(?:g(?:er|ing))?\.\w{1,20}\(|warnings\.warn\(|self\.|pytest\."
    r"|std::"
    r"|const |static |TORCH_\w{1,40}\(|AT_\w{1,40}\(|#(?!\d|#\[)|//|/\*|\*(?= )|<!--|\"\"\"|\'\'\'"
    r"|- \[[ x]\]"
    r"|[\w.\]\[\"']{1,60} (?:[:+=!]?=|:) (?:[\w.]{1,60}\(|[\[({]?\s?[rbfu]{0,2}[\"'\[({])"
    r"|\{\w{1,30} = |\w{1,40}=[\w.]{1,60}\()"
)
_COMMAND = re.compile(
    r"^(?:\++ |[\w.-]{1,60}@[\w.-]{1,60}:[^ ]{0,80}[$#] |[$%❯] )\w"  # noqa: RUF001 - a prompt
    r"|^(?:echo|[ef]?grep|rg|printf|sed|awk) +(?:-\w|[\"'])"
)
# A line of a source file, or of a diff of one: a string by itself, except a JSON key with its
# value; a name in a list; a name and its number or text; a key with a call or a list; a statement
# of C; a row of a table.
_SOURCE = re.compile(
    r"^[-+]?(?![\s{]{0,80}[\"'][\w .-]{1,60}[\"']\s?:)"
    r"(?:\s{1,80}[rbfu]{0,2}[\"'].{0,2000}[\"'][,)\]]{0,3}|[\"'].{0,2000}[\"'],)$"
    r"|^[-+]?\s{0,80}[\w.]{1,80},\s{0,20}#.{0,200}$"
    r"|^[-+]?\s{1,80}[A-Z]\w{3,60}:\s{1,40}"
    r"(?:[rbfu]{0,2}[\"'].{0,400}[\"']|lambda .{0,200}|\w{1,60}),$"
    r"|^[-+]?\s{0,80}[A-Za-z_]\w{3,60}\s{1,40}=\s{1,40}-?\d\w{0,12}[,;]?"
    r"\s{0,40}(?:(?:#|/[/*]).{0,400})?$"
    r"|^[-+]?\s{0,80}(?:[\w.]{1,80},|\(.{0,2000}\),|[A-Za-z_][\w.]{0,60}\(\w{1,40}=.{0,2000}\),)$"
    r"|^[-+]?\s{1,80}[\w.]{1,80}:$"
    r"|^[-+]?\s{0,80}[\"'][\w .-]{1,60}[\"']: (?:[\w.]{1,60}\(|[\[({]).{0,2000}[\])}],$"
    r"|^[-+]?\s{1,80}\w{1,40}=[rbfu]{0,2}[\"'\[({].{0,2000}[,)]$"
    r"|^[-+]?\s{0,80}[\w:.]{1,60}\([^\"']{0,400}\);$"
    r"|^[-+]?(?:\d{1,7}[:-])?\s{0,20}\|.{0,4000}\|$"
)
# An unfinished string among the arguments of a call or the values of a tuple. Exceptions are
# excluded, as programs print them in this form.
_ARGUMENT = re.compile(
    r"^[-+]?\s{0,80}[*(]{0,3}(?!\w{0,60}(?:Error|Exception|Failed|Response))[\w.]{0,60}\("
    r"(?=[^)]{0,400}(?<=[(\[{,=:\s])[rbfu]{0,2}([\"'])(?:(?!\1|\)).){0,400}$)"
)
# A text in quotes and brackets, as in prose; a printed exception has no space before the bracket.
_ASIDE = re.compile(r" \(\"[^\"]{0,80}$")
_BOLD = re.compile(r"(?<!\*)\*\*(?!\*)")
# A text passed to a call; the lower-case name excludes an exception's.
_CALLED = re.compile(r"\b[a-z_][\w.]{0,60}\((?:\w{1,30}=)?[rbfu]?[\"']")
# A text in a list, or the value of a setting that searches for texts.
_LISTED = re.compile(
    r"(?:[\[({,]\s{0,20}|^\s{1,80})[rbfu]{0,2}[\"']$|^\s{0,80}-\s{1,4}[\"'][^\"']{0,80}$"
    r"|\b(?:in|if|==)\s{1,4}[\"']?$"
    r"|\becho\s{1,4}(?:[\"'][^|;&\"']{0,60})?$|https?://[^\s\"'<>]{0,300}$"
)
# A name and a number before a text, as in a table of errors.
_ENTRY = re.compile(r"^\s{0,20}E[A-Z0-9]{2,14}(?:\s{2,40}| \d{1,3} )$")
# A template; and GNU's quotes (`name'), which are not Markdown's.
_TEMPLATE = re.compile(r"^\{\} |\w\{\}|%[sd]\b")
_QUOTED = re.compile(r"`[^`'\s]{1,80}'")
# A module's constant that is not a printed error; a word in a list; a word that is defined.
_MEMBER = re.compile(r"(?<=[a-z_]\.)[A-Z][A-Z0-9_]{3,60}\b(?![:>])")
_AMONG = re.compile(r"(?<=, )\w{4,40},|[\w']{4,60} (?:means|stands for)\b")
# A comment after a command or a setting; and a setting that searches for texts.
_REMARK = re.compile(r"\S\s{1,8}# \w")
_SETTING = re.compile(
    r"(?i)\b\w{0,30}(?:retry|ignore|skip|match|pattern|regex|filter|grep|search|query|expect|title"
    r"|hint|alert|rule|keyword)\w{0,30}[\"']?\s{0,4}[:=]"
)


_BEGINNINGS = (_CODE, _COMMAND, _HISTORY, _ARGUMENT, _ENTRY)


def manner_of(line: str, place: int) -> Manner:
    """Return how a line reports the failure at a position.

    Args:
        line: Line as its program wrote it, with or without prefixes of launchers and collectors.
        place: Index of the first character of the words that name the failure.
    """
    start = line.rfind("\n", 0, place) + 1
    stop = line.find("\n", place)
    whole = line[start : stop if stop >= 0 else None].rstrip(FRAME)
    message = bare(whole)
    end = max(0, place - start - (len(whole) - len(message)))
    before = message[max(0, end - _REACH) : end]
    raised = _RAISED.search(before)
    at_once = raised or _RAISED.match(message, end)
    stop = end - len(before) + raised.start() if raised else end
    if _is_spoken(message, message[:stop], end):
        return Manner.SPOKEN
    if _WARNED.search(before):
        return Manner.WARNED
    if at_once:
        return Manner.RAISED
    if _INFORMED.search(before) or _WENT_ON.search(before):
        return Manner.WARNED
    return Manner.PRINTED


def _is_spoken(message: str, lead: str, place: int) -> bool:
    """Return whether a line only mentions an error.

    Args:
        message: The line, without prefixes.
        lead: The text before the error's words, or before its exception's name.
        place: Index in the message of the error's words.
    """
    grep = _GREP.match(message)
    skipped = grep.end() if grep else 0
    quoted = _QUOTED.sub("", message[:place].replace("``", "`")).count("`") % 2
    rest = lead[max(skipped, len(lead) - _REACH) :]
    begins = rest.strip() and len(lead) - skipped <= _REACH
    return bool(
        quoted
        or _DOCUMENT.match(message)
        or _SOURCE.match(message[skipped:])
        or (begins and any(form.match(rest) for form in _BEGINNINGS))
        or any(
            form.search(rest)
            for form in (_LISTED, _CALLED, _PROSE, _SETTING, _TEMPLATE, _REMARK, _ASIDE)
        )
        or len(_BOLD.findall(rest)) % 2
        or _is_sentence(rest)
        or any(form.match(message, place) for form in (_MEMBER, _AMONG))
    )


def _is_sentence(lead: str) -> bool:
    """Return whether the text before an error's words is a sentence that continues with them."""
    lead = _API.sub("", lead)
    return bool(
        _TOLD.search(_last_clause(_PROGRAM.sub("", lead))) or _PERSON.search(_last_clause(lead))
    )


def _last_clause(lead: str) -> str:
    """Return the clause that an error's words continue; empty where they begin a new message."""
    clause = lead[max(lead.rfind(mark) for mark in _MARKS) + 1 :].rstrip("\"'(")
    is_open = clause.endswith(" ") and not clause.endswith((" an ", " this ", " following "))
    return clause if is_open else ""
