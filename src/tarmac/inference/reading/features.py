"""The mapping from a sample's named values to a model's features.

`tarmac data add --categorical street` turns a column ``street`` into the features ``street=High``
and ``street=Low``. A sample may have the column or the features.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from tarmac.errors import RequestError
from tarmac.inference.parts import misfit

_MAX_NAMED = 8


@dataclasses.dataclass(frozen=True)
class Feature:
    """The source of a feature in a sample.

    Attributes:
        source: Name of the sample's value.
        categories: Categories that the value may have, if it is categorical. An empty value is none
            of them.
        category: Category for which the feature is 1; any other gives 0.
    """

    source: str
    categories: tuple[str, ...] = ()
    category: str = ""

    def of_category(self, value: object, where: str) -> int:
        """Return the feature, 0 or 1, of a categorical value.

        Raises:
            RequestError: The value is not a category of the training data.
        """
        text = "" if value is None else str(value).strip()
        if text not in self.categories:
            text = next((known for known in self.categories if _is_same(text, known)), text)
        if text and text not in self.categories:
            known = ", ".join(self.categories[:_MAX_NAMED])
            more = ", ..." if len(self.categories) > _MAX_NAMED else ""
            raise RequestError(
                f"{where}: {self.source} is {text!r}, expected one of {known}{more}",
                hint="Leave missing values empty.",
            )
        return int(text == self.category)


def _is_same(text: str, category: str) -> bool:
    """Return whether a text is a category: ``true`` and ``1.50`` match ``True`` and ``1.5``."""
    if text == category or category in ("True", "False"):
        return text.lower() == category.lower()
    try:
        return float(text) == float(category)
    except ValueError:
        return False


def features_in(names: Collection[str], features: Sequence[str], where: str) -> list[Feature]:
    """Return the source of each feature in samples with named values.

    Args:
        names: The names of a sample's values.
        features: The model's features, in its order.
        where: Beginning of error messages: the file and the line.

    Raises:
        RequestError: A name is missing, or the model does not have it.
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
            # If none of a column's categories is present, the column itself is missing.
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
