# SPDX-License-Identifier: Apache-2.0
"""Small models through the public API, and an independent reader of what they save."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hugectr
from hugectr.data import MemoryDataset

#: Type, bottoms, the top or tops, parameters.
Layers = list[tuple[str, list[str], str | list[str], dict[str, Any]]]


def deepfm(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    """Tables by name with their vector sizes, and the dense layers."""
    return {"fm": d, "linear": 1}, [
        ("Reshape", ["fm"], "fm_flat", {"leading_dim": slots * d}),
        ("FmOrder2", ["fm_flat"], "pairs", {"out_dim": d}),
        ("ReduceSum", ["pairs"], "second", {"axis": 1}),
        ("Reshape", ["linear"], "linear_flat", {"leading_dim": slots}),
        ("ReduceSum", ["linear_flat"], "first", {"axis": 1}),
        ("Concat", ["fm_flat", "dense"], "deep_in", {}),
        ("InnerProduct", ["deep_in"], "fc1", {"num_output": 32}),
        ("ReLU", ["fc1"], "relu1", {}),
        ("InnerProduct", ["relu1"], "deep", {"num_output": 1}),
        ("Add", ["deep", "second", "first"], "logit", {}),
    ]


def dcn(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    return {"emb": d}, [
        ("Reshape", ["emb"], "flat", {"leading_dim": slots * d}),
        ("Concat", ["flat", "dense"], "x0", {}),
        ("MultiCross", ["x0"], "cross", {"num_layers": 2}),
        ("InnerProduct", ["x0"], "fc1", {"num_output": 32}),
        ("ReLU", ["fc1"], "relu1", {}),
        ("Concat", ["cross", "relu1"], "both", {}),
        ("InnerProduct", ["both"], "logit", {"num_output": 1}),
    ]


def dlrm(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    return {"emb": d}, [
        ("InnerProduct", ["dense"], "fc1", {"num_output": 16}),
        ("ReLU", ["fc1"], "relu1", {}),
        ("InnerProduct", ["relu1"], "fc2", {"num_output": d}),
        ("ReLU", ["fc2"], "relu2", {}),
        ("Interaction", ["relu2", "emb"], "pairs", {}),
        ("InnerProduct", ["pairs"], "fc3", {"num_output": 32}),
        ("ReLU", ["fc3"], "relu3", {}),
        ("InnerProduct", ["relu3"], "logit", {"num_output": 1}),
    ]


def tower(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    """Two layers on one table."""
    return {"emb": d}, [
        ("Reshape", ["emb"], "flat", {"leading_dim": slots * d}),
        ("Concat", ["flat", "dense"], "x0", {}),
        ("InnerProduct", ["x0"], "fc1", {"num_output": 16}),
        ("ReLU", ["fc1"], "relu1", {}),
        ("InnerProduct", ["relu1"], "logit", {"num_output": 1}),
    ]


def batch_norm_tower(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    tables, layers = tower(slots, d)
    layers[3:4] = [
        ("BatchNorm", ["fc1"], "norm1", {"factor": 0.1}),
        ("ReLU", ["norm1"], "relu1", {}),
    ]
    return tables, layers


def dropout_tower(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    tables, layers = tower(slots, d)
    layers[3:4] = [
        ("ReLU", ["fc1"], "kept1", {}),
        ("Dropout", ["kept1"], "relu1", {"dropout_rate": 0.4}),
    ]
    return tables, layers


def normalised(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    """Layers that normalise rows, or columns over the batch and its slots."""
    return {"emb": d}, [
        ("BatchNorm", ["emb"], "columns", {"factor": 0.1}),
        ("LayerNorm", ["columns"], "vectors", {}),
        ("InnerProduct", ["vectors"], "scores", {"num_output": d}),
        ("PReLU_Dice", ["scores"], "bent", {"elu_alpha": 0.2, "eps": 1e-3}),
        ("Softmax", ["bent"], "shares", {}),
        ("Reshape", ["shares"], "flat", {"leading_dim": slots * d}),
        ("Concat", ["flat", "dense"], "x0", {}),
        ("MLP", ["x0"], "logit", {"num_outputs": [16, 1], "activations": [_RELU, _NON]}),
    ]


_RELU, _NON = hugectr.Activation_t.Relu, hugectr.Activation_t.Non


def sequences(slots: int, d: int) -> tuple[dict[str, int], Layers]:
    """Slots as the steps of a history whose last one is the item: what DIN, BST and DIEN do."""
    f, pair = slots - 1, 2 * d
    return {"emb": d}, [
        ("FusedReshapeConcat", ["emb", "emb"], ["history", "item"], {}),
        ("Scale", ["item"], "items", {"axis": 1, "factor": f}),
        ("Sub", ["items", "history"], "difference", {}),
        ("DotProduct", ["items", "history"], "product", {}),
        ("Concat", ["items", "difference", "product", "history"], "pairs", {}),
        ("InnerProduct", ["pairs"], "att1", {"num_output": 8}),
        ("ReLU", ["att1"], "att2", {}),
        ("Dropout", ["att2"], "att3", {"dropout_rate": 0.2}),
        ("InnerProduct", ["att3"], "score", {"num_output": 1}),
        ("Reshape", ["score"], "scores", {"leading_dim": f}),
        ("Scale", ["scores"], "weights", {"axis": 0, "factor": pair}),
        ("Reshape", ["weights"], "weights3", {"shape": [-1, f, pair]}),
        ("Reshape", ["history"], "history3", {"shape": [-1, f, pair]}),
        ("ElementwiseMultiply", ["weights3", "history3"], "weighted", {}),
        ("ReduceMean", ["weighted"], "interest", {"axis": 1}),
        ("Slice", ["dense"], "length", {"ranges": [(0, 1)]}),
        (
            "SequenceMask",
            ["length", "length"],
            "mask",
            {"max_sequence_len_from": slots, "max_sequence_len_to": slots},
        ),
        (
            "MultiHeadAttention",
            ["emb", "emb", "emb", "mask"],
            "attended",
            {"num_attention_heads": 2, "transpose_b": True},
        ),
        (
            "GRU",
            ["attended"],
            "states",
            {"num_output": 6, "batchsize": 64, "SeqLength": slots, "vector_size": d},
        ),
        ("Select", ["states"], "last", {"dim": 1, "index": [slots - 1]}),
        ("Reshape", ["last"], "last2", {"leading_dim": 6}),
        ("Reshape", ["attended"], "turned", {"shape": [-1, d, slots]}),
        ("MatrixMultiply", ["attended", "turned"], "products", {}),
        ("FusedReshapeConcatGeneral", ["products"], "rows", {}),
        ("Reshape", ["rows"], "flat", {"leading_dim": slots * slots}),
        ("Reshape", ["interest"], "interest2", {"leading_dim": pair}),
        ("Concat", ["interest2", "last2", "flat", "dense"], "x0", {}),
        ("InnerProduct", ["x0"], "fc1", {"num_output": 16}),
        ("ReLU", ["fc1"], "relu1", {}),
        ("InnerProduct", ["relu1"], "logit", {"num_output": 1}),
    ]


NETS = {
    "deepfm": deepfm,
    "dcn": dcn,
    "dlrm": dlrm,
    "tower": tower,
    "batch_norm": batch_norm_tower,
    "dropout": dropout_tower,
    "normalised": normalised,
    "sequences": sequences,
}


@dataclass
class Setup:
    """How a net is run; `train` and `test` are data in memory or file lists."""

    net: str
    train: MemoryDataset | str
    test: MemoryDataset | str
    slots: int
    dense_dim: int
    d: int = 8
    nnz: int = 1
    batch: int = 64
    devices: int = 1  # of a process
    device: str = "cpu"
    processes: int = 1
    optimizer: str = "SGD"
    update_type: str = "Local"
    lr: float = 0.1
    embedding: str = "DistributedSlotSparseEmbeddingHash"
    combiner: str = "sum"
    exchange: str = "auto"
    vector_type: str = "float32"
    num_workers: int = 1
    repeat: bool = True
    i64: bool = False
    seed: int = 7
    l2: float = 0.0
    eval_batches: int = 100
    resident: int = 0
    more: dict[str, Any] = field(default_factory=dict)


def devices_of(setup: Setup) -> list[list[int]]:
    """Of each process: virtual ones of the CPU are its own, GPUs those of one host."""
    first = setup.devices if setup.device == "cuda" else 0
    return [
        [process * first + device for device in range(setup.devices)]
        for process in range(setup.processes)
    ]


def make_model(setup: Setup) -> hugectr.Model:
    """Build and compile."""
    solver = hugectr.CreateSolver(
        seed=setup.seed,
        batchsize=setup.batch,
        batchsize_eval=setup.batch,
        max_eval_batches=setup.eval_batches,
        lr=setup.lr,
        vvgpu=devices_of(setup),
        device=setup.device,
        repeat_dataset=setup.repeat,
        i64_input_key=setup.i64,
        **setup.more,
    )
    reader = hugectr.DataReaderParams(
        data_reader_type=hugectr.DataReaderType_t.Norm,
        source=setup.train,
        eval_source=setup.test,
        check_type=hugectr.Check_t.Sum,
        num_workers=setup.num_workers,
        resident_batches=setup.resident,
    )
    optimizer = hugectr.CreateOptimizer(
        optimizer_type=hugectr.Optimizer_t[setup.optimizer],
        update_type=hugectr.Update_t[setup.update_type],
        momentum_factor=0.9 if setup.optimizer in ("MomentumSGD", "Nesterov") else 0.0,
    )
    model = hugectr.Model(solver, reader, optimizer)
    keys = hugectr.DataReaderSparseParam("keys", setup.nnz, False, setup.slots)
    model.add(hugectr.Input(1, "label", setup.dense_dim, "dense", [keys]))
    tables, layers = NETS[setup.net](setup.slots, setup.d)
    for name, size in tables.items():
        model.add(
            hugectr.SparseEmbedding(
                hugectr.Embedding_t[setup.embedding],
                1,
                size,
                setup.combiner,
                name,
                "keys",
                exchange=setup.exchange,
                vector_type=setup.vector_type,
            )
        )
    for kind, bottoms, tops, parameters in layers:
        model.add(hugectr.DenseLayer(hugectr.Layer_t[kind], bottoms, tops, **parameters))
    loss: dict[str, Any] = {}
    if setup.l2:
        loss = {
            "use_regularizer": True,
            "regularizer_type": hugectr.Regularizer_t.L2,
            "lambda": setup.l2,
        }
    kind = hugectr.Layer_t.BinaryCrossEntropyLoss
    model.add(hugectr.DenseLayer(kind, ["logit", "label"], ["loss"], **loss))
    model.compile()
    return model


def losses(model: hugectr.Model, steps: int) -> npt.NDArray[np.float64]:
    """Train, reading the loss after every step."""
    found = []
    for _ in range(steps):
        assert model.train()
        found.append(model.get_current_loss())
    return np.asarray(found)


def evaluate(model: hugectr.Model, batches: int) -> float:
    """AUC over a number of evaluation batches."""
    for _ in range(batches):
        assert model.eval()
    return dict(model.get_eval_metrics())["AUC"]


@dataclass
class SavedTable:
    """A sparse model folder as an independent reader sees it."""

    keys: npt.NDArray[np.int64]
    slot_ids: npt.NDArray[np.uint64] | None
    vectors: npt.NDArray[np.float32]

    def sorted(self) -> SavedTable:
        slots = np.zeros(len(self.keys)) if self.slot_ids is None else self.slot_ids
        order = np.lexsort((self.keys, slots))
        slot_ids = None if self.slot_ids is None else self.slot_ids[order]
        return SavedTable(self.keys[order], slot_ids, self.vectors[order])


def read_table(folder: Path, d: int) -> SavedTable:
    """Read a folder of the 3.1+ layout by its definition alone."""
    keys = np.frombuffer((folder / "key").read_bytes(), "<i8")
    raw = (folder / "emb_vector").read_bytes()
    assert len(raw) == len(keys) * d * 4
    slot_ids = None
    if (folder / "slot_id").exists():
        slot_ids = np.frombuffer((folder / "slot_id").read_bytes(), "<u8")
        assert len(slot_ids) == len(keys)
    return SavedTable(keys, slot_ids, np.frombuffer(raw, "<f4").reshape(-1, d))
