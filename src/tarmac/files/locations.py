"""Parsing of locations: a path, ``file://``, an object's URI, or a URL.

Example:
    >>> from tarmac.files import Location
    >>> Location.parse("s3://bucket/epoch#1.pt").path
    'epoch#1.pt'
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from urllib.parse import unquote

SCHEMES = ("s3", "gs", "az")

# RFC 3986, section 3.1. A path may hold ":", but hardly "://".
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/?(.*)", re.DOTALL)

_WEB = ("http", "https")

# The user part ends at the last @ before the path: a password may have an @.
_USER = re.compile(r"(\w://)[^/\s]*@")
# https://docs.anaconda.com/anacondaorg/user-guide/work-with-accounts/#using-tokens
_TOKEN = re.compile(r"(\w://[^\s/]+/)t/[^\s/]+/")
_QUERY = re.compile(r"(\w://[^\s?#]*)[?#]\S*")


@dataclasses.dataclass(frozen=True)
class Location:
    """The location of a file or an object.

    No character ends a name: ``#``, ``?``, ``%`` and spaces are valid in paths and object keys like
    any letter. Only URLs have queries, and only ``file://`` and URLs are escaped (RFC 8089, RFC
    3986).

    Attributes:
        text: Location as it was written.
        scheme: ``http``, ``s3``, ``file``, ...; empty for a path.
        host: Bucket, or server of a URL; empty for a path.
        path: Path, or an object's key without a leading slash.
    """

    text: str
    scheme: str
    host: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse a location."""
        match = _URI.fullmatch(text)
        if match is None:
            return cls(text, "", "", text)
        scheme, host, path = match[1].lower(), match[2], match[3]
        if scheme == "file":
            return cls(text, scheme, host, "/" + unquote(path))
        if scheme in _WEB:
            host, _, path = re.split(r"[?#]", f"{host}/{path}", maxsplit=1)[0].partition("/")
            path = unquote(path)
        return cls(text, scheme, host, path)

    @property
    def is_object(self) -> bool:
        """Whether the location is in an object store."""
        return self.scheme in SCHEMES

    @property
    def is_url(self) -> bool:
        """Whether the location is on a web server."""
        return self.scheme in _WEB

    @property
    def is_local(self) -> bool:
        """Whether the location is a path, or ``file://`` of this machine."""
        return self.scheme == "" or (self.scheme == "file" and self.host in ("", "localhost"))

    @property
    def name(self) -> str:
        """The last part of the path; empty for an empty path."""
        return Path(self.path).name

    def below(self, base: Path) -> Path:
        """Return the path of a local location.

        Args:
            base: Directory that a relative path starts from.
        """
        assert self.is_local
        return base / self.path


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` and ``~user`` replaced, or unchanged if the home is unknown.

    `Path.expanduser` raises a RuntimeError instead.

    Example:
        >>> expanded("~no-such-user/key")
        PosixPath('~no-such-user/key')
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises


def placed(path: str, base: Path) -> Path:
    """Return the absolute path of a path in a directory, with ``~`` and ``..`` resolved."""
    return Path(os.path.normpath(base / expanded(path))).absolute()


def without_password(text: str) -> str:
    """Redact the secrets of URLs in a text: users, passwords, queries.

    Tokens of private conda channels, ``/t/TOKEN/``, are redacted too.

    Example:
        >>> without_password("https://me:word@host/data?signature=1 is gone")
        'https://host/data is gone'
    """
    return _QUERY.sub(r"\1", _TOKEN.sub(r"\1", _USER.sub(r"\1", text)))
