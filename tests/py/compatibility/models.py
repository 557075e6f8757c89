# SPDX-License-Identifier: Apache-2.0
"""Models that the code of rows calls: small ones of data in memory, and of files."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
from oracle.generated_model import CONFIG, DENSE, SLOT_SIZE, SLOTS

import hugectr
from hugectr.tools import DataGenerator, DataGeneratorParams

L = hugectr.Layer_t
BATCH = 64


def reader(source: Any = "a", **more: Any) -> hugectr.DataReaderParams:
    return hugectr.DataReaderParams(hugectr.DataReaderType_t.RawAsync, source, **more)


def sparse() -> hugectr.DataReaderSparseParam:
    return hugectr.DataReaderSparseParam("keys", 1, True, 3)


def table(
    kind: hugectr.Embedding_t = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, **more: Any
) -> hugectr.SparseEmbedding:
    settings: dict[str, Any] = {
        "workspace_size_per_gpu_in_mb": 1,
        "embedding_vec_size": 4,
        "combiner": "sum",
        "sparse_embedding_name": "table",
        "bottom_name": "keys",
    }
    return hugectr.SparseEmbedding(kind, **(settings | more))


def samples(inputs: dict[str, int], labels: int = 1) -> hugectr.data.arrays.MemoryDataset:
    """Two batches of samples with two dense features, of inputs with so many slots."""
    rng = np.random.default_rng(1)
    return hugectr.data.from_arrays(
        rng.integers(0, 2, (2 * BATCH, labels)),
        rng.random((2 * BATCH, 2)),
        {name: rng.integers(0, 9, (2 * BATCH, slots)) for name, slots in inputs.items()},
    )


def empty(data: hugectr.data.arrays.MemoryDataset | None = None, **solver: Any) -> hugectr.Model:
    """A model to which nothing was added."""
    settings: dict[str, Any] = {
        "batchsize": BATCH,
        "batchsize_eval": BATCH,
        "max_eval_batches": 2,
        "seed": 1,
        "device": "cpu",
    }
    data = samples({"keys": 3}) if data is None else data
    return hugectr.Model(
        hugectr.CreateSolver(**(settings | solver)),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )


def model(made: hugectr.Model | None = None, **solver: Any) -> hugectr.Model:
    """The model of most rows: a table and one layer."""
    made = empty(**solver) if made is None else made
    made.add(hugectr.Input(1, "label", 2, "dense", [sparse()]))
    made.add(table())
    made.add(hugectr.DenseLayer(L.Reshape, ["table"], ["flat"], leading_dim=12))
    made.add(hugectr.DenseLayer(L.Concat, ["flat", "dense"], ["both"]))
    made.add(hugectr.DenseLayer(L.InnerProduct, ["both"], ["logit"], num_output=1))
    made.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return made


def compiled(**solver: Any) -> hugectr.Model:
    made = model(**solver)
    made.compile()
    return made


def trained() -> hugectr.Model:
    made = compiled()
    made.train()
    return made


def evaluated() -> hugectr.Model:
    made = compiled()
    made.eval()
    return made


def saved() -> hugectr.Model:
    made = trained()
    made.save_params_to_files("m", 1)
    made.graph_to_json("m.json")
    return made


def trains(made: hugectr.Model) -> None:
    """Two steps and an evaluation of a network: its weights move and its loss is a number."""
    made.compile()
    before = made.session.network.dense_weights()
    for _ in range(2):
        made.train()
    assert math.isfinite(made.get_current_loss())
    assert np.any(made.session.network.dense_weights() != before)
    made.eval()


def net(
    kind: hugectr.Layer_t, *bottoms: tuple[int, ...] | str, tops: int = 1, **parameters: Any
) -> None:
    """Train a network with that layer on bottoms of these shapes (a sample's), or names."""
    inputs = {
        f"keys{i}": shape[0]
        for i, shape in enumerate(bottoms)
        if not isinstance(shape, str) and len(shape) == 2
    }
    made = empty(samples(inputs))
    params = [hugectr.DataReaderSparseParam(*item) for item in _one_hot(inputs)]
    made.add(hugectr.Input(1, "label", 2, "dense", params))
    if "mask" in bottoms or "length0" in bottoms:
        _lengths(made, mask="mask" in bottoms)
    names = []
    for i, shape in enumerate(bottoms):
        name = f"bottom{i}" if not isinstance(shape, str) else shape
        names.append(name)
        if isinstance(shape, str):
            continue
        if len(shape) == 2:
            of = {"sparse_embedding_name": name, "bottom_name": f"keys{i}"}
            made.add(table(embedding_vec_size=shape[1], **of))
        else:
            flat = name if len(shape) == 1 else f"{name}_flat"
            size = math.prod(shape)
            made.add(hugectr.DenseLayer(L.InnerProduct, ["dense"], [flat], num_output=size))
        if len(shape) > 2:
            made.add(hugectr.DenseLayer(L.Reshape, [flat], [name], shape=[-1, *shape]))
    ends = [f"top{i}" for i in range(tops)]
    made.add(hugectr.DenseLayer(kind, names, ends, **parameters))
    _to_loss(made, ends)
    trains(made)


def _lengths(made: hugectr.Model, mask: bool) -> None:
    """Two lengths, of the dense features, and the mask of them."""
    lengths = ["length0", "length1"]
    made.add(hugectr.DenseLayer(L.Slice, ["dense"], lengths, ranges=[(0, 1), (1, 2)]))
    if mask:
        sizes = {"max_sequence_len_from": 3, "max_sequence_len_to": 3}
        made.add(hugectr.DenseLayer(L.SequenceMask, lengths, ["mask"], **sizes))


def _one_hot(inputs: dict[str, int]) -> list[tuple[str, int, bool, int]]:
    return [(name, 1, True, slots) for name, slots in inputs.items()]


def _to_loss(made: hugectr.Model, tops: list[str]) -> None:
    """A loss on tensors of any shape; and on the dense features, for tops without gradient."""
    for top in tops:  # rows are not always samples
        made.add(hugectr.DenseLayer(L.Reshape, [top], [f"{top}_flat"], shape=[BATCH, -1]))
    flat = [f"{top}_flat" for top in tops]
    made.add(hugectr.DenseLayer(L.Concat, [*flat, "dense"], ["all"]))
    made.add(hugectr.DenseLayer(L.InnerProduct, ["all"], ["logit"], num_output=1))
    made.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))


