"""``tarmac data``: list, fetch, add and verify datasets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
import cloup

from tarmac.cli.completion import complete_datasets
from tarmac.cli.options import Filename, Group, examples, json_option, option
from tarmac.errors import RequestError, TarmacError
from tarmac.wording import counted, in_lines


@click.group(
    "data",
    cls=Group,
    epilog=examples(
        "tarmac data list",
        "tarmac data fetch mnist",
        "tarmac data add mnist --from /mnt/usb/mnist",
        "tarmac data verify",
    ),
)
def command() -> None:
    """List, fetch, add and verify datasets.

    Datasets are stored under TARMAC_DATA, by default in the user's cache directory. TARMAC_MIRROR
    names a mirror of your own, which is tried first.
    """


@command.command("list", epilog=examples("tarmac data list --json"))
@json_option()
def list_datasets(as_json: bool) -> None:
    """List the datasets and whether they are on this machine."""
    from rich.table import Table

    from tarmac import data
    from tarmac.cli.console import make_console

    statuses = data.describe()
    if as_json:
        rows = [
            {
                "name": status.name,
                "summary": status.summary,
                "homepage": status.homepage,
                "num_train": status.num_train,
                "num_test": status.num_test,
                "sample_shape": None if status.sample_shape is None else list(status.sample_shape),
                "state": status.state,
                "path": None if status.path is None else str(status.path),
            }
            for status in statuses
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("dataset", "", "train", "test", "sample", "state", box=None, pad_edge=False)
    for status in statuses:
        table.add_row(
            status.name,
            status.summary,
            "-" if status.num_train is None else f"{status.num_train:,}",
            "-" if status.num_test is None else f"{status.num_test:,}",
            "-" if status.sample_shape is None else "x".join(map(str, status.sample_shape)),
            status.state,
        )
    make_console().print(table)
    click.echo(f"under {data.data_root()}")


@command.command(epilog=examples("tarmac data fetch mnist cifar10"))
@cloup.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=complete_datasets,
    help="Names from tarmac data list.",
)
@json_option()
def fetch(names: Sequence[str], as_json: bool) -> None:
    """Download datasets and verify their files.

    Files that are on this machine and correct are not downloaded again.
    """
    from tarmac import data
    from tarmac.cli.views.download import download_progress

    fetched = {}
    for name in names:
        with download_progress(quiet=as_json) as progress:
            fetched[name] = str(data.fetch(name, progress=progress))
        if not as_json:
            click.echo(f"{name} is in {fetched[name]}")
    if as_json:
        click.echo(json.dumps(fetched, indent=2))


class Size(click.ParamType):  # type: ignore[type-arg]
    """Width and height, such as ``224x224``."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return width and height, or fail."""
        width, x, height = str(value).partition("x")
        if not (x and width.isdecimal() and height.isdecimal()):
            self.fail(f"{value!r} is not a size, expected WIDTHxHEIGHT such as 224x224", param, ctx)
        return int(width), int(height)


