"""Images: which are pulled, and what a runtime says of the others."""

from __future__ import annotations

import re
import shutil
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

_IMAGE = re.compile(
    r"[a-z0-9]+([._-][a-z0-9]+)*(:\d+)?(/[a-z0-9._-]+)*(:[\w][\w.-]*)?(@sha256:[0-9a-f]{64})?"
)
# Images of this registry have few commands, and no Python.
PLAIN = "plain.invalid/"
TOOLS = "/plain"
_TOOLS = ("cat", "date", "env", "gzip", "kill", "mkdir", "setsid", "sh", "sleep", "tee")

# Of a registry that has no image, until a node is told of one.
_MISSING = "missing.invalid/"


def image_trouble(
    image: str, known: Container[str], state: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return reason and words for which a container waits for its image; None for one that is had.

    Args:
        image: As the pod names it.
        known: Images of the missing registry that it has by now.
        state: Of the container before: the second try and all later ones are backed off.
    """
    if not _IMAGE.fullmatch(image):
        words = (
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
        )
        return "InvalidImageName", words + "invalid reference format"
    if not image.startswith(_MISSING) or image in known:
        return None
    full = image if ":" in image.partition("/")[2] else f"{image}:latest"
    pulled = (
        f'failed to pull and unpack image "{full}": failed to resolve reference "{full}": {full}: '
        "not found"
    )
    if state.get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff"):
        return "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {pulled}'
    return "ErrImagePull", pulled


def plain_tools(directory: Path) -> Path:
    """Return a directory with the commands of an image that has no Python."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in _TOOLS:
        found, link = shutil.which(name), directory / name
        if found and not link.is_symlink():
            link.symlink_to(Path(found).resolve())
    return directory