def loss(kind: hugectr.Layer_t, logits: int, labels: int, **parameters: Any) -> None:
    """Train a network that ends in that loss."""
    made = empty(samples({}, labels))
    made.add(hugectr.Input(labels, "label", 2, "dense", []))
    made.add(hugectr.DenseLayer(L.InnerProduct, ["dense"], ["logit"], num_output=logits))
    made.add(hugectr.DenseLayer(kind, ["logit", "label"], ["loss"], **parameters))
    trains(made)


def _on_pairs(*layers: hugectr.DenseLayer | hugectr.GroupDenseLayer) -> None:
    """Train a network of layers that make a logit of Interaction's pairs."""
    made = empty()
    made.add(hugectr.Input(1, "label", 2, "dense", [sparse()]))
    made.add(table())
    made.add(hugectr.DenseLayer(L.InnerProduct, ["dense"], ["vector"], num_output=4))
    made.add(hugectr.DenseLayer(L.Interaction, ["vector", "table"], ["pairs", "pairs_grad"]))
    for layer in layers:
        made.add(layer)
    made.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    trains(made)


def group(**parameters: Any) -> None:
    """Train a GroupDenseLayer."""
    _on_pairs(
        hugectr.GroupDenseLayer(
            hugectr.GroupLayer_t.GroupFusedInnerProduct,
            top_name_list=["a", "logit"],
            num_outputs=[64, 1],
            last_act_type=hugectr.Activation_t.Non,
            **parameters,
        )
    )


def stack() -> None:
    """Train FusedInnerProduct layers with all their tops."""
    tops = [["pairs", "pairs_grad"], *[[f"{top}{i}" for i in range(4)] for top in "ab"], ["logit"]]
    position = hugectr.FcPosition_t
    of = {0: position.Head, 1: position.Body, 2: position.Tail}
    _on_pairs(
        *[
            hugectr.DenseLayer(
                L.FusedInnerProduct,
                tops[i],
                tops[i + 1],
                num_output=1 if i == 2 else 64,
                pos_type=of[i],
                act_type=hugectr.Activation_t.Non if i == 2 else hugectr.Activation_t.Relu,
            )
            for i in range(3)
        ]
    )


def optimizer(**settings: Any) -> None:
    """Train a model with that optimizer."""
    data = samples({"keys": 3})
    made = hugectr.Model(
        hugectr.CreateSolver(batchsize=BATCH, batchsize_eval=BATCH, lr=0.01, device="cpu"),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(**settings),
    )
    trains(model(made))


# --- of files -------------------------------------------------------------------------------------


def generated(kind: hugectr.DataReaderType_t, **more: Any) -> tuple[str, str]:
    """Files of that format for CONFIG, made once a folder: training and evaluation data."""
    source, eval_source = (f"{kind.name}_{word}.txt" for word in ("train", "eval"))
    if kind is hugectr.DataReaderType_t.Norm:
        source, eval_source = "train.txt", "eval.txt"  # as CONFIG names them
    if not os.path.exists(source) or more:
        settings: dict[str, Any] = {
            "label_dim": 1,
            "dense_dim": DENSE,
            "num_slot": SLOTS,
            "i64_input_key": False,
            "source": source,
            "eval_source": eval_source,
            "slot_size_array": [SLOT_SIZE] * SLOTS,
            "num_files": 1,
            "eval_num_files": 1,
            "num_samples_per_file": 2 * BATCH,
            "num_samples": 2 * BATCH,
            "eval_num_samples": 2 * BATCH,
        }
        params = DataGeneratorParams(kind, **(settings | more))
        DataGenerator(params).generate(progress=False, processes=1)
    return source, eval_source


