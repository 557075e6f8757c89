# SPDX-License-Identifier: Apache-2.0
"""Labels that float32 does not tell apart, such as seconds since 1970, are predicted as learnt."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hugectr import CTRRegressor
from hugectr.command.cli import main

RNG = np.random.default_rng(0)
A = RNG.normal(size=1000)
FRAME = {"a": A}
#: Steps of float32 are 128 there.
SECONDS = 1.7e9 + 50.0 * A + RNG.normal(size=1000)


@pytest.fixture(scope="module")
def fitted() -> CTRRegressor:
    return CTRRegressor(random_state=1).fit(FRAME, SECONDS)


def test_predictions_are_float64(fitted: CTRRegressor) -> None:
    found = fitted.predict(FRAME)
    assert found.dtype == np.float64
    assert len(np.unique(found)) > 900
    assert fitted.score(FRAME, SECONDS) > 0.99
    assert fitted.evaluate(FRAME, SECONDS)["RMSE"] < 5.0


def test_the_command_writes_them_as_they_are(fitted: CTRRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    rows = "".join(f"{value!r}\n" for value in A.tolist())
    (tmp_path / "rows.csv").write_text("a\n" + rows)
    for kind in ("csv", "parquet"):
        out = str(tmp_path / f"out.{kind}")
        words = ["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv"), "-o", out]
        assert main(words) == 0
    wanted = fitted.predict(FRAME)
    column = pq.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    np.testing.assert_allclose(column, wanted, rtol=1e-12)
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    np.testing.assert_allclose(np.array(lines, float), wanted, rtol=1e-12)
