"""A log's line as its program wrote it, without the additions of launchers and collectors."""

from __future__ import annotations

import re

from tarmac.files import parse_json

# Characters that frames of Rich and others leave at the end of a line.
FRAME = " \t│┃║"

# Keys of the message in a line of JSON: Docker's files, loggers, journalctl.
_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE")
# Keys of the message's error: logrus, zap and others.
_ERROR_KEYS = ("error", "err", "exception")
# Keys of the level, for loggers that write it in words. Collectors give any line of an output the
# level "info", so lower levels than a warning do not rule out a failure.
_LEVEL_KEYS = ("level", "levelname", "severity", "lvl", "log.level")
_LEVELS = {
    **dict.fromkeys(("warn", "warning"), "WARNING"),
    **dict.fromkeys(("error", "err", "critical", "fatal", "panic", "emergency"), "ERROR"),
}

_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"

# Prefixes that launchers and collectors put before each line.
_PREFIX = re.compile(
    "|".join(
        (
            # torchrun: "[rank3]:", "[default0]:"; mpirun: "[1,0]<stderr>:"; kubectl: "[pod/a/b]"
            r"\[(?:rank|default)\d+\]:?",
            r"\[\d+,\d+\]<\w+>:",
            r"\[pod/[^\]\s]+\]",
            # srun --label
            r"\d+:(?= )",
            # Docker's compose and foreman
            r"[\w.-]+ +\|",
            # Ray
            r"\(\w+ pid=\d+(?:, ip=[\d.]+)?\)",
            # containerd's files
            rf"{_DATE} std(?:out|err) [FP]",
            # dates, in brackets too; the kernel's seconds since its start
            rf"\[?{_DATE}\]?",
            r"\[ *\d+\.\d+\]",
            r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?:",
            # frames of Rich and others
            r"[│┃║]",
        )
    )
)


def unwrapped(line: str) -> str:
    """Return the level, message and error of a line of JSON, and any other line unchanged."""
    if not line.startswith("{"):
        return line
    try:
        values = parse_json(line)
    except ValueError:
        return line
    level, *both = (
        next((values[key] for key in keys if key in values), None)
        for keys in (_LEVEL_KEYS, _MESSAGE_KEYS, _ERROR_KEYS)
    )
    texts = [text.rstrip("\n") for text in both if isinstance(text, str)]
    if not texts:
        return line
    # Docker wraps each line in JSON, also a program's line that is JSON already.
    texts = [unwrapped(text) for text in texts]
    word = _LEVELS.get(level.lower()) if isinstance(level, str) else None
    return ": ".join([word, *texts] if word else texts)


def bare(line: str) -> str:
    """Return a line without the prefixes of launchers and collectors, and without a frame."""
    start = 0
    line = line.rstrip(FRAME)
    while match := _PREFIX.match(line, start):
        start = match.end()
        while line[start : start + 1] in (" ", "\t"):
            start += 1
    return line[start:]
