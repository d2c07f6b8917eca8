"""YAML that means the same to readers of 1.1 and of 1.2."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["dump_yaml"]


class _Dumper(yaml.SafeDumper):
    """Quotes what either version would read as something else than a text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what is there twice twice: not all readers take aliases."""
        del data
        return True


# What 1.2 reads as a number, and 1.1 as a text: 08, 1e-3, 0o17.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0o[0-7_]+|[0-9][0-9_]*|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)"),
    list("-+.0123456789"),
)


def dump_yaml(value: Any) -> str:
    """Return plain values as YAML, mappings in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100)
