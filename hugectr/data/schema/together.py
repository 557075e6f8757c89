# SPDX-License-Identifier: Apache-2.0
"""Fields beside one another: what can not be in one schema, and which ones share categories."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.data.schema.encode import ONE_HOT
from hugectr.data.schema.fields import (
    CategoricalField,
    Field,
    GroupField,
    ListField,
    SequenceField,
    WeightField,
)

#: Names of tensors that a model has besides its sparse inputs.
_TAKEN = (ONE_HOT, "label", "dense")


def check_fields(fields: Sequence[Field]) -> None:
    """Whether these can be the fields of a schema.

    Raises
    ------
    InvalidArgument
        When one is no field, a column has two (a GroupField does not count: a user may be a group
        and a category), a role of which there is one has several, or a sequence is the history of
        something that is no category.
    """
    for place, field in enumerate(fields):
        if not isinstance(field, Field) or type(field) is Field:
            allowed = "a field, such as DenseField or CategoricalField"
            raise rejected(f"Schema: fields[{place}]", field, allowed)
    names = [field.name for field in fields if not isinstance(field, GroupField)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"Schema: column {name!r} has two fields; leave one out")
    for kind in (WeightField, GroupField):
        several = [field.name for field in fields if isinstance(field, kind)]
        if len(several) > 1:
            raise rejected(f"Schema: fields of kind {kind.kind}", several, "one of them")
    _check_targets(fields)
    for named in [*(f for f in fields if isinstance(f, ListField)), *shared(fields)]:
        if named.name in _TAKEN:
            what = "list" if isinstance(named, ListField) else "target"
            raise rejected(
                f"Schema: name of a {what}", named.name, f"any but {_TAKEN}; rename the column"
            )


def _targets(fields: Sequence[Field]) -> dict[str, CategoricalField]:
    """What sequences may be the history of."""
    single = (f for f in fields if isinstance(f, CategoricalField) and not isinstance(f, ListField))
    return {field.name: field for field in single}


def _check_targets(fields: Sequence[Field]) -> None:
    known = [*_targets(fields)]
    for history in fields:
        if not isinstance(history, SequenceField) or history.target is None:
            continue
        if history.target not in known:
            near = did_you_mean(history.target, known)
            allowed = f"a CategoricalField of the schema, one of {known}{near}"
            raise rejected(history.where + "target", history.target, allowed)


def shared(fields: Sequence[Field]) -> dict[CategoricalField, list[SequenceField]]:
    """Targets and their histories, which share keys and a sparse input."""
    found: dict[CategoricalField, list[SequenceField]] = {}
    targets = _targets(fields)
    for history in fields:
        if isinstance(history, SequenceField) and history.target is not None:
            found.setdefault(targets[history.target], []).append(history)
    return found


def replaced(fields: Sequence[Field], by: Sequence[Field]) -> list[Field]:
    """Fields of which those with the columns of others are replaced by them.

    Raises
    ------
    InvalidArgument
        When there is no such column.
    """
    found = list(fields)
    for field in by:
        places = [place for place, one in enumerate(found) if one.name == field.name]
        if not places:
            names = [one.name for one in found]
            allowed = f"one of {names}{did_you_mean(field.name, names)}"
            raise rejected("Schema.replace: column", field.name, allowed)
        # Of a column that is a group and a feature the one of the same role.
        same = [p for p in places if isinstance(found[p], GroupField) == (field.kind == "group")]
        found[(same or places)[0]] = field
    return found
