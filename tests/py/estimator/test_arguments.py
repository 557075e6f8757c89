# SPDX-License-Identifier: Apache-2.0
"""Arguments of the estimators that can not be, named with what they may be."""

from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier

FRAME = {"city": ["Rome", "Oslo"] * 20, "x": np.arange(40) % 7 / 7}
LABEL = [0, 1, 1, 0] * 10
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,)}


class NAType:
    """As the gap of pandas: a comparison with it has no truth."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"model": ["fm"]}, "model: found ..fm..*one of"),
        ({"hidden": 7}, "hidden: found 7, allowed: a list of integers"),
        ({"categorical": 7}, r"CTRClassifier.fit: categorical: found 7.*list of strings"),
        ({"dense": [7]}, r"CTRClassifier.fit: dense\[0\]: found 7"),
        ({"ignore": 0.5}, r"CTRClassifier.fit: ignore: found 0.5"),
        ({"batch_size": 10**30}, "batch_size: found 10+, allowed: an integer >= 1 of 64 bits"),
    ],
)
def test_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRClassifier(**{**QUICK, **parameters}).fit(FRAME, LABEL)


def test_a_name_alone_is_a_list_of_one() -> None:
    model = CTRClassifier(**QUICK, categorical="x", ignore=np.array(["city"])).fit(FRAME, LABEL)
    kinds = {field.name: type(field).__name__ for field in model.schema_.fields}
    assert kinds["x"] == "CategoricalField"
    assert kinds["city"] == "IgnoredField"


def test_gaps_and_weights_are_named_by_row() -> None:
    model = CTRClassifier(**QUICK)
    with pytest.raises(hugectr.InvalidArgument, match=r"row 4.*drop the rows without label"):
        model.fit(FRAME, np.array([*LABEL[:4], NAType(), *LABEL[5:]], dtype=object))
    with pytest.raises(hugectr.InvalidArgument, match="sample_weight: no numbers"):
        model.fit(FRAME, LABEL, sample_weight=["a"] * 40)
    with pytest.raises(hugectr.InvalidArgument, match=r"sample_weight, row 3: found -1.0"):
        model.fit(FRAME, LABEL, sample_weight=[1.0, 1.0, 1.0, -1.0] * 10)
    fitted = model.fit(FRAME, LABEL)
    with pytest.raises(
        hugectr.InvalidArgument, match="row 0: found 7, allowed: one of the classes"
    ):
        fitted.evaluate(FRAME, np.full(40, 7))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ignore": ["x"]}, "schema and ignore"),
        ({"categorical": "x", "dense": ["city"]}, "schema and categorical and dense"),
        ({"sequences": {"city": None}}, "schema and sequences"),
        ({"group": "city"}, "schema and group"),
    ],
)
def test_a_schema_says_what_columns_are_alone(more: dict[str, Any], said: str) -> None:
    frame = {**FRAME, "y": LABEL}
    schema = hugectr.data.Schema.infer(frame, label="y")
    model = CTRClassifier(**QUICK, schema=schema, **more)  # clone and searches may make it
    with pytest.raises(hugectr.InvalidArgument, match=rf"CTRClassifier.fit: {said}: .*Leave"):
        model.fit(frame, "y")
    model.set_params(**{"group": None, **{name: () for name in more if name != "group"}})
    model.fit(frame, "y")
