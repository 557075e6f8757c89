# SPDX-License-Identifier: Apache-2.0
"""Labels that are infinite or NaN are refused with their row, whatever way they are given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor

FRAME = {"x": np.arange(80) % 7 / 7}
LABEL = (np.arange(80) % 2).astype(float)


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_both_ways(kind: Any, bad: float, objects: bool) -> None:
    label: Any = LABEL.copy()
    label[3] = bad
    if objects:
        label = label.astype(object)
    said = f"y contains {'NaN' if np.isnan(bad) else 'infinity'} .row 3"
    with pytest.raises(hugectr.InvalidArgument, match=rf"{kind.__name__}.fit: {said}"):
        kind(epochs=1).fit(FRAME, label)
    named = {**FRAME, "y": label}
    if np.isnan(bad):  # a gap of the column
        with pytest.raises(hugectr.DataError, match="'y' is missing in row 3"):
            kind(epochs=1).fit(named, "y")
        return
    with pytest.raises(hugectr.InvalidArgument, match=rf"{kind.__name__}.fit: {said}"):
        kind(epochs=1).fit(named, "y")


def test_the_file_of_several_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / f"{part}.csv" for part in range(2)]
    for path in paths:
        path.write_text("x,y\n" + "".join(f"{i % 9},{i % 2}.0\n" for i in range(60)))
    paths[1].write_text("x,y\n1,1.0\n2,0.0\n3,inf\n")
    with pytest.raises(hugectr.InvalidArgument, match=r"1\.csv'?: y contains infinity .row 2"):
        CTRClassifier(epochs=1).fit([str(path) for path in paths], "y")


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_what_is_masked_is_no_label_and_no_weight(kind: Any) -> None:
    masked = np.ma.masked_array(LABEL, np.arange(80) == 5)
    with pytest.raises(hugectr.InvalidArgument, match=r"fit: y has 1 missing value .in row 5"):
        kind(epochs=1).fit(FRAME, masked)
    weights = np.ma.masked_array(np.ones(80), np.arange(80) % 40 == 7)
    said = r"fit: sample_weight has 2 missing values .the first in row 7"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        kind(epochs=1).fit(FRAME, LABEL, sample_weight=weights)
    kind(epochs=1).fit(FRAME, np.ma.masked_array(LABEL), np.ma.masked_array(np.ones(80)))