@command.command(
    epilog=examples(
        "tarmac data add mnist --from /mnt/usb/mnist",
        "tarmac data add flowers --from flowers --size 64x64",
        "tarmac data add houses --from houses.csv --target price --drop id",
        "tarmac data add digits2 --from digits.npz",
    )
)
@cloup.argument(
    "name",
    metavar="NAME",
    shell_complete=complete_datasets,
    help="A name from tarmac data list, or a new one for data of your own.",
)
@cloup.option_group(
    "Source",
    option(
        "--from",
        "origin",
        metavar="PATH",
        required=True,
        type=Filename(path_type=Path),
        help="Directory with a published dataset's files; or your own .csv, .tsv, "
        ".parquet or .npz file, or a folder with a folder of images for each class.",
    ),
    option(
        "--test",
        metavar="PATH",
        type=Filename(path_type=Path),
        help="Test samples, in the same form. Default: those of the .npz or folder, else"
        " a share of the samples.",
    ),
    option(
        "--test-share",
        metavar="SHARE",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.2,
        show_default=True,
        help="Share of the samples to hold out as the test set.",
    ),
    option("--replace", is_flag=True, help="Replace your own dataset of that name."),
)
@cloup.option_group(
    "Tables",
    option(
        "--target",
        "targets",
        metavar="COLUMN",
        multiple=True,
        help="Column to predict; several columns of values as a,b or repeated. Text and "
        "whole numbers are classes. All other columns are inputs.",
    ),
    option("--values", is_flag=True, help="Read whole numbers as values, not as classes."),
    option(
        "--classes",
        is_flag=True,
        help="Read numbers as classes, also 1.0 or very many different ones.",
    ),
    option("--weights", metavar="COLUMN", help="Column with the weight of each sample."),
    option(
        "--drop", "dropped", metavar="COLUMNS", multiple=True, help="Leave out columns: a or a,b."
    ),
    option(
        "--categorical",
        metavar="COLUMNS",
        multiple=True,
        help="Replace columns by a column of 0 and 1 for each value: a or a,b.",
    ),
    option(
        "--fill",
        metavar="median|mean|VALUE",
        help="Replace missing numbers by a value; median and mean are those of the training rows.",
    ),
)
@cloup.option_group(
    "Images",
    option(
        "--size",
        metavar="WxH",
        type=Size(),
        help="Scale all images to cover this size, and crop around the centre. Needed if"
        " their sizes differ.",
    ),
    option("--grey", is_flag=True, help="Keep only the brightness, one value per pixel."),
)
@json_option()
def add(
    name: str,
    origin: Path,
    test: Path | None,
    test_share: float,
    replace: bool,
    targets: tuple[str, ...],
    values: bool,
    classes: bool,
    weights: str | None,
    dropped: tuple[str, ...],
    categorical: tuple[str, ...],
    fill: str | None,
    size: tuple[int, int] | None,
    grey: bool,
    as_json: bool,
) -> None:
    """Import a dataset: a published one from a directory, or data of your own.

    The dataset is stored under TARMAC_DATA, completely or not at all. Data of your own are stored
    as arrays.
    """
    from tarmac import data

    if name in data.SOURCES or name in data.INCLUDED:
        options = {
            "--test": test,
            "--replace": replace,
            "--target": targets,
            "--values": values,
            "--classes": classes,
            "--weights": weights,
            "--drop": dropped,
            "--categorical": categorical,
            "--fill": fill,
            "--size": size,
            "--grey": grey,
        }
        for key, value in options.items():
            if value:
                raise RequestError(
                    f"{key} is only for your own data, but {name} is a published dataset",
                    hint="Choose another name for yours.",
                )
        path = data.add(name, origin)
        click.echo(json.dumps({name: str(path)}, indent=2) if as_json else f"{name} is in {path}")
        return
    taking = data.Taking(
        test=test,
        test_share=test_share,
        columns=data.TableColumns(
            targets=targets,
            weights=weights,
            dropped=dropped,
            categorical=categorical,
            fill=fill,
            as_values=values,
            as_classes=classes,
        ),
        size=size,
        grey=grey,
        replace=replace,
    )
    root = data.data_root()
    record = data.take_over(name, origin, taking, root)
    if as_json:
        stored = record.model_dump(mode="json") | {"notes": [*record.notes]}
        click.echo(json.dumps({name: str(root / name), **stored}, indent=2))
        return
    click.echo(f"{name} is in {root / name}")
    shape = "x".join(map(str, record.sample_shape)) or "1"
    click.echo(
        f"{counted(record.train.num_samples, 'sample')} to train on, "
        f"{record.test.num_samples:,} to score: {shape}, {record.summary}"
    )
    for folder in record.left_out:
        click.echo(
            in_lines(f"left out: {folder} (choose the test samples with --test FOLDER)"), err=True
        )
    for note in record.notes:
        click.echo(in_lines(f"note: {note}"), err=True)


@command.command(epilog=examples("tarmac data verify", "tarmac data verify mnist --json"))
@cloup.argument(
    "names",
    nargs=-1,
    metavar="[NAME]...",
    shell_complete=complete_datasets,
    help="Names from tarmac data list; all that are here if none is named.",
)
@json_option()
def verify(names: Sequence[str], as_json: bool) -> None:
    """Verify the files of datasets."""
    from tarmac import data

    dataset_names = names or [s.name for s in data.describe() if s.state in ("present", "partial")]
    checked = {name: data.verify(name) for name in dataset_names}
    if as_json:
        rows = {
            name: [{"file": f.name, "ok": f.ok, "reason": f.reason} for f in files]
            for name, files in checked.items()
        }
        click.echo(json.dumps(rows, indent=2))
    else:
        if not checked:
            click.echo(f"there is no dataset under {data.data_root()}")
        for name, files in checked.items():
            if not files:
                click.echo(f"{name}: embedded, nothing to check")
            for file in files:
                click.echo(f"{name}: {file.name}: {file.reason or 'ok'}")
    wrong = [name for name, files in checked.items() if not all(file.ok for file in files)]
    if wrong:
        raise TarmacError(
            f"not right: {', '.join(wrong)}", hint=f"Fetch it again: tarmac data fetch {wrong[0]}"
        )
