"""Which of a sample's named values gives each of a model's features.

`tarmac data add --categorical street` has made the features ``street=High`` and ``street=Low`` of a
column ``street``: a sample may have either.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.inference.parts import misfit

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_MAX_NAMED = 8


@dataclasses.dataclass(frozen=True)
class Feature:
    """Where a feature is found in a sample.

    Attributes:
        source: The name of the value.
        categories: Those that the value may be, where it is one of a column of categories. An empty
            value is none of them.
        category: The category for which the feature is 1; it is 0 for any other.
    """

    source: str
    categories: tuple[str, ...] = ()
    category: str = ""

    def of_category(self, value: object, where: str) -> int:
        """Return the feature of a value that is a category.

        Raises:
            RequestError: The value is no category that the training data have.
        """
        text = "" if value is None else str(value).strip()
        if text not in self.categories:
            text = next((known for known in self.categories if _is_same(text, known)), text)
        if text and text not in self.categories:
            known = ", ".join(self.categories[:_MAX_NAMED])
            more = ", ..." if len(self.categories) > _MAX_NAMED else ""
            raise RequestError(
                f"{where}: {self.source} is {text!r}, expected one of {known}{more}",
                hint="Where there is no value, leave it empty.",
            )
        return int(text == self.category)


def _is_same(text: str, category: str) -> bool:
    """Whether a text is a category: ``true`` and ``1.50`` of a table are ``True`` and ``1.5``."""
    if text == category or category in ("True", "False"):
        return text.lower() == category.lower()
    try:
        return float(text) == float(category)
    except ValueError:
        return False


def features_in(names: Collection[str], features: Sequence[str], where: str) -> list[Feature]:
    """Return where each feature is found in samples whose values have names.

    Args:
        names: The names of a sample's values.
        features: The model's features, in its order.
        where: What messages begin with: the file and the line.

    Raises:
        RequestError: A name is missing, or is not of the model's.
    """
    columns: dict[str, list[str]] = {}
    for feature in features:
        column, is_category, category = feature.partition("=")
        if is_category and feature not in names:
            columns.setdefault(column, []).append(category)
    matches: list[Feature] = []
    missing: dict[str, None] = {}
    for feature in features:
        column, _, category = feature.partition("=")
        if feature in names:
            matches.append(Feature(feature))
        elif column in columns and column in names:
            matches.append(Feature(column, tuple(columns[column]), category))
        else:
            # Of categories none of which is there it is their column that is missing.
            is_whole = len(columns.get(column, ())) > 1 and not any(
                name.startswith(f"{column}=") for name in names
            )
            missing[column if is_whole else feature] = None
    used = {feature.source for feature in matches}
    unknown = [name for name in names if name not in used]
    if words := misfit([*missing], unknown):
        raise RequestError(
            f"{where}: columns do not fit; {words}",
            hint="Leave out what the model does not take, such as the targets."
            if unknown
            else None,
        )
    return matches
