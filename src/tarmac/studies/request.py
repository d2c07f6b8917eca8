"""The request for a search, from a file, from the command line or from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    RootModel,
    ValidationError,
    model_validator,
)

from tarmac.documents import (
    EXTENSIONS,
    Document,
    Number,
    Problem,
    Whole,
    parse_seconds,
    problems_of,
    read_document,
    refuse,
    without_extensions,
)
from tarmac.errors import RequestError, quoted
from tarmac.studies.errors import FieldError
from tarmac.studies.foreign_keys import with_own_keys
from tarmac.studies.methods.breeding import num_survivors
from tarmac.studies.methods.interface import MethodOptions
from tarmac.studies.notation import ParameterText
from tarmac.studies.objectives import COSTS

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

# Fields that a resumed study may change; all other fields decide which networks it tries.
CHANGEABLE = {"confirm", "generations", "trials", "budget", "devices", "workers", "storage"}


# Default of a search without any other limit; `Request` says how many networks that is.
DEFAULT_GENERATIONS = 10


def _names(value: Any) -> Any:
    """Split a text into names at its commas."""
    return tuple(value.split(",")) if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    return None if value is None else parse_seconds(value)


class _Forms:
    """The JSON schema of a parameter's notations in a file, which `ParameterText` reads."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        mapping = handler(core_schema)
        value = {"type": ["boolean", "number", "string", "null"]}
        values = {"type": "array", "items": value, "minItems": 1}
        when = handler.resolve_ref_schema(mapping)["properties"]["when"]
        when["additionalProperties"] = {"anyOf": [value, values]}
        return {"anyOf": [value, values, mapping]}


_Parameter = Annotated[ParameterText, _Forms()]


