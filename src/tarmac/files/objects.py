"""Access to object stores by URI: ``s3://``, ``gs://`` and ``az://``, through obstore."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from tarmac.distribution import require
from tarmac.errors import TarmacError
from tarmac.files.locations import Location

# Texts in S3's errors. A user without the right to list also gets the second for a missing object.
# The third is the address where a machine of Amazon's is asked for keys, if no variable has them.
_NO_BUCKET = "<Code>NoSuchBucket<"
_NOT_SAID = "<Code>AccessDenied<"
_ASKS_MACHINE = "/latest/api/token"

_CHUNK_BYTES = 2**20
_RETRIES = 5
_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 10.0
_LIMIT_S = 180.0


def is_object(uri: str) -> bool:
    """Whether a URI belongs to an object store."""
    return Location.parse(uri).is_object


def s3_config(environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return S3 settings from AWS_ENDPOINT_URL and the variables of TensorFlow's S3 file system.

    Args:
        environment: Environment variables to read, usually ``os.environ``.

    Returns:
        The configuration of the store and of its client, without keys and region. The store itself
        reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION.
    """
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    uses_https = environment.get("S3_USE_HTTPS", "1").lower() not in ("0", "false")
    if not endpoint and environment.get("S3_ENDPOINT"):
        host = environment["S3_ENDPOINT"]
        scheme = "https" if uses_https else "http"
        endpoint = host if "://" in host else f"{scheme}://{host}"
    config: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
    client: dict[str, Any] = {"timeout": timedelta(seconds=60)}
    if endpoint.startswith("http://"):
        client["allow_http"] = True
    if environment.get("S3_VERIFY_SSL", "1").lower() in ("0", "false"):
        client["allow_invalid_certificates"] = True
    return config, client


def put_object(path: Path, uri: str, environment: Mapping[str, str]) -> None:
    """Upload a file; the object is complete on return, and unchanged after an error.

    Args:
        path: Local file to upload as a whole.
        uri: URI of the object to write, such as ``s3://bucket/key``.
        environment: Environment variables that configure the store, usually ``os.environ``.

    Raises:
        TarmacError: The store does not accept the object, after retries.
    """
    with _store(uri, environment) as (obstore, store, key):
        obstore.put(store, key, path)


def get_object(uri: str, path: Path, environment: Mapping[str, str]) -> None:
    """Download an object to a file.

    Raises:
        TarmacError: The object is missing, or the store does not return it.
    """
    with _store(uri, environment) as (obstore, store, key), path.open("wb") as file:
        for chunk in obstore.get(store, key).stream(min_chunk_size=_CHUNK_BYTES):
            file.write(chunk)


def read_object(uri: str, environment: Mapping[str, str]) -> bytes | None:
    """Return the content of a small object; None if the object is missing or hidden.

    Raises:
        TarmacError: The bucket is missing, or the store rejects the keys or gives no answer.
    """
    with _store(uri, environment) as (obstore, store, key):
        try:
            return bytes(obstore.get(store, key).bytes())
        except (FileNotFoundError, obstore.exceptions.NotFoundError) as error:
            if _NO_BUCKET in str(error):
                raise
        except (PermissionError, obstore.exceptions.PermissionDeniedError) as error:
            if _NOT_SAID not in str(error):
                raise
        return None


def write_object(uri: str, content: bytes, environment: Mapping[str, str]) -> None:
    """Write a small object; replace an existing one.

    Raises:
        TarmacError: The store does not accept the object, after retries.
    """
    with _store(uri, environment) as (obstore, store, key):
        obstore.put(store, key, content)


def delete_object(uri: str, environment: Mapping[str, str]) -> None:
    """Delete an object; do nothing if it is missing.

    Raises:
        TarmacError: The store does not allow it, or gives no answer.
    """
    with _store(uri, environment) as (obstore, store, key):
        try:
            obstore.delete(store, key)
        except (FileNotFoundError, obstore.exceptions.NotFoundError):
            return


def is_object_directory(uri: str, environment: Mapping[str, str]) -> bool:
    """Whether a URI names no object, but a prefix of objects.

    Raises:
        TarmacError: The store gives no answer.
    """
    with _store(uri, environment) as (obstore, store, key):
        if key and not key.endswith("/"):
            with contextlib.suppress(FileNotFoundError, obstore.exceptions.NotFoundError):
                obstore.head(store, key)
                return False
        return any(batch for batch in obstore.list(store, key.rstrip("/") or None))


def list_objects(uri: str, environment: Mapping[str, str]) -> list[str]:
    """Return the URIs of all objects below a URI, in order.

    Args:
        uri: URI of a directory, such as ``s3://bucket/prefix``.
        environment: Environment variables that configure the store, usually ``os.environ``.

    Raises:
        TarmacError: The store gives no answer.
    """
    root = "/".join(uri.split("/", maxsplit=3)[:3])
    with _store(uri, environment) as (obstore, store, key):
        batches = obstore.list(store, key.rstrip("/") or None)
        paths = sorted(entry["path"] for batch in batches for entry in batch)
    return [f"{root}/{path}" for path in paths]


@contextlib.contextmanager
def _store(uri: str, environment: Mapping[str, str]) -> Iterator[tuple[Any, Any, str]]:
    """Open the store of a URI; convert its errors into TarmacError."""
    require("obstore", uri)
    import obstore  # noqa: PLC0415 - an extra
    from obstore.exceptions import BaseError, NotFoundError  # noqa: PLC0415
    from obstore.store import from_url  # noqa: PLC0415

    place = Location.parse(uri)
    key = place.path.lstrip("/")
    config, client = s3_config(environment) if place.scheme == "s3" else ({}, {})
    retries = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=_LIMIT_S),
        "backoff": {
            "base": 2,
            "init_backoff": timedelta(seconds=_FIRST_DELAY_S),
            "max_backoff": timedelta(seconds=_LONGEST_DELAY_S),
        },
    }
    root = f"{place.scheme}://{place.host}"
    try:
        store = from_url(
            root,
            config=config or None,  # type: ignore[call-overload]  # one type per store
            client_options=client or None,
            retry_config=retries,
        )
        yield obstore, store, key
    except (BaseError, FileNotFoundError, PermissionError, ValueError) as error:
        if _NO_BUCKET in str(error):
            raise TarmacError(f"{root}/{key}: there is no bucket {place.host}") from error
        if _ASKS_MACHINE in str(error):
            reason = "AWS_ACCESS_KEY_ID is not set, and this machine has no role that provides keys"
            raise TarmacError(
                f"{root}/{key}: there are no keys for it: {reason}",
                hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; on Kubernetes, "
                "options.kubernetes.store_secret names a Secret with both",
            ) from error
        if isinstance(error, FileNotFoundError | NotFoundError):
            raise TarmacError(f"{root}/{key}: there is no such object") from error
        # obstore raises ValueError for a key that it cannot express, such as one with a newline.
        first = str(error).strip().splitlines()[0].partition(": <?xml ")[0]
        raise TarmacError(f"{root}/{key}: {first}") from error
