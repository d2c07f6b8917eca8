"""An algorithm definition as HKube's API server validates it.

Its validator (ajv 6 with ``coerceTypes``) takes a scalar of another type where its text can be read
as the type that is wanted: ``"0x10"`` and true as numbers, 5 as a text. Keys that the schema does
not have are taken. Sources, of kube-HPC/hkube at 261d3d06: the fields from
core/openapi-spec/swagger/components/schemas/algorithms/algorithm.yaml, the rules beyond the schema
from core/api-server/lib/validation/{algorithms,custom-formats}.js and lib/consts/regex.js; units
from kube-HPC/units-converter.hkube 1.0.17, lib/converter.js.
"""

from __future__ import annotations

import decimal
import difflib
import json
import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Definition", "text_of_scalar"]

_NAME = re.compile(r"[a-z0-9][-a-z0-9\\.]*[a-z0-9]")
_LABEL = re.compile(r"[a-z0-9][-_.a-z0-9\\]*[a-z0-9]")
_LONGEST_LABEL = 63
_URL = re.compile(r"(f|ht)tps?://.*", re.IGNORECASE | re.DOTALL)

_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "m": 1e-3,
}  # fmt: skip
_MEMORY = re.compile(r"\+?(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)", re.ASCII)
_LEAST_MEMORY = 4 * 2**20

_NUMBER = re.compile(
    r"\s*(?:([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|0(x[0-9a-f]+|o[0-7]+|b[01]+))?\s*",
    re.ASCII | re.IGNORECASE,
)
_BASES = {"x": 16, "o": 8, "b": 2}

_REFERENCES = ("fieldRef", "configMapKeyRef", "resourceFieldRef", "secretKeyRef")


def _text_of_number(number: float) -> str:
    """Write a number as JavaScript's ``String`` does (ECMA-262, Number::toString).

    Example:
        >>> [_text_of_number(number) for number in (1.0, 0.1, 1e-7, 1e21)]
        ['1', '0.1', '1e-7', '1e+21']
    """
    try:
        value = float(number)
    except OverflowError:
        value = math.copysign(math.inf, number)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    shortest = decimal.Decimal(repr(value)).normalize()
    exponent = shortest.adjusted()
    if -7 < exponent < 21:
        return f"{shortest:f}"
    mantissa = shortest.scaleb(-exponent)
    return f"{mantissa:f}e{exponent:+d}"


