"""Takes apart what says where a file is: a path, ``file://``, an object's URI, a URL.

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

# The end of a user's part is the last @ before the path: passwords may hold one.
_USER = re.compile(r"(\w://)[^/\s]*@")
# https://docs.anaconda.com/anacondaorg/user-guide/work-with-accounts/#using-tokens
_TOKEN = re.compile(r"(\w://[^\s/]+/)t/[^\s/]+/")
_QUERY = re.compile(r"(\w://[^\s?#]*)[?#]\S*")


@dataclasses.dataclass(frozen=True)
class Location:
    """Where something is.

    Nothing in a name ends it: ``#``, ``?``, ``%`` and spaces belong to paths and to the keys of
    objects as any letter does. Only URLs have queries, and only ``file://`` and URLs are escaped
    (RFC 8089, RFC 3986).

    Attributes:
        text: As it was given.
        scheme: ``http``, ``s3``, ``file``, ...; empty for a path.
        host: The bucket, or a URL's server; empty for a path.
        path: A path, or an object's key without a slash before it.
    """

    text: str
    scheme: str
    host: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Take a location apart."""
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
        """Whether it is in an object store."""
        return self.scheme in SCHEMES

    @property
    def is_url(self) -> bool:
        """Whether it is on a web server."""
        return self.scheme in _WEB

    @property
    def is_local(self) -> bool:
        """Whether it is a path, or ``file://`` of this machine."""
        return self.scheme == "" or (self.scheme == "file" and self.host in ("", "localhost"))

    @property
    def name(self) -> str:
        """The last part of its path; empty where there is none."""
        return Path(self.path).name

    def below(self, base: Path) -> Path:
        """Return the path of a local one.

        Args:
            base: What a relative path starts from.
        """
        assert self.is_local
        return base / self.path


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` and ``~user`` replaced; where no home is known it stays as it is.

    `Path.expanduser` raises a RuntimeError instead.

    Example:
        >>> expanded("~no-such-user/key")
        PosixPath('~no-such-user/key')
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that one raises


def placed(path: str, base: Path) -> Path:
    """Return a path that starts from a directory, ``~`` replaced, without ``..``, from the root."""
    return Path(os.path.normpath(base / expanded(path))).absolute()


def without_password(text: str) -> str:
    """Return a text without what URLs in it may hold of secrets: users, passwords, queries.

    And tokens for private channels of conda's, ``/t/TOKEN/``.

    Example:
        >>> without_password("https://me:word@host/data?signature=1 is gone")
        'https://host/data is gone'
    """
    return _QUERY.sub(r"\1", _TOKEN.sub(r"\1", _USER.sub(r"\1", text)))
