# SPDX-License-Identifier: Apache-2.0
"""Several label columns out of every format: the same bits, and the right columns."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.data import from_arrays
from hugectr.spec.enums import Check_t, DataReaderType_t, Layer_t, Tensor_t
from hugectr.tools import DataGenerator, DataGeneratorParams

ROWS, DENSE, SIZES = 300, 3, [7, 5]
NAMES = {"Norm": "list.txt", "Raw": "data.bin", "Parquet": "rows"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    for name, file in NAMES.items():
        DataGenerator(
            DataGeneratorParams(
                DataReaderType_t[name],
                label_dim=4,
                dense_dim=DENSE,
                num_slot=len(SIZES),
                i64_input_key=True,
                source=str(folder / name / "train" / file),
                eval_source=str(folder / name / "eval" / file),
                slot_size_array=SIZES,
                check_type=Check_t.Sum,
                num_files=1,
                eval_num_files=1,
                num_samples_per_file=ROWS,
                num_samples=ROWS,
                eval_num_samples=ROWS,
                float_label_dense=True,
                seed=5,
            )
        ).generate(progress=False, processes=1)
    return lambda name, which="train": str(folder / name / which / NAMES[name])


@pytest.fixture(scope="module")
def columns(source):
    """Labels and dense features of the evaluation data, read by another library."""
    table = pq.read_table(*sorted(Path(source("Parquet", "eval")).glob("*.parquet")))
    pick = [[f"label{i}" for i in range(4)], [f"dense{i}" for i in range(DENSE)]]
    return [np.column_stack([table[name] for name in names]) for names in pick]


def model_of(kind, train, evaluation, **reader):
    solver = hugectr.CreateSolver(
        batchsize=64,
        batchsize_eval=64,
        max_eval_batches=100,
        seed=3,
        device="cpu",
        i64_input_key=True,
        repeat_dataset=False,
        metrics_spec={hugectr.MetricsType[m]: 1.1 for m in ("AUC", "AverageLoss", "MSE")},
    )
    params = hugectr.DataReaderParams(kind, train, eval_source=evaluation, **reader)
    model = hugectr.Model(solver, params, hugectr.CreateOptimizer())
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, len(SIZES))
    model.add(hugectr.Input([1, 2, 1], ["a", "b", "w"], DENSE, "dense", [sparse]))
    for name, outputs in (("x", 1), ("y", 2)):
        layer = hugectr.DenseLayer(Layer_t.InnerProduct, ["dense"], [name], num_output=outputs)
        model.add(layer)
    model.add(hugectr.DenseLayer(Layer_t.HuberLoss, ["x", "a", "w"], ["a_loss"]))
    model.add(hugectr.DenseLayer(Layer_t.MultiCrossEntropyLoss, ["y", "b"], ["b_loss"]))
    model.compile()
    return model


def outcome(model):
    while model.train():
        pass
    return model.evaluate(), model.session.network.dense_weights().tobytes()


def read(name):
    return (
        {"check_type": Check_t.Sum}
        if name == "Norm"
        else {
            "slot_size_array": SIZES,
            "float_label_dense": True,
        }
    )


@pytest.mark.parametrize("name", ["Raw", "Parquet"])
def test_formats_train_and_evaluate_to_the_same_bits(source, name):
    norm, other = (
        outcome(model_of(DataReaderType_t[n], source(n), source(n, "eval"), **read(n)))
        for n in ("Norm", name)
    )
    assert other == norm
    assert set(norm[0]) >= {"AUC_a", "AUC_b_0", "AUC_b_1", "MSE_b_1", "AverageLoss_b_loss"}


@pytest.mark.parametrize("name", [*NAMES, "memory"])
def test_labels_are_their_columns(source, columns, name):
    label, dense = columns
    if name == "memory":
        keys = {"keys": np.zeros((ROWS, len(SIZES)), np.int64)}
        data = from_arrays(label, dense, keys)
        model = model_of(DataReaderType_t.Norm, data, data)
    else:
        kind = DataReaderType_t[name]
        model = model_of(kind, source(name), source(name, "eval"), **read(name))
    for first in range(0, ROWS - 63, 64):
        assert model.eval()
        rows = label[first : first + 64].astype(np.float32)
        for tensor, wanted in (("a", rows[:, :1]), ("b", rows[:, 1:3]), ("w", rows[:, 3:])):
            found = model.check_out_tensor(tensor, Tensor_t.Evaluate)
            np.testing.assert_array_equal(found, wanted)