def text_of_scalar(value: Any) -> str:
    """Write a scalar as JavaScript's ``String`` does, and null as nothing, as the validator does.

    Raises:
        ValueError: It is a list or a mapping.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _text_of_number(value)
    raise ValueError("expected a text")


def _text_or_none(value: Any) -> str | None:
    return None if value is None else text_of_scalar(value)


def _number(value: Any) -> float:
    found = math.nan
    if value is None or isinstance(value, bool):
        found = float(value or 0)
    elif isinstance(value, (int, float)):
        found = value
    elif isinstance(value, str) and value and (match := _NUMBER.fullmatch(value)):
        found = _whole_of(match[2]) if match[2] else float(match[1] or 0)
    try:
        found = float(found)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError("expected a number")
    return found


def _whole_of(digits: str) -> float:
    """Read what follows the 0 of ``0x1f``, ``0o17`` and ``0b1``."""
    try:
        return float(int(digits[1:], _BASES[digits[0].lower()]))
    except OverflowError:
        return math.inf


def _amount(value: Any) -> float:
    try:
        found = _number(value)
    except ValueError:
        found = -1.0
    if found < 0:
        raise ValueError("expected a number of at least 0")
    return found


def _amount_or_none(value: Any) -> float | None:
    return None if value is None or value == "" else _amount(value)


def _cores(value: Any) -> float:
    try:
        return _amount(value)
    except ValueError as error:
        raise ValueError(f"{error} (HKube takes cores, not thousandths)") from error


def _count(value: Any) -> int:
    try:
        found = _amount(value)
    except ValueError:
        found = math.nan
    if not found.is_integer():
        raise ValueError("expected a whole number of at least 0")
    return int(found)


def _count_or_none(value: Any) -> int | None:
    return None if value is None or value == "" else _count(value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value is None or value in ("false", 0):
        return False
    if value in ("true", 1):
        return True
    raise ValueError("expected true or false")


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected a mapping")  # noqa: TRY004 - Pydantic wants it
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("expected a list")  # noqa: TRY004 - Pydantic wants it
    return value


def _mapping_or_none(value: Any) -> dict[str, Any] | None:
    return None if _is_nothing(value) else _mapping(value)


def _list_or_none(value: Any) -> list[Any] | None:
    return None if _is_nothing(value) else _list(value)


def _is_nothing(value: Any) -> bool:
    """Whether a value is taken for null where that is allowed."""
    return value is None or (isinstance(value, (str, int, float)) and value in ("", 0))


def _different(value: list[Any] | None) -> list[Any] | None:
    shown = [json.dumps(part, sort_keys=True) for part in value or ()]
    if len(set(shown)) < len(shown):
        raise ValueError("two of the list are the same")
    return value


def _name(value: Any) -> str:
    text = text_of_scalar(value)
    if not _NAME.fullmatch(text) or len(text) > 32:
        raise ValueError(
            "algorithm name must contain only lower-case alphanumeric, dash or dot, "
            "2 to 32 characters, alphanumeric at both ends"
        )
    return text


def _image(value: Any) -> str:
    text = text_of_scalar(value)
    if re.search(r"\s", text):
        raise ValueError("an image's name has no blanks")
    return text


def _memory(value: Any) -> float | None:
    """Return an amount of memory in bytes; None where nothing is said."""
    text = text_of_scalar(value)
    if not text:
        return None
    match = _MEMORY.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"memory unit must be one of {', '.join(_UNITS)}")
    return float(match[1]) * _UNITS[match[2]]


def _own_memory(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        # As HKube stored it in 2019: in Mi.
        found: float | None = _number(value) * 2**20
    else:
        found = _memory(value)
    if found is None or found < _LEAST_MEMORY:
        raise ValueError("memory must be at least 4 Mi")
    return found


def _claim(value: Any) -> str:
    text = text_of_scalar(value)
    if not _NAME.fullmatch(text) or len(text) > 63:
        raise ValueError("expected the name of a volume claim, 2 to 63 characters")
    return text


def _directory(value: Any) -> str:
    text = text_of_scalar(value)
    if not text or re.search(r"\s", text):
        raise ValueError("expected a path without blanks")
    return text


def _url(value: Any) -> str:
    text = text_of_scalar(value)
    if not _URL.fullmatch(text):
        raise ValueError("expected a URL of http, https or ftp")
    return text


def _variable(value: Any) -> Any:
    if isinstance(value, list):
        raise ValueError("a list is no value of a variable")  # noqa: TRY004 - Pydantic wants it
    if isinstance(value, dict):
        kind = str(next(iter(value), None))
        if kind not in _REFERENCES:
            near = difflib.get_close_matches(kind, _REFERENCES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"expected one of {', '.join(_REFERENCES)} as the first key{hint}")
    return value


def _labels(value: Any) -> dict[str, Any] | None:
    labels = _mapping_or_none(value)
    for key, text in (labels or {}).items():
        prefix, slash, rest = key.partition("/")
        name = rest.partition("/")[0] if slash else key
        if slash and not _LABEL.fullmatch(prefix):
            raise ValueError(f"{key!r}: what is before / must be a lower-case name of a domain")
        _check_label(key, name)
        if text != "":
            _check_label(key, text)
    return labels


def _check_label(key: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{key!r}: the value must be a text")  # noqa: TRY004 - Pydantic wants it
    if not _LABEL.fullmatch(text) or len(text) > _LONGEST_LABEL:
        raise ValueError(
            f"{key!r}: {text!r} must have 2 to {_LONGEST_LABEL} lower-case letters, digits, "
            "'-', '_' and '.', alphanumeric at both ends"
        )


def _one_of(*names: str) -> BeforeValidator:
    def choose(value: Any) -> str:
        text = text_of_scalar(value)
        if text not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return text

    return BeforeValidator(choose)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel)


Text = Annotated[str, BeforeValidator(text_of_scalar)]
TextOrNone = Annotated[str | None, BeforeValidator(_text_or_none)]
Count = Annotated[int, BeforeValidator(_count)]
CountOrNone = Annotated[int | None, BeforeValidator(_count_or_none)]
Amount = Annotated[float, BeforeValidator(_amount)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Memory = Annotated[float | None, BeforeValidator(_memory)]
MappingOrNone = Annotated[dict[str, Any] | None, BeforeValidator(_mapping_or_none)]
Variables = Annotated[
    dict[str, Annotated[Any, BeforeValidator(_variable)]] | None, BeforeValidator(_mapping_or_none)
]
Labels = Annotated[dict[str, Any] | None, BeforeValidator(_labels)]


class _Options(_Part):
    dev_mode: Flag | None = None
    pending: Flag | None = None
    opengl: Flag | None = None


class _Amounts(_Part):
    cpu: Amount | None = None
    memory: Memory = None


class _WorkerResources(_Part):
    requests: Annotated[_Amounts, BeforeValidator(_mapping)]
    limits: Annotated[_Amounts, BeforeValidator(_mapping)]


class _Mount(_Part):
    pvc_name: Annotated[str, BeforeValidator(_claim)]
    path: Annotated[str, BeforeValidator(_directory)]
    volume_type: Annotated[str | None, _one_of("emptyDir", "configMap")] = None


class _Commit(_Part):
    id: Text


class _Repository(_Part):
    url: Annotated[str, BeforeValidator(_url)]
    commit: Annotated[_Commit | None, BeforeValidator(_mapping)] = None
    branch_name: Text | None = None
    tag: Text | None = None
    token: Text | None = None
    git_kind: Annotated[str | None, _one_of("github", "gitlab")] = None


class _Kai(_Part):
    queue: Text
    memory: TextOrNone = None
    fraction: Annotated[float | None, BeforeValidator(_amount_or_none)] = None


class _Claim(_Part):
    claim_name: Text | None = None


class _Config(_Part):
    name: Text | None = None


class _Secret(_Part):
    secret_name: Text | None = None


class _Volume(_Part):
    name: Text
    empty_dir: Annotated[dict[str, Any] | None, BeforeValidator(_mapping)] = None
    persistent_volume_claim: Annotated[_Claim | None, BeforeValidator(_mapping)] = None
    config_map: Annotated[_Config | None, BeforeValidator(_mapping)] = None
    secret: Annotated[_Secret | None, BeforeValidator(_mapping)] = None


class _VolumeMount(_Part):
    name: Text
    mount_path: Text


class _Container(_Part):
    name: Text
    image: Text


Volumes = Annotated[
    list[Annotated[_Volume, BeforeValidator(_mapping)]] | None, BeforeValidator(_list)
]
VolumeMounts = Annotated[
    list[Annotated[_VolumeMount, BeforeValidator(_mapping)]] | None, BeforeValidator(_list)
]


class _SideCar(_Part):
    container: Annotated[_Container | None, BeforeValidator(_mapping)] = None
    volume_mounts: VolumeMounts = None
    environments: MappingOrNone = None


class _SecurityContext(_Part):
    fs_group: Annotated[float | None, BeforeValidator(_number)] = None
    has_fs_group_change_policy: Text | None = None


class Definition(_Part):
    """The fields of an algorithm definition, under HKube's own names.

    ``cpu`` and ``gpu`` are numbers, ``mem`` is in bytes; None is what the definition does not say.
    """

    name: Annotated[str, BeforeValidator(_name)]
    kind: Annotated[str | None, _one_of("batch", "stream")] = None
    # jvm is what java was called in 2018 and 2019.
    env: Annotated[str | None, _one_of("nodejs", "python", "java", "jvm")] = None
    algorithm_image: Annotated[str | None, BeforeValidator(_image)] = None
    cpu: Annotated[float | None, BeforeValidator(_cores)] = None
    apply_cpu_limits: Flag | None = None
    gpu: Annotated[float | None, BeforeValidator(_amount)] = None
    mem: Annotated[float | None, BeforeValidator(_own_memory)] = None
    worker_custom_resources: Annotated[_WorkerResources | None, BeforeValidator(_mapping)] = None
    reserved_memory: Memory = None
    options: Annotated[_Options | None, BeforeValidator(_mapping)] = None
    version: Text | None = None
    mounts: Annotated[
        list[Annotated[_Mount, BeforeValidator(_mapping)]] | None,
        BeforeValidator(_different),
        BeforeValidator(_list_or_none),
    ] = None
    git_repository: Annotated[_Repository | None, BeforeValidator(_mapping_or_none)] = None
    entry_point: TextOrNone = None
    dependency_install_cmd: TextOrNone = None
    base_image: TextOrNone = None
    min_hot_workers: Count | None = None
    max_workers: CountOrNone = None
    quota_guarantee: CountOrNone = None
    algorithm_env: Variables = None
    worker_env: Variables = None
    kai_object: Annotated[_Kai | None, BeforeValidator(_mapping_or_none)] = None
    node_selector: MappingOrNone = None
    labels: Labels = None
    annotations: Labels = None
    state_type: Annotated[str | None, _one_of("stateless", "stateful")] = None
    type: Annotated[str | None, _one_of("Git", "Code", "Image")] = None
    download_file_ext: TextOrNone = None
    volumes: Volumes = None
    volume_mounts: VolumeMounts = None
    security_context: Annotated[_SecurityContext | None, BeforeValidator(_mapping)] = None
    side_cars: Annotated[
        list[Annotated[_SideCar, BeforeValidator(_mapping)]] | None,
        BeforeValidator(_different),
        BeforeValidator(_list_or_none),
    ] = None
    # Written by HKube into what it exports.
    created: Any = None
    modified: Any = None
    file_info: Any = None
    audit_trail: Any = None
    user_info: Any = None
