# SPDX-License-Identifier: Apache-2.0
"""The schema of what an estimator is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.data.schema import LabelField, Schema
from hugectr.data.schema.values import rows_numbered
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
    with rows_numbered(training.row_given):
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


def _number(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
