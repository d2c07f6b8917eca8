"""What is asked of a search, from a file, from the command line or from Python."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
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
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

# What a resumed study may be given anew; all else decides which networks it tries.
CHANGEABLE = {"confirm", "generations", "trials", "budget", "devices", "workers", "storage"}


# Of an evolution where nothing else ends it; other methods train as many networks.
DEFAULT_GENERATIONS = 10


def _names(value: Any) -> Any:
    """Let one text stand for several names."""
    return tuple(value.split(",")) if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    return None if value is None else parse_seconds(value)


class _Forms:
    """Says in a schema in which forms a file may have a parameter; `ParameterText` reads them."""

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
    """Everything that was asked of a search.

    Attributes:
        workload: What is trained: a name, or ``path/to/file.py:attribute``.
        method: ``evolve``, ``brute``, ``random``, ``tpe``, ``cmaes``, ``nsga2``, or one that an
            installed package provides; see `tarmac.studies.method_names`.
        generations: The evolution ends after so many; 10 where neither ``trials`` nor ``budget``
            ends it. Other methods train as many networks as so many populations have.
        population: Networks in a generation, survivors of earlier ones included.
        retain: The share of a population that survives, by fitness.
        random_select: The probability with which each of the others survives too.
        mutate: The probability with which a child has one gene changed.
        trials: The search ends after so many trainings; None for no such end.
        budget: It ends after so many seconds of work, in all sessions; None for no such end.
        space: What is searched over, and what is fixed.
        datasets: For a dataset, what differs in ``space`` on it.
        objective: What counts, on held-out data; the first decides which network wins. By default
            what the workload is judged by. A metric of which nobody says which end is better ends
            in ``:max`` or ``:min``.
        prune: Whether losers stop early: ``none``, ``halving``, ``median``, or a rule that an
            installed package provides.
        confirm: How many of the best are trained from two more seeds before one is the winner.
        epochs: Each network trains at most so long; by default as long as its workload's recipe.
        monitor: Metric on held-out data that ``patience`` goes by, and the objective where none is
            named; ``NAME:max`` or ``NAME:min`` where nobody says which end is better. By default
            the first objective where it is a metric, else what the workload is judged by.
        patience: It stops once ``monitor`` has not got better for so many epochs.
        train_size: How many samples to train on; all that are not held out by default.
        validation_size: How many samples to hold out; by default the dataset's own validation
            samples, or one for every five to train on, at most 10,000.
        validation_split: How samples are held out, the same for all networks: ``random``, drawn by
            the seed, each class by its share; ``last``; ``own``, the dataset's own validation
            samples; ``auto``: ``own``, else ``last`` for a series, else ``random``.
        seed: Seed of the search and of every training in it. Default 0.
        devices: Devices to train on, as `tarmac.machine.find_devices` takes them. Default ``auto``.
        workers: Processes that train at the same time; by default as many as suit the devices.
        storage: An Optuna URL; by default a journal in the study's directory.
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
        """How many networks survive by their fitness."""
        return num_survivors(self.retain, self.population)

    @property
    def method_options(self) -> MethodOptions:
        """What is said to the method."""
        return MethodOptions(
            seed=self.seed,
            population=self.population,
            retain=self.retain,
            random_select=self.random_select,
            mutate=self.mutate,
        )

    @property
    def most_generations(self) -> int | None:
        """Generations after which the search ends; None where something else ends it."""
        if self.generations is None and self.trials is None and self.budget is None:
            return DEFAULT_GENERATIONS
        return self.generations

    def changed(self, other: Request) -> list[str]:
        """Return the fields that decide which networks are tried and differ from another's."""
        return [
            name
            for name in type(self).model_fields
            if name not in CHANGEABLE and getattr(self, name) != getattr(other, name)
        ]


def study_names() -> tuple[str, ...]:
    """Return the names of the studies that come with Tarmac."""
    files = resources.files("tarmac.studies").joinpath("studies").iterdir()
    return tuple(sorted(path.name.removesuffix(".yaml") for path in files))


def read_request(source: str | Path, changes: Mapping[str, Any]) -> Request:
    """Read a study's file and change what was asked for beside it.

    Args:
        source: A path that ends in ``.yaml``, ``.yml`` or ``.json``, or one of `study_names`.
        changes: Fields of `Request`; those of ``space`` are added to the file's.

    Raises:
        RequestError: The file cannot be read or is no study; with line, column and nearest name.
    """
    document = _document(source)
    if not isinstance(document.value, dict):
        raise RequestError(f"{document.name}:1:1: is no study, expected keys and values")
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
    """Read a file of parameters: what stands under ``space`` in a study's file.

    Raises:
        RequestError: The file cannot be read, or a parameter is wrong; with line and column.
    """
    document = read_document(path)
    if not isinstance(document.value, dict):
        raise RequestError(f"{path}:1:1: is no space, expected parameters and their values")
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
    """Check what was asked.

    Args:
        fields: Fields of the `Request`, by name.

    Raises:
        RequestError: A field is unknown, of another type, or cannot be what it is.
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


def is_file(what: str | Path) -> bool:
    """Whether a study is read from a file: the user's or one that comes with Tarmac."""
    return str(what).endswith((".yaml", ".yml", ".json")) or str(what) in study_names()


def locate(error: FieldError, source: str | Path, changes: Mapping[str, Any]) -> RequestError:
    """Say where in a study's file a field is; return the error where its value is not from there.

    Args:
        error: Error that names the field's path.
        source: The file, or one of `study_names`.
        changes: What was asked for beside it, as `read_request` takes it.
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
    """Find a workload's file from the directory of the study's file."""
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
    # Its samplers load Optuna, which takes a second.
    from tarmac.studies.methods.pruning import find_rule  # noqa: PLC0415 - see above
    from tarmac.studies.methods.registry import find_method  # noqa: PLC0415 - see above

    find_rule(request.prune)
    find_method(request.method).check_options(request.method_options)
    first = request.objective[0].partition(":")[0] if request.objective else ""
    if request.prune != "none" and len(request.objective) > 1:
        raise FieldError(
            ("prune",),
            f"prune is {request.prune} and there are {len(request.objective)} objectives: "
            "losers are known by one",
            hint="Leave out --prune, or name one objective.",
        )
    if request.prune != "none" and first in COSTS:
        raise FieldError(
            ("prune",),
            f"prune is {request.prune} and the objective {first}: losers are known by their "
            "validation",
            hint="Leave out --prune, or name a metric such as val_loss.",
        )
