"""Masking of passwords after program options whose names do not say so, such as ``curl -u``.

Example:
    >>> hide_in_lines("skopeo copy --src-creds ann:pw docker://a dir:b")
    'skopeo copy --src-creds ann:(hidden) docker://a dir:b'
    >>> hide_in_arguments(["unzip", "-P", "two words", "data.zip"])
    ['unzip', '-P', '(hidden)', 'data.zip']
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tarmac.masking.forms import HIDDEN

_QUOTE = r"[\"']?"
_USER = r"[^\s:\"'@]{0,200}:"


def _after(option: str, *, kept: str = "", joined: str = "[ =]?") -> re.Pattern[str]:
    """Return a pattern for the value of an option: ``-o VALUE``, ``-oVALUE``, ``--option=VALUE``.

    Args:
        option: Pattern of the option's names.
        kept: Pattern of a prefix of the value that stays visible, such as a user name. Default:
            none.
        joined: Pattern of the text between the option and its value. Default: an optional space or
            ``=``.
    """
    return re.compile(rf"((?<!\S)(?:{option}){joined}{_QUOTE}{kept})[^\s\"']+")


# Prefixes of program names, with patterns for the rest of the line.
_PROGRAMS = (
    ("curl", _after("-u|-U|--user|--proxy-user", kept=_USER)),
    # A token instead of a user, for curl only: -u of other programs is the user of a container.
    (
        "curl",
        re.compile(
            rf"(\bcurl\b[^\n|;&]{{0,200}}?[ ](?:-u|--user)[ =]?{_QUOTE})[^\s\"':]+:?(?![^\s\"'])"
        ),
    ),
    ("http", _after("-a|--auth", kept=_USER)),
    ("twine", _after("-p")),
    ("wandb", re.compile(rf"(\blogin[ \t]+{_QUOTE})[\w-]{{32,}}")),
    ("vault", re.compile(rf"(\bvault login[ \t]+{_QUOTE})(?!-)[^\s\"'=]{{8,}}")),
    ("kubectl", _after("--from-literal", kept=r"[\w.-]{1,200}=")),
    ("mc", re.compile(r"(\bmc alias set(?: [^\s]{1,300}){3} )\S+")),
    ("mysql", _after("-p", joined="")),
    ("mariadb", _after("-p", joined="")),
    ("sqlcmd", _after("-P")),
    ("mongo", _after("-p")),
    ("cqlsh", _after("-p")),
    ("redis-cli", _after("-a")),
    ("ldap", _after("-w")),
    ("smbclient", _after("-U|--user", kept=r"[^\s%\"']{0,200}%")),
    ("sshpass", _after("-p")),
    ("plink", _after("-pw")),
    ("lftp", _after("-u", kept=r"[^\s,\"']{0,200},")),
    ("ipmitool", _after("-P")),
    ("racadm", _after("-p")),
    ("zip", _after("-P")),
    ("unzip", _after("-P")),
    ("7z", _after("-p", joined="")),
    ("openssl", _after("-k|-K|-pass(?:in|out)?", kept="(?:pass:)?", joined=" ")),
)
_LOGIN = r"\b(?:docker|podman|nerdctl|buildah|skopeo|crane|helm|oras|az|oc)\b[^\n]{0,60}?\blogin\b"
# Words, with patterns for lines that hold the word anywhere.
_ANYWHERE = (
    # A proxy's URL may have no scheme. Passwords in other URLs are masked by their form.
    ("@", re.compile(rf"(?i)((?:proxy|(?<!\S)-x)[ =]{_QUOTE}{_USER})[^\s\"'@/]{{1,200}}(?=@)")),
    ("login", re.compile(rf"({_LOGIN}[^\n]{{0,200}}?\s-p[ =]?{_QUOTE})[^\s\"']+")),
    ("creds", _after("--(?:src-|dest-)?creds", kept=_USER)),
    # aws configure set aws_secret_access_key X, npm config set //host/:_authToken X
    (
        "config",
        re.compile(
            r"(\bconfig(?:ure)?[ \t]+(?:set|create)\b[^\n]{0,200}?"
            rf"(?i:_(?:auth_?token|token|key|password))[ \t]{_QUOTE})[^\s\"']+"
        ),
    ),
)
# Two numbers are a user and a group, or ports.
_NUMBERS = re.compile(r"(?:.*[ =])?(?:-p)?[\"']?[0-9]+:[0-9]+", re.DOTALL)

# Whitespace and quotes inside an argument do not end it. Private-use characters replace them, so
# that the patterns do not stop there.
_ENDS, _PRIVATE = re.compile(r"[\s\"']"), re.compile("[\U000f0000-\U000fffff]")


def hide_in_lines(text: str) -> str:
    """Return lines of shell commands with ``(hidden)`` for such passwords."""
    for program, pattern in _PROGRAMS:
        if program in text:
            text = "\n".join(_hide_behind(program, pattern, line) for line in text.split("\n"))
    for word, pattern in _ANYWHERE:
        if word in text:
            text = "\n".join(
                pattern.sub(_hide, line) if word in line else line for line in text.split("\n")
            )
    return text


def hide_in_arguments(arguments: Iterable[str]) -> list[str]:
    """Return a command's arguments with ``(hidden)`` for such passwords."""
    one_word = [_ENDS.sub(lambda end: chr(0xF0000 + ord(end[0])), word) for word in arguments]
    shown = hide_in_lines(" ".join(one_word)).split(" ")
    return [_PRIVATE.sub(lambda end: chr(ord(end[0]) - 0xF0000), word) for word in shown]


def _hide_behind(program: str, pattern: re.Pattern[str], line: str) -> str:
    name = re.search(rf"(?<![\w.-]){program}", line)
    if name is None:
        return line
    return line[: name.start()] + pattern.sub(_hide, line[name.start() :])


def _hide(match: re.Match[str]) -> str:
    return match[0] if _NUMBERS.fullmatch(match[0]) else f"{match[1]}{HIDDEN}"