class Request(BaseModel):
    """The request for a search.

    Attributes:
        workload: Workload to train: a name, or ``path/to/file.py:attribute``.
        method: Search method: ``evolve``, ``brute``, ``random``, ``tpe``, ``cmaes``, ``nsga2``, or
            a method of an installed package; see `tarmac.studies.method_names`.
        generations: Maximum number of generations; 10 if neither ``trials`` nor ``budget`` is set.
            Methods without generations then train ``generations`` times ``population`` networks.
        population: Networks in a generation, including survivors. Default 20.
        retain: Share of a population that survives by fitness, 0 to 1. Default 0.4.
        random_select: Probability that each other network survives too, 0 to 1. Default 0.1.
        mutate: Probability that one gene of a child changes, 0 to 1. Default 0.2.
        trials: Maximum number of trainings; None for no limit.
        budget: Maximum seconds of work, over all sessions; None for no limit.
        space: Parameters to search over, and fixed settings, by name.
        datasets: Changes to ``space`` for a dataset, by the dataset's name.
        objective: Objectives on held-out data; the first decides the winner. Default: the metric
            that judges the workload. A metric without a known direction ends in ``:max`` or
            ``:min``.
        prune: Rule that stops weak networks early: ``none``, ``halving``, ``median``, or a rule of
            an installed package.
        confirm: Number of best networks to train from two more seeds before one wins. Default 0.
        epochs: Maximum number of epochs of each network. Default: the workload's recipe.
        monitor: Metric on held-out data that ``patience`` watches, and the objective if none is
            named; ``NAME:max`` or ``NAME:min`` if its direction is unknown. Default: the first
            objective if it is a metric, else the metric that judges the workload.
        patience: Epochs without a better ``monitor`` after which a training stops. Default: never.
        train_size: Number of training samples. Default: all that are not held out.
        validation_size: Number of held-out samples. Default: the dataset's own validation samples,
            or one for every five training samples, at most 10,000.
        validation_split: Choice of the held-out samples, the same for all networks: ``random``,
            drawn by the seed, each class by its share; ``last``; ``own``, the dataset's own
            validation samples; ``auto``: ``own``, else ``last`` for a series, else ``random``.
        seed: Seed of the search and of every training in it. Default 0.
        devices: Devices to train on, as for `tarmac.machine.find_devices`. Default ``auto``.
        workers: Number of processes that train at the same time. Default: as suits the devices.
        storage: Optuna URL of a database. Default: a journal in the study's directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=EXTENSIONS)

    workload: str
    method: str = "evolve"
    generations: Whole | None = None
    population: Whole = 20
    retain: Number = 0.4
    random_select: Number = 0.1
    mutate: Number = 0.2
    trials: Whole | None = None
    budget: Annotated[
        float | None, BeforeValidator(_seconds, json_schema_input_type=float | str | None)
    ] = None
    space: dict[str, _Parameter] = {}
    datasets: dict[str, dict[str, _Parameter]] = {}
    objective: Annotated[
        tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str | tuple[str, ...])
    ] = ()
    prune: str = "none"
    confirm: Whole = 0
    epochs: Whole | None = None
    monitor: str | None = None
    patience: Whole | None = None
    train_size: Whole | None = None
    validation_size: Whole | None = None
    validation_split: Literal["auto", "random", "last", "own"] = "auto"
    seed: Whole = 0
    devices: str | Whole = "auto"
    workers: Whole | None = None
    storage: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_extensions(cls, value: Any) -> Any:
        return without_extensions(value)

    @property
    def survivors(self) -> int:
        """Number of networks that survive by fitness."""
        return num_survivors(self.retain, self.population)

    @property
    def method_options(self) -> MethodOptions:
        """The options of the search method."""
        return MethodOptions(
            seed=self.seed,
            population=self.population,
            retain=self.retain,
            random_select=self.random_select,
            mutate=self.mutate,
        )

    @property
    def most_generations(self) -> int | None:
        """Maximum number of generations; None if only another limit is set."""
        if self.generations is None and self.trials is None and self.budget is None:
            return DEFAULT_GENERATIONS
        return self.generations

    def changed(self, other: Request) -> list[str]:
        """Return the changed fields, among those that decide which networks are tried."""
        return [
            name
            for name in type(self).model_fields
            if name not in CHANGEABLE and getattr(self, name) != getattr(other, name)
        ]


class SearchOptions(TypedDict, total=False):
    """The fields of a `Request` as arguments of `tarmac.search`, for editors and type checkers."""

    workload: str
    method: str
    generations: int | None
    population: int
    retain: float
    random_select: float
    mutate: float
    trials: int | None
    budget: float | str | None
    space: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]
    objective: str | Sequence[str]
    prune: str
    confirm: int
    epochs: int | None
    monitor: str | None
    patience: int | None
    train_size: int | None
    validation_size: int | None
    validation_split: Literal["auto", "random", "last", "own"]
    seed: int
    devices: str | int
    workers: int | None
    storage: str | None


def study_names() -> tuple[str, ...]:
    """Return the names of the built-in studies."""
    files = resources.files("tarmac.studies").joinpath("studies").iterdir()
    return tuple(sorted(path.name.removesuffix(".yaml") for path in files))


def read_request(source: str | Path, changes: Mapping[str, Any]) -> Request:
    """Read a study file and apply changes.

    Args:
        source: A path that ends in ``.yaml``, ``.yml`` or ``.json``, or one of `study_names`.
        changes: Fields of `Request` that replace the file's; ``space`` is merged.

    Raises:
        RequestError: The file cannot be read or is invalid; with line, column and nearest name.
    """
    document = _document(source)
    if not isinstance(document.value, dict):
        raise RequestError(f"{document.name}:1:1: is not a study, expected keys and values")
    try:
        written = Request.model_validate(document.value)
        _check(written)
    except ValidationError as error:
        raise refuse(document, [*with_own_keys(problems_of(error, document, Request))]) from error
    except FieldError as error:
        raise _located(error, document) from error
    fields = {name: getattr(written, name) for name in written.model_fields_set}
    values = {**fields, **changes, "space": {**written.space, **changes.get("space", {})}}
    dataset = make_request(values).space.get("dataset")
    on_it = {} if dataset is None else written.datasets.get(str(dataset.fixed), {})
    values["space"] = {**written.space, **on_it, **changes.get("space", {})}
    values["workload"] = _beside(str(source), str(values["workload"]))
    return make_request(values)


def read_space(path: Path) -> dict[str, ParameterText]:
    """Read a file of parameters: the content of ``space`` in a study file.

    Raises:
        RequestError: The file cannot be read, or a parameter is invalid; with line and column.
    """
    document = read_document(path)
    if not isinstance(document.value, dict):
        raise RequestError(f"{path}:1:1: is not a space, expected parameters and their values")
    if {"workload", "space"} <= document.value.keys():
        raise RequestError(
            f"{path} is a whole study, expected parameters and their values alone",
            hint=f"Run it as one: tarmac search {quoted(path)}",
        )
    try:
        return _SpaceFile.model_validate(without_extensions(document.value)).root
    except ValidationError as error:
        problems = with_own_keys(problems_of(error, document, _SpaceFile))
        raise refuse(document, [*problems]) from error


class _SpaceFile(RootModel[dict[str, ParameterText]]):
    """A file with parameters only."""


def make_request(fields: Mapping[str, Any]) -> Request:
    """Build a request and check it.

    Args:
        fields: Fields of the `Request`, by name.

    Raises:
        RequestError: A field is unknown, has another type, or has an invalid value.
    """
    try:
        request = Request.model_validate(dict(fields))
    except ValidationError as error:
        problems = problems_of(error, Document("", dict(fields), {}, {}), Request)
        lines = [
            f"{problem.path}: {problem.message}{problem.hint}".removeprefix(": ")
            for problem in problems
        ]
        raise RequestError(lines[0], hint="\n".join(lines[1:]) or None) from error
    _check(request)
    return request


def request_of(what: str | Path, fields: Mapping[str, Any]) -> Request:
    """Build a request from a workload's name, a study's name or a study file.

    Raises:
        RequestError: The file cannot be read, or the request is invalid.
    """
    if is_file(what):
        return read_request(what, fields)
    return make_request({**fields, "workload": str(what)})


def is_file(what: str | Path) -> bool:
    """Return whether a name is a study file's: the user's file or a built-in study."""
    return str(what).endswith((".yaml", ".yml", ".json")) or str(what) in study_names()


def locate(error: FieldError, source: str | Path, changes: Mapping[str, Any]) -> RequestError:
    """Add the position in the study file to an error, if the field's value is from the file.

    Args:
        error: Error that names the field's path.
        source: The file, or one of `study_names`.
        changes: Fields that replace the file's, as for `read_request`.
    """
    field, *inner = error.path
    if field in changes and (field != "space" or not inner or inner[0] in changes["space"]):
        return error
    document = _document(source)
    return _located(error, document) if error.path in document.places else error


def _document(source: str | Path) -> Document:
    if str(source) not in study_names():
        return read_document(Path(source))
    path = resources.files("tarmac.studies").joinpath("studies", f"{source}.yaml")
    with resources.as_file(path) as file:
        return read_document(file)


def _located(error: FieldError, document: Document) -> RequestError:
    problem = Problem(document.place_of(error.path), ".".join(error.path), error.message)
    refusal = refuse(document, [problem])
    return RequestError(refusal.message, hint=error.hint)


def _beside(source: str, workload: str) -> str:
    """Resolve the path of a workload's file relative to the study file."""
    path, separator, attribute = workload.rpartition(":")
    beside = Path(source).parent / path
    return f"{beside}:{attribute}" if separator and beside.is_file() else workload