def session(**helper: Any) -> hugectr.Session:
    """The older session of CONFIG on its files."""
    generated(hugectr.DataReaderType_t.Norm)
    with open("session.json", "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    settings = hugectr.solver_parser_helper(
        batchsize=BATCH, batchsize_eval=BATCH, vvgpu=[[0]], device="cpu", **helper
    )
    return hugectr.Session(settings, "session.json")


def cached(**etc: Any) -> hugectr.Model:
    """A model with an embedding training cache over two sources."""
    source, eval_source = generated(hugectr.DataReaderType_t.Norm)
    np.arange(SLOTS * SLOT_SIZE, dtype=np.uint32).tofile("keyset")
    made = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH, batchsize_eval=BATCH, repeat_dataset=False, device="cpu"
        ),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm,
            [source, source],
            ["keyset", "keyset"],
            eval_source,
            hugectr.Check_t.Sum,
        ),
        hugectr.CreateOptimizer(),
        hugectr.CreateETC(**({"ps_types": [hugectr.TrainPSType_t.Staged]} | etc)),
    )
    _of_files(made)
    made.compile()
    return made


def read(kind: hugectr.DataReaderType_t, check: str = "Non", **more: Any) -> None:
    """Train on a generated set of that format."""
    source, eval_source = generated(kind, **more)
    made = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            device="cpu",
            i64_input_key=more.get("i64_input_key", False),
        ),
        hugectr.DataReaderParams(
            kind,
            source,
            eval_source=eval_source,
            check_type=hugectr.Check_t[check],
            float_label_dense=more.get("float_label_dense", False),
        ),
        hugectr.CreateOptimizer(),
    )
    _of_files(made)
    made.compile()
    made.train()
    assert math.isfinite(made.get_current_loss())


def _of_files(made: hugectr.Model) -> None:
    inputs = [hugectr.DataReaderSparseParam("keys", 2, False, SLOTS)]
    made.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    made.add(table())
    made.add(hugectr.DenseLayer(L.Reshape, ["table"], ["flat"], leading_dim=4 * SLOTS))
    made.add(hugectr.DenseLayer(L.InnerProduct, ["flat"], ["logit"], num_output=1))
    made.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))


def collection(
    combiner: str = "sum", names: tuple[str, str, str] = ("first", "a", "top_a"), **shard: Any
) -> hugectr.Model:
    """Train a model of an embedding collection: two tables, look-ups of one and of several.

    ``names`` are those of the first table, of the input that it reads and of its tensor.
    """
    made = empty(samples({"a": 1, "b": 1}))
    params = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in ("a", "b")]
    made.add(hugectr.Input(1, "label", 2, "dense", params))
    config = hugectr.EmbeddingCollectionConfig()
    table, bottom, top = names
    first = hugectr.EmbeddingTableConfig(table, 10, 4)
    second = hugectr.EmbeddingTableConfig("second", -1, 4)
    config.embedding_lookup(first, bottom, top, combiner)
    config.embedding_lookup([first, second], ["b", "b"], "top_b", ["mean", "mean"])
    if shard:
        config.shard(**shard)
    made.add(config)
    made.add(hugectr.DenseLayer(L.Reshape, [top], ["flat"], leading_dim=4))
    made.add(hugectr.DenseLayer(L.Concat, ["flat", "top_b"], ["both"]))
    made.add(hugectr.DenseLayer(L.InnerProduct, ["both"], ["logit"], num_output=1))
    made.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    trains(made)
    return made


def inference(**more: Any) -> hugectr.inference.InferenceParams:
    return hugectr.inference.InferenceParams(
        "m", BATCH, 0.9, "m_dense_1.model", ["m0_sparse_1.model"], 0, False, 0.5, False, **more
    )


def inference_session() -> hugectr.inference.InferenceSession:
    """A session of a model of files, as a script makes it of the saved files."""
    source, eval_source = generated(hugectr.DataReaderType_t.Norm)
    made = hugectr.Model(
        hugectr.CreateSolver(batchsize=BATCH, batchsize_eval=BATCH, device="cpu"),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm,
            source,
            eval_source=eval_source,
            check_type=hugectr.Check_t.Sum,
        ),
        hugectr.CreateOptimizer(),
    )
    _of_files(made)
    made.compile()
    made.train()
    made.save_params_to_files("m", 1)
    made.graph_to_json("m.json")
    return hugectr.inference.CreateInferenceSession("m.json", inference())
