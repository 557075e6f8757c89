# SPDX-License-Identifier: Apache-2.0
"""A small generated data set, a config for it, and a model of it."""

import copy
import json

import pytest

import hugectr
from hugectr.tools import DataGenerator, DataGeneratorParams

SLOTS, SLOT_SIZE, DENSE, VEC = 4, 50, 3, 8

CONFIG = {
    "solver": {
        "lr_policy": "fixed",
        "display": 10,
        "max_iter": 21,
        "gpu": [0, 1],
        "batchsize": 64,
        "batchsize_eval": 64,
        "snapshot": 0,
        "eval_interval": 10,
        "max_eval_batches": 2,
        "eval_metrics": ["AUC:0.99", "AverageLoss"],
        "input_key_type": "I32",
        "seed": 3,
    },
    "optimizer": {
        "type": "Adam",
        "update_type": "Local",
        "adam_hparam": {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
    },
    "layers": [
        {
            "name": "data",
            "type": "Data",
            "source": "train.txt",
            "eval_source": "eval.txt",
            "check": "Sum",
            "label": {"top": "label", "label_dim": 1},
            "dense": {"top": "dense", "dense_dim": DENSE},
            "sparse": [
                {
                    "top": "keys",
                    "type": "DistributedSlot",
                    "max_feature_num_per_sample": SLOTS,
                    "max_nnz": 1,
                    "slot_num": SLOTS,
                }
            ],
        },
        {
            "name": "vectors",
            "type": "DistributedSlotSparseEmbeddingHash",
            "bottom": "keys",
            "top": "vectors",
            "sparse_embedding_hparam": {
                "max_vocabulary_size_per_gpu": 1000,
                "embedding_vec_size": VEC,
                "combiner": 0,
            },
        },
        {
            "name": "flat",
            "type": "Reshape",
            "bottom": "vectors",
            "top": "flat",
            "leading_dim": SLOTS * VEC,
        },
        {"name": "both", "type": "Concat", "bottom": ["flat", "dense"], "top": "both"},
        {
            "name": "fc1",
            "type": "InnerProduct",
            "bottom": "both",
            "top": "fc1",
            "fc_param": {"num_output": 16, "weight_init": "XavierUniform"},
        },
        {"name": "relu1", "type": "ReLU", "bottom": "fc1", "top": "relu1"},
        {"name": "drop1", "type": "Dropout", "bottom": "relu1", "top": "drop1", "rate": 0.1},
        {
            "name": "fc2",
            "type": "InnerProduct",
            "bottom": "drop1",
            "top": "fc2",
            "fc_param": {"num_output": 1},
        },
        {
            "name": "loss",
            "type": "BinaryCrossEntropyLoss",
            "bottom": ["fc2", "label"],
            "top": "loss",
            "regularizer": "L2",
            "lambda": 1e-5,
        },
    ],
}


@pytest.fixture(autouse=True)
def auto_is_the_cpu(monkeypatch):
    """Several virtual devices, also where there is a GPU, and fewer than a test asks for."""
    resolved = hugectr.Solver.resolved_device
    monkeypatch.setattr(
        hugectr.Solver,
        "resolved_device",
        lambda self: "cpu" if self.device == "auto" else resolved(self),
    )


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    """A folder with train.txt (256 samples) and eval.txt (128) of learnable Norm data."""
    folder = tmp_path_factory.mktemp("norm")
    DataGenerator(
        DataGeneratorParams(
            hugectr.DataReaderType_t.Norm,
            1,
            DENSE,
            SLOTS,
            False,
            str(folder / "train.txt"),
            str(folder / "eval.txt"),
            [SLOT_SIZE] * SLOTS,
            num_files=2,
            eval_num_files=1,
            num_samples_per_file=128,
            seed=5,
            planted_signal=True,
        )
    ).generate(progress=False)
    return folder


@pytest.fixture
def config(data_folder):
    """A fresh config of the data set, to be changed by the test."""
    value = copy.deepcopy(CONFIG)
    value["layers"][0]["source"] = str(data_folder / "train.txt")
    value["layers"][0]["eval_source"] = str(data_folder / "eval.txt")
    return value


@pytest.fixture
def write_json(tmp_path):
    def write(value, name="config.json"):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


@pytest.fixture
def make_model(data_folder):
    """Makes an uncompiled model of the data set; keywords go to CreateSolver."""

    def make(eval_source=True, batch_norm=False, **solver):
        settings = {
            "batchsize": 64,
            "batchsize_eval": 64,
            "max_eval_batches": 2,
            "lr": 0.01,
            "seed": 3,
            "vvgpu": [[0, 1]],
            "device": "cpu",
        } | solver
        model = hugectr.Model(
            hugectr.CreateSolver(**settings),
            hugectr.DataReaderParams(
                hugectr.DataReaderType_t.Norm,
                str(data_folder / "train.txt"),
                eval_source=str(data_folder / "eval.txt") if eval_source else "",
                check_type=hugectr.Check_t.Sum,
                num_workers=2,
            ),
            hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
        )
        keys = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
        model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
        model.add(
            hugectr.SparseEmbedding(
                hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
                1,
                VEC,
                "mean",
                "vectors",
                "keys",
            )
        )
        kind, layer = hugectr.Layer_t, hugectr.DenseLayer
        model.add(layer(kind.Reshape, ["vectors"], ["flat"], leading_dim=SLOTS * VEC))
        model.add(layer(kind.Concat, ["flat", "dense"], ["both"]))
        model.add(layer(kind.InnerProduct, ["both"], ["fc1"], num_output=16))
        if batch_norm:
            model.add(layer(kind.BatchNorm, ["fc1"], ["norm1"], factor=0.1))
        model.add(layer(kind.ReLU, ["norm1" if batch_norm else "fc1"], ["relu1"]))
        model.add(layer(kind.InnerProduct, ["relu1"], ["deep"], num_output=1))
        model.add(layer(kind.InnerProduct, ["both"], ["wide"], num_output=1))
        model.add(layer(kind.Add, ["deep", "wide"], ["logit"]))
        model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
        return model

    return make
