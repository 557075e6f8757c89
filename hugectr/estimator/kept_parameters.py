# SPDX-License-Identifier: Apache-2.0
"""Parameters of an estimator as JSON and back: what a saved one keeps of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hugectr.base.errors import DataError
from hugectr.data.schema import Schema
from hugectr.data.schema.storage import DESCRIPTION, content, restored, to_json

#: Parameters as they are; those whose keys are numbers, which JSON's are not, as pairs; a schema.
PLAIN, PAIRS, SCHEMA = "params", "params_of_pairs", "schema_param"
#: Arrays whose values are numbers, text or Python's own.
_KINDS = "biufUTO"


class _NoJson(Exception):
    """A value that JSON has no like of."""


def described(params: Mapping[str, Any], of_model: Schema) -> tuple[dict[str, Any], list[str]]:
    """The part of a description that parameters are, and the names of those it can not hold.

    Parameters
    ----------
    params : mapping
        By name.
    of_model : Schema
        That of the saved model: where it is the parameter ``schema`` too, it is there once.
    """
    kept: dict[str, Any] = {PLAIN: {}, PAIRS: {}, SCHEMA: None}
    lost = []
    for name, value in params.items():
        try:
            if isinstance(value, Schema):
                kept[SCHEMA] = _of_schema(value, of_model)
            elif isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
                kept[PAIRS][name] = [[_scalar(key), _plain(one)] for key, one in value.items()]
            else:
                kept[PLAIN][name] = _plain(value)
        except _NoJson:
            lost.append(name)
    return {name: value for name, value in kept.items() if value or name == PLAIN}, lost


def taken(said: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The parameters of a description; of earlier versions it has plain ones alone.

    A fitted schema is that of the model beside it: ``has_schema_of_model`` says so.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        When it is none.
    """
    found = {
        name: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
        for name, value in said[PLAIN].items()
    }
    for name, pairs in said.get(PAIRS, {}).items():
        found[name] = {_scalar_of(key): value for key, value in pairs}
    schema = said.get(SCHEMA)
    if schema is not None and not has_schema_of_model(said):
        files = {DESCRIPTION: schema["text"].encode()}
        try:
            found["schema"] = restored("the parameter schema", files)
        except DataError as error:  # who reads the file names it
            raise ValueError(f"{error}") from error
    return {name: value for name, value in found.items() if name in known}


def has_schema_of_model(said: Mapping[str, Any]) -> bool:
    """Whether the parameter ``schema`` was the fitted one of the model."""
    schema = said.get(SCHEMA)
    return schema is not None and schema["fitted"] is True


def _of_schema(schema: Schema, of_model: Schema) -> dict[str, Any]:
    if not schema.fitted:
        try:
            return {"fitted": False, "text": to_json(schema)}
        except (TypeError, ValueError):
            raise _NoJson from None
    if content(schema) != content(of_model):  # a later one: its arrays are in no file
        raise _NoJson
    return {"fitted": True}


def _scalar_of(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"a class can not be {value!r:.80}")
    return value


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise _NoJson
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _NoJson


def _plain(value: Any) -> Any:
    """As JSON has it; NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise _NoJson
        return {key: _plain(one) for key, one in value.items()}
    return _scalar(value)
