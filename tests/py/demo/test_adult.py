# SPDX-License-Identifier: Apache-2.0
"""Wide & Deep on real data reaches its target, and its checkpoint gives the identical AUC."""

import io
from functools import partial
from pathlib import Path

import pytest
from oracle.reals import HALVES, Real
from rich.console import Console

import hugectr
from hugectr.data.adult import (
    SLOTS,
    AdultEncoder,
    adult_table,
    write_adult_norm,
)
from hugectr.data.inspect import inspect_norm
from hugectr.demo import TARGET_AUC, run, run_demo
from hugectr.demo.training import train
from hugectr.demo.wide_and_deep import wide_and_deep


def test_target_auc_and_identical_reload(tmp_path: Path) -> None:
    result = run_demo(tmp_path, report=False, device="cpu")
    assert result.epochs <= 12
    assert result.auc >= 0.912 == TARGET_AUC
    assert result.reloaded_auc == result.auc
    # Where it stands on the day this was written is 0.9268; a fall below 0.922 is a fault.
    assert result.auc >= 0.922


def test_norm_files_hold_every_row_and_slots_share_no_key(tmp_path: Path) -> None:
    files = write_adult_norm(tmp_path)
    for path, rows in ((files.train, 32561), (files.test, 16281)):
        report = inspect_norm(path)
        assert report.rows == report.rows_read == rows
        assert len(report.slots) == 1 + len(SLOTS)
        assert report.slots[0].hotness_min == report.slots[0].hotness_max == files.wide_hotness
        assert not any(slot.overlaps for slot in report.slots)
        assert report.bad_checksums == 0
    assert abs(inspect_norm(files.train).label_rate[0] - 0.2408) < 1e-4


def test_categories_the_training_rows_lack_become_other() -> None:
    train = adult_table("train")
    education = train["education"].cast("string").to_pylist()
    encoder = AdultEncoder(train.filter([value != "Bachelors" for value in education]))
    index = encoder.slot_index(train, "education")
    assert all(
        (i == 0) == (value == "Bachelors") for i, value in zip(index, education, strict=True)
    )


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_adult_in_16_bits(real: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_adult_norm(tmp_path)
    make_solver = hugectr.CreateSolver
    reached = []
    for mixed in ({}, {"use_mixed_precision": True, "mixed_precision_type": real.name}):
        scaled = partial(make_solver, scaler=1024, **mixed)
        monkeypatch.setattr(hugectr, "CreateSolver", scaled)
        model = wide_and_deep(files, epochs=5, device="cpu")
        reached.append(train(model, files, epochs=5).auc[-1])
        assert model.skipped_steps() == 0
    print(f"Adult, {real.name}: AUC {reached[1]:.5f}, float32 {reached[0]:.5f}")
    assert reached[0] > 0.915
    assert 0 < abs(reached[1] - reached[0]) <= 0.001


def test_how_to_have_a_report_is_printed_as_it_is_typed(monkeypatch) -> None:
    """The name of the extra is in brackets, which rich would take for markup."""
    error = ImportError("the report needs jinja2: pip install 'hugectr[report]'")

    def missing(*_: object) -> None:
        raise error

    monkeypatch.setattr("hugectr.demo.page.demo_report", missing)
    out = io.StringIO()
    console = Console(file=out, width=40)
    assert run._write_report(Path("x"), None, None, None, {}, console) is None  # type: ignore[arg-type]
    assert out.getvalue() == f"no report: {error}\n"


@pytest.mark.parametrize("name", ["epochs", "devices"])
def test_none_of_it_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; at least 1 is needed"):
        run_demo(tmp_path / "demo", **{name: 0})
    assert not (tmp_path / "demo").exists()
