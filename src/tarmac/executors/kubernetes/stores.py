"""Files for pods without a volume: inputs and outputs in stores that the pods access."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from tarmac.errors import RequestError
from tarmac.executors.attempt import Attempt
from tarmac.executors.elements import NoSharedFilesystem, store_settings
from tarmac.executors.kubernetes.options import options_of
from tarmac.files import Location, without_password
from tarmac.masking import is_secret_name
from tarmac.tasks.conversion_error import ConversionError
from tarmac.tasks.plan import Task
from tarmac.tasks.receipts import receipt_of

# Names of the S3 keys, both as clients' variables and in the Secret.
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

_NO_WAY = "needs a volume on Kubernetes, because pods see no directory of this machine"
_IN_CONFIG_MAP = "that others could read in a ConfigMap"
_VOLUME = "Or options.kubernetes.volume names a claim that holds the run's directory"


def refuse_apart(options: Mapping[str, Any], what: str) -> None:
    """Refuse work that needs a directory of this machine, where pods see none.

    Args:
        options: Options of Kubernetes, such as ``{"volume": ...}``.
        what: Start of the error message, which names the work that needs a directory.

    Raises:
        RequestError: The options name no volume.
    """
    if not options.get("volume"):
        raise RequestError(
            f"{what}, and on Kubernetes no volume holds that directory",
            hint="Name a claim that this machine mounts at the same path. In settings.toml:\n"
            '  [kubernetes]\n  volume = {claim = "runs", path = "/runs"}\n'
            "Then, with what it needs below that path: --on kubernetes --output /runs\n"
            "Or run it on this machine: without --on",
        )


def refuse_unreachable_files(task: Task) -> None:
    """Refuse inputs and outputs that pods without a volume cannot reach.

    Raises:
        RequestError: The task has such a file, or a setting of stores holds a password.
    """
    for number, entry in enumerate(task.inputs):
        location, shown = Location.parse(entry.source), without_password(entry.source)
        if not (location.is_url or location.is_object):
            hint = (
                "Put it into a store: from: s3://BUCKET/..., for which the image needs Tarmac "
                "(options.kubernetes.python)"
            )
            raise _unfit(task, "inputs", number, f"the input {shown} {_NO_WAY}", hint)
        if location.is_url and _holds_secret(entry.source):
            hint = (
                "Put the file into a store: from: s3://BUCKET/...; or have the program itself "
                "fetch it, with the URL in one of the task's secrets"
            )
            what = f"the URL of the input {shown} holds a password or a signature {_IN_CONFIG_MAP}"
            raise _unfit(task, "inputs", number, what, hint)
    for number, output in enumerate(task.outputs):
        if not Location.parse(output.to).is_object:
            hint = (
                "Keep it in a store: to: s3://BUCKET/..., for which the image needs Tarmac "
                "(options.kubernetes.python)"
            )
            what = f"the output {output.path} to {output.to} {_NO_WAY}"
            raise _unfit(task, "outputs", number, what, hint)
    store_settings(task, os.environ)


def _unfit(
    task: Task, kind: Literal["inputs", "outputs"], number: int, what: str, hint: str
) -> ConversionError:
    return ConversionError(
        f"task {task.name!r}: {what}",
        hint=f"{hint}\n{_VOLUME}",
        spec=task.spec,
        kind=kind,
        number=number,
    )


def _holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    is_signed = any(is_secret_name(name) or "sig" in name.lower() for name in names)
    return parts.username is not None or is_signed


def store_keys(task: Task) -> dict[str, tuple[str, str]]:
    """Return the S3 keys of a task's pods: variable to name of a Secret and key.

    The task's own secrets take precedence.
    """
    name = options_of(task).store_secret
    places = [*(entry.source for entry in task.inputs), *(output.to for output in task.outputs)]
    if not name or not any(Location.parse(place).scheme == "s3" for place in places):
        return {}
    return {key: (name, key) for key in _KEYS if key not in task.secrets}


def apart_of(attempt: Attempt, run: str) -> NoSharedFilesystem:
    """Return the replacement for this machine's files in an attempt's pod.

    Args:
        attempt: Attempt that the pod runs.
        run: Name of the run, unique among all runs.

    Raises:
        RequestError: A setting of stores holds a password.
    """
    task = attempt.task
    options = options_of(task)
    python = options.python
    if options.volume is not None and "python" not in options.model_fields_set:
        # The image has this Python at the same path, or the volume has both Python and Tarmac.
        python = sys.executable
    receipt = None
    # The nodes of one attempt know of each other's end without a receipt.
    if options.volume is None and task.resources.nodes == 1:
        receipt = receipt_of(
            task.outputs, run=run, task=task.name, index=task.index, attempt=attempt.number
        )
    return NoSharedFilesystem(
        python=python,
        settings=store_settings(task, os.environ),
        receipt=receipt,
    )
