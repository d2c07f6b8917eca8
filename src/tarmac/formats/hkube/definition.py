"""An algorithm definition as HKube's API server validates it.

Keys that are not in the schema are accepted. Source of the fields, kube-HPC/hkube at 261d3d06:
core/openapi-spec/swagger/components/schemas/algorithms/algorithm.yaml.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from tarmac.formats.hkube.coercion import (
    amount,
    amount_or_none,
    cores,
    count,
    count_or_none,
    different,
    flag,
    mapping,
    mapping_or_none,
    number,
    sequence,
    sequence_or_none,
    text_of_scalar,
    text_or_none,
)
from tarmac.formats.hkube.rules import (
    algorithm_name,
    claim,
    directory,
    image,
    labels,
    memory,
    one_of,
    own_memory,
    url,
    variable,
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel)


Text = Annotated[str, BeforeValidator(text_of_scalar)]
TextOrNone = Annotated[str | None, BeforeValidator(text_or_none)]
Count = Annotated[int, BeforeValidator(count)]
CountOrNone = Annotated[int | None, BeforeValidator(count_or_none)]
Amount = Annotated[float, BeforeValidator(amount)]
Flag = Annotated[bool, BeforeValidator(flag)]
Memory = Annotated[float | None, BeforeValidator(memory)]
MappingOrNone = Annotated[dict[str, Any] | None, BeforeValidator(mapping_or_none)]
Variables = Annotated[
    dict[str, Annotated[Any, BeforeValidator(variable)]] | None, BeforeValidator(mapping_or_none)
]
Labels = Annotated[dict[str, Any] | None, BeforeValidator(labels)]


class OwnOptions(_Part):
    """Tarmac's own settings of a definition, in ``options.tarmac``. HKube ignores them.

    Attributes:
        protocol: ``hkube``, the protocol of HKube's worker, or ``plain``, a program that reads a
            file. None if the file does not set it.
        command: Command that replaces the image, in the form of job files. It runs in
            ``environment``, or else on this machine.
        environment: Environment of the command, in the form of job files.
        inputs: Inputs of the command, in the form of job files.
    """

    model_config = ConfigDict(extra="forbid")

    protocol: Annotated[str | None, one_of("hkube", "plain")] = None
    command: Any = None
    environment: Any = None
    inputs: Any = None


class _Options(_Part):
    dev_mode: Flag | None = None
    pending: Flag | None = None
    opengl: Flag | None = None
    tarmac: Annotated[OwnOptions | None, BeforeValidator(mapping)] = None


class _Amounts(_Part):
    cpu: Amount | None = None
    memory: Memory = None


class _WorkerResources(_Part):
    requests: Annotated[_Amounts, BeforeValidator(mapping)]
    limits: Annotated[_Amounts, BeforeValidator(mapping)]

    @model_validator(mode="after")
    def _are_pairs(self) -> Self:
        for name in ("memory", "cpu"):
            requested, most = getattr(self.requests, name), getattr(self.limits, name)
            if bool(requested) != bool(most):
                missing = "limits" if requested else "requests"
                raise ValueError(f"{missing}.{name} must be defined")
        return self


class _Mount(_Part):
    pvc_name: Annotated[str, BeforeValidator(claim)]
    path: Annotated[str, BeforeValidator(directory)]
    volume_type: Annotated[str | None, one_of("emptyDir", "configMap")] = None


class _Commit(_Part):
    id: Text


class _Repository(_Part):
    url: Annotated[str, BeforeValidator(url)]
    commit: Annotated[_Commit | None, BeforeValidator(mapping)] = None
    branch_name: Text | None = None
    tag: Text | None = None
    token: Text | None = None
    git_kind: Annotated[str | None, one_of("github", "gitlab")] = None


class _Kai(_Part):
    queue: Text
    memory: Memory = None
    fraction: Annotated[float | None, BeforeValidator(amount_or_none)] = None

    @model_validator(mode="after")
    def _has_one_share(self) -> Self:
        if {"memory", "fraction"} <= self.model_fields_set:
            raise ValueError('only one of "memory" or "fraction" can be defined')
        return self


class _Claim(_Part):
    claim_name: Text | None = None


class _Config(_Part):
    name: Text | None = None


class _Secret(_Part):
    secret_name: Text | None = None


class _Volume(_Part):
    name: Text
    empty_dir: Annotated[dict[str, Any] | None, BeforeValidator(mapping)] = None
    persistent_volume_claim: Annotated[_Claim | None, BeforeValidator(mapping)] = None
    config_map: Annotated[_Config | None, BeforeValidator(mapping)] = None
    secret: Annotated[_Secret | None, BeforeValidator(mapping)] = None


class _VolumeMount(_Part):
    name: Text
    mount_path: Text


class _Container(_Part):
    name: Text
    image: Text


Volumes = Annotated[
    list[Annotated[_Volume, BeforeValidator(mapping)]] | None, BeforeValidator(sequence)
]
VolumeMounts = Annotated[
    list[Annotated[_VolumeMount, BeforeValidator(mapping)]] | None, BeforeValidator(sequence)
]


class _SideCar(_Part):
    container: Annotated[_Container | None, BeforeValidator(mapping)] = None
    volume_mounts: VolumeMounts = None
    environments: MappingOrNone = None


def _named_apart(cars: list[_SideCar] | None) -> list[_SideCar] | None:
    names = [car.container.name for car in cars or () if car.container and car.container.name]
    if len(set(names)) < len(names):
        raise ValueError("container names must be unique")
    return cars


class _SecurityContext(_Part):
    fs_group: Annotated[float | None, BeforeValidator(number)] = None
    has_fs_group_change_policy: Text | None = None


class Definition(_Part):
    """The fields of an algorithm definition, under HKube's own names.

    ``cpu`` and ``gpu`` are numbers, ``mem`` is in bytes. A field not in the definition is None.
    """

    @property
    def own(self) -> OwnOptions:
        """Tarmac's own settings of the definition."""
        return (self.options and self.options.tarmac) or OwnOptions()

    name: Annotated[str, BeforeValidator(algorithm_name)]
    kind: Annotated[str | None, one_of("batch", "stream")] = None
    # jvm was the name of java in 2018 and 2019.
    env: Annotated[str | None, one_of("nodejs", "python", "java", "jvm")] = None
    algorithm_image: Annotated[str | None, BeforeValidator(image)] = None
    cpu: Annotated[float | None, BeforeValidator(cores)] = None
    apply_cpu_limits: Flag | None = None
    gpu: Annotated[float | None, BeforeValidator(amount)] = None
    mem: Annotated[float | None, BeforeValidator(own_memory)] = None
    worker_custom_resources: Annotated[_WorkerResources | None, BeforeValidator(mapping)] = None
    reserved_memory: Memory = None
    options: Annotated[_Options | None, BeforeValidator(mapping)] = None
    version: Text | None = None
    mounts: Annotated[
        list[Annotated[_Mount, BeforeValidator(mapping)]] | None,
        BeforeValidator(different),
        BeforeValidator(sequence_or_none),
    ] = None
    git_repository: Annotated[_Repository | None, BeforeValidator(mapping_or_none)] = None
    entry_point: TextOrNone = None
    dependency_install_cmd: TextOrNone = None
    base_image: TextOrNone = None
    min_hot_workers: Count | None = None
    max_workers: CountOrNone = None
    quota_guarantee: CountOrNone = None
    algorithm_env: Variables = None
    worker_env: Variables = None
    kai_object: Annotated[_Kai | None, BeforeValidator(mapping_or_none)] = None
    node_selector: MappingOrNone = None
    labels: Labels = None
    annotations: Labels = None
    state_type: Annotated[str | None, one_of("stateless", "stateful")] = None
    type: Annotated[str | None, one_of("Git", "Code", "Image")] = None
    download_file_ext: TextOrNone = None
    volumes: Volumes = None
    volume_mounts: VolumeMounts = None
    security_context: Annotated[_SecurityContext | None, BeforeValidator(mapping)] = None
    side_cars: Annotated[
        list[Annotated[_SideCar, BeforeValidator(mapping)]] | None,
        AfterValidator(_named_apart),
        BeforeValidator(different),
        BeforeValidator(sequence_or_none),
    ] = None
    # HKube adds these fields to its exports.
    created: Any = None
    modified: Any = None
    file_info: Any = None
    audit_trail: Any = None
    user_info: Any = None
