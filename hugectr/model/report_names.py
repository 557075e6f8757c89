# SPDX-License-Identifier: Apache-2.0
"""What categories are called in a report."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hugectr.analysis.fields import Feature, features_of, single_keys
from hugectr.data.arrays import MemoryDataset
from hugectr.data.schema.fields import CategoricalField
from hugectr.data.schema.keys import FieldKeys
from hugectr.data.schema.schema import Schema
from hugectr.data.schema.sources import open_source

#: Rows in which names are looked for: what is frequent is among them.
_ROWS = 65_536


class CategoryNames:
    """Keys by name, where somebody knows them: the schema's vocabulary, or own data.

    Parameters
    ----------
    schema : Schema or None
        None: keys are their own names.
    raw
        What the schema encodes; None: nothing.
    """

    def __init__(self, schema: Schema | None, raw: Any) -> None:
        self._schema, self._raw = schema, raw
        self._samples: MemoryDataset | None = None
        self._known: dict[str, dict[int, str]] = {}

    def name(self, feature: Feature, key: int) -> str:
        """Of a category of a field."""
        if self._schema is None:
            return str(key)
        fields = {field.name: field for field in self._schema.of_kind(CategoricalField)}
        special = FieldKeys.of(fields[feature.name].owner, self._schema.seed)
        if key == special.missing:
            return "(missing)"
        if key == special.rare:
            return "(rare or new)"
        try:
            return str(self._schema.value_of(feature.name, key))
        except ValueError:  # no vocabulary
            pass
        if self._raw is None:
            return f"key {key:#x}"
        if feature.name not in self._known:
            self._known[feature.name] = self._names_of(feature.name)
        return self._known[feature.name].get(key, f"key {key:#x}")

    def _names_of(self, column: str) -> dict[int, str]:
        assert self._schema is not None
        if self._samples is None:
            self._samples = next(self._schema.encode_batches(self._raw, _ROWS, labels=False))
        own = {feature.name: feature for feature in features_of(self._samples, self._schema)}
        keys = single_keys(self._samples, own[column])
        assert keys is not None, "a slice has one key a sample"
        tables = open_source(self._raw).tables([column])
        values = chain.from_iterable(table[column].to_pylist() for table in tables)
        first = dict(zip((int(key) for key in keys), values, strict=False))
        return {key: str(value) for key, value in first.items()}