def _check(request: Request) -> None:
    lowest = {
        "generations": 1,
        "population": 2,
        "trials": 1,
        "confirm": 0,
        "epochs": 1,
        "patience": 1,
        "train_size": 1,
        "validation_size": 1,
        "seed": 0,
        "workers": 1,
    }
    for name, least in lowest.items():
        value = getattr(request, name)
        if value is not None and value < least:
            raise FieldError((name,), f"{name} is {value}, expected at least {least}")
    for name in ("retain", "random_select", "mutate"):
        value = getattr(request, name)
        if not 0 <= value <= 1:
            raise FieldError((name,), f"{name} is {value:g}, expected 0 to 1")
    if request.budget is not None and request.budget <= 0:
        raise FieldError(("budget",), f"budget is {request.budget:g} s, expected above 0")
    # The samplers load Optuna, which takes a second.
    from tarmac.studies.methods.pruning import find_rule  # noqa: PLC0415 - see above
    from tarmac.studies.methods.registry import find_method  # noqa: PLC0415 - see above

    find_rule(request.prune)
    find_method(request.method).check_options(request.method_options)
    first = request.objective[0].partition(":")[0] if request.objective else ""
    if request.prune != "none" and len(request.objective) > 1:
        raise FieldError(
            ("prune",),
            f"prune is {request.prune} and there are {len(request.objective)} objectives: "
            "pruning needs a single one",
            hint="Leave out --prune, or name one objective.",
        )
    if request.prune != "none" and first in COSTS:
        raise FieldError(
            ("prune",),
            f"prune is {request.prune} and the objective {first}: pruning needs a metric on "
            "held-out samples",
            hint="Leave out --prune, or name a metric such as val_loss.",
        )
