# SPDX-License-Identifier: Apache-2.0
"""The schema of what an estimator is trained on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from hugectr.base import log
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.data.schema import IgnoredField, LabelField, Schema
from hugectr.estimator.features import Features


def check_schema(where: str, schema: Any) -> str:
    """The name of the label of a user's schema."""
    if not isinstance(schema, Schema):
        raise rejected(f"{where}: schema", schema, "a hugectr.data.Schema, or None")
    labels = schema.of_kind(LabelField)
    if len(labels) != 1:
        raise InvalidArgument(
            f"{where}: schema has {len(labels)} label fields; give it one LabelField"
        )
    return labels[0].name


def inferred(
    training: Features, label: str, schema: Schema | None, roles: Mapping[str, Any]
) -> Schema:
    """A fitted schema of training data; a user's own is not changed.

    Parameters
    ----------
    training : Features
        With the column of the label.
    label : str
    schema : Schema or None
        With fields, not fitted.
    roles : mapping
        Arguments of ``Schema.infer``, of which some name columns.
    """
    with training.rows_as_given():
        return _inferred(training, label, schema, roles)


def _inferred(
    training: Features, label: str, schema: Schema | None, roles: Mapping[str, Any]
) -> Schema:
    if schema is not None:
        return Schema(schema.fields, seed=schema.seed).fit(training.source)
    if training.array:
        table, dense = training.table, list(roles["dense"])
        named = {*roles["categorical"], *dense, *roles["ignore"], label}
        dense += [n for n in table.column_names if n not in named and _number(table, n)]
        roles = {**roles, "dense": dense}
    return Schema.infer(training.source, label=label, **roles)


def left_out(schema: Schema, said: Collection[str]) -> dict[str, str]:
    """Columns that are no features, and why, but those that somebody ``said`` are none."""
    ignored = schema.of_kind(IgnoredField)
    return {field.name: field.reason for field in ignored if field.name not in said}


def tell_unused(where: str, schema: Schema, said: Collection[str]) -> None:
    """Warn of the columns that are no features, of all in one line, but those that were said."""
    found = left_out(schema, said)
    reasons = [f"column {name!r} ({reason})" for name, reason in found.items()]
    if reasons:
        log.warning(f"{where}: not used: {', '.join(reasons)}")


def _number(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
