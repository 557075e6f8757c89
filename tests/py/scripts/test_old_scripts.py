# SPDX-License-Identifier: Apache-2.0
"""Scripts and configs as users of earlier versions wrote them run as they are, and learn."""

import math
import re
import runpy
import shutil
from pathlib import Path

import pytest
from oracle.generated_model import auto_is_the_cpu

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.command.huge_ctr import main as huge_ctr
from hugectr.spec.enums import DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

__all__ = ["auto_is_the_cpu"]

OLD = Path(__file__).with_name("old")
#: Folder, format, names of the sets, slots, keys of a slot, dense features, how Raw numbers are.
DATA = (
    ("norm", "Norm", ("file_list.txt", "file_list_test.txt"), 26, (), 13, True),
    ("parquet", "Parquet", ("train", "val"), 26, (), 13, True),
    ("raw", "Raw", ("train.bin", "val.bin"), 26, (), 13, False),
    ("multi_hot", "Raw", ("train.bin", "val.bin"), 4, (3, 1, 2, 1), 3, True),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data and the configs that the scripts name."""
    place = tmp_path_factory.mktemp("scripts")
    for name, form, sets, slots, nnz, dense, floats in DATA:
        source, eval_source = (str(place / name / one) for one in sets)
        DataGenerator(
            DataGeneratorParams(
                DataReaderType_t[form],
                label_dim=1,
                dense_dim=dense,
                num_slot=slots,
                i64_input_key=form == "Parquet",
                source=source,
                eval_source=eval_source,
                slot_size_array=[20] * slots,
                nnz_array=nnz,
                num_files=4,
                eval_num_files=1,
                num_samples_per_file=512,
                num_samples=2048,
                eval_num_samples=512,
                float_label_dense=floats,
                planted_signal=True,
                seed=7,
            )
        ).generate(progress=False, processes=1)
    for file in OLD.glob("*.json"):
        shutil.copy(file, place)
    return place


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    """Scripts are run where their data is, and norm files lie by paths from there."""
    monkeypatch.chdir(folder)
    forget_warnings()


@pytest.mark.parametrize("name", sorted(path.name for path in OLD.glob("*.py")))
def test_a_script_runs_unmodified_and_learns(name):
    if "mpi4py" in (OLD / name).read_text():
        pytest.importorskip("mpi4py")
    left = runpy.run_path(str(OLD / name), run_name="__main__")
    model = left["model"]
    assert math.isfinite(model.get_current_loss())
    assert model.evaluate()["AUC"] > 0.6


@pytest.mark.parametrize(
    ("name", "ignored"),
    [("criteo_v23.json", "enable_overlap"), ("dlrm_v30.json", "grouped_all_reduce")],
)
def test_a_config_is_trained_by_huge_ctr(capsys, name, ignored):
    assert huge_ctr(["--train", name]) == 0
    text = capsys.readouterr()
    assert "Finish 60 iterations with batchsize: 128" in text.out
    assert text.err.count(f"{ignored} is accepted and has no effect") == 1
    losses = [float(found) for found in re.findall(r"Iter: .* Loss: (\S+)", text.out)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (["--version"], 0, f"hugectr {hugectr.__version__}"),
        (["--help"], 0, "usage: huge_ctr --train"),
        ([], 2, "usage: huge_ctr --train"),
        (["--train"], 2, "usage: huge_ctr --train"),
    ],
)
def test_what_else_huge_ctr_takes(capsys, arguments, status, word):
    assert huge_ctr(arguments) == status
    text = capsys.readouterr()
    assert word in (text.out if status == 0 else text.err)
