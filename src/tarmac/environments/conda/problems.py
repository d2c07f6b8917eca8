"""Summarize rattler's errors in one line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

_SOLVER = "Cannot solve the request because of:"
_MISSING = re.compile(r"No candidates were found for (\S+) (.+)\.")
_REQUIRING = re.compile(r"([\w.-]+) (\S+) would require")
# A line below a line that requires something, such as ``base-lib <2, which ...``.
_REQUIRED = re.compile(r"(__?[\w-]+|[\w.-]+) ([^,]+), (?:which|for which)")
_BRANCH = re.compile(r"[│├└─ ]+")
_URL = re.compile(r"url \(([^)]+)\)")
_ANSWER = re.compile(r"HTTP status \w+ error \((\d+)([^)]*)\)")
_LOGINS = ("401", "403")
_OF_A_DISK = re.compile(r"No space left|Read-only file system|Permission denied|global cache lock")
_TOO_LONG = "target prefix cannot be longer"
# Length of the placeholder in conda-build's packages that the prefix replaces.
_LONGEST_PREFIX = 255


@dataclasses.dataclass(frozen=True)
class Problem:
    """The reason why an environment cannot be built.

    Attributes:
        words: Description of the problem, in one line.
        hint: Advice for the user. None: no advice.
        missing: Name of a package that no channel has. Empty for other problems.
        is_request: Whether the user's request is wrong, rather than the machine or the network.
    """

    words: str
    hint: str | None = None
    missing: str = ""
    is_request: bool = True


def problem_of(text: str, channels: Sequence[str]) -> Problem:
    """Summarize an error of rattler in one line.

    Args:
        text: Message of rattler's exception: a sentence, or a tree of unmet requirements.
        channels: Channels that rattler searched, for the message.

    Example:
        >>> problem_of("Cannot solve the request because of: No candidates were found for nupy *.",
        ...            ["conda-forge"]).words
        'no package nupy in conda-forge'
    """
    where = " and ".join(channels)
    if _SOLVER not in text:
        return _of_others(text)
    reason = text.partition(_SOLVER)[2]
    if match := _MISSING.search(reason):
        name, version = match.groups()
        if name == "__cuda":
            return _of_driver("one of the packages", version)
        if version == "*":
            return Problem(f"no package {name} in {where}", missing=name)
        return Problem(
            f"no {name} {version} in {where}", f"Ask for another version of {name}.", name
        )
    return _of_requirements(_requirements(reason), where) or Problem(" ".join(reason.split()))


def _of_driver(package: str, version: str) -> Problem:
    return Problem(
        f"{package} needs a driver with CUDA {version}, which this machine does not have",
        "Where the task runs decides: a node with a newer driver, or an older package.",
    )


def _of_requirements(needs: Sequence[tuple[str, str, str]], where: str) -> Problem | None:
    for package, name, version in needs:
        if name == "__cuda":
            return _of_driver(package, version)
    for number, (package, name, version) in enumerate(needs):
        for other, same, another in needs[number + 1 :]:
            if same == name and another != version:
                return Problem(
                    f"{package} needs {name} {version}, and {other} needs {name} {another}",
                    "Ask for other versions of one of them.",
                )
    for package, name, version in needs[:1]:
        return Problem(f"{package} needs {name} {version}, which is not available in {where}")
    return None


def _requirements(tree: str) -> list[tuple[str, str, str]]:
    """Return package, required package and version from rattler's tree of lines."""
    needs, above = [], ""
    for line in tree.splitlines():
        words = _BRANCH.sub("", line, count=1) if line[:1] in "│├└ " else line
        if match := _REQUIRING.search(words):
            above = f"{match[1]} {match[2]}"
        elif above and (match := _REQUIRED.match(words)):
            needs.append((above, match[1], match[2]))
            above = ""
    return needs


def _of_others(text: str) -> Problem:
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines() if line.strip()]
    reason = re.sub(r" \(os error \d+\)", "", lines[-1]) if lines else "no reason is given"
    if _TOO_LONG in text:
        return Problem(
            f"its directory has a path of more than {_LONGEST_PREFIX} bytes, or of more than its "
            "packages allow",
            "Set XDG_CACHE_HOME to a shorter directory.",
        )
    if (match := _URL.search(text)) and (answer := _ANSWER.search(text)):
        status = f"{answer[1]}{answer[2]}"
        hint = "Look whether the channel's name or URL is right."
        if answer[1] in _LOGINS:
            hint = "Log in as part of the channel's URL: https://USER:PASSWORD@HOST/CHANNEL"
        is_theirs = answer[1].startswith("5")
        if is_theirs:
            hint = "Its server has a problem: try again later, or name a mirror by its URL."
        return Problem(f"{match[1]} answers {status}", hint, is_request=not is_theirs)
    if match := _URL.search(text):
        return Problem(
            f"{match[1]} cannot be reached: {reason}",
            "To use a mirror, give its URL as a channel; to use a proxy, set HTTPS_PROXY.",
            is_request=False,
        )
    advice = None
    if _OF_A_DISK.search(text):
        advice = (
            "Packages are unpacked where RATTLER_CACHE_DIR says, by default in ~/.cache/rattler; "
            "environments lie below XDG_CACHE_HOME."
        )
    first = lines[0] if lines else reason
    words = first if first == reason or len(lines) == 1 else f"{first}: {reason}"
    return Problem(words, advice, is_request=False)
