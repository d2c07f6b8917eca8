"""Writes plain values as YAML."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["dump_document"]


def dump_document(value: Any) -> str:
    """Write plain values as YAML that versions 1.1 and 1.2 read alike."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100))


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that YAML 1.2 takes for numbers, beside those that 1.1 does."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what is there twice twice: not all readers take aliases."""
        del data
        return True


# Wider than the numbers of YAML 1.2: a text in quotes stays the text that it is.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0[box][0-9a-fA-F_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$"),
    list("-+.0123456789"),
)
