# SPDX-License-Identifier: Apache-2.0
"""The model of the demo, written the way a user writes one."""

from __future__ import annotations

from typing import Any

import hugectr
from hugectr.data.adult import AdultFiles

BATCH = 512
BATCH_EVAL = 2048
EPOCHS = 12


def wide_and_deep(
    files: AdultFiles,
    *,
    epochs: int = EPOCHS,
    devices: int = 1,
    device: str = "auto",
    seed: int = 20250101,
    num_workers: int = 2,
    precision: str = "float32",
) -> hugectr.Model:
    """Make and compile Wide & Deep (Cheng et al. 2016) for the Adult data.

    Wide: one weight a key of 14 columns and 8 crosses, summed. Deep: 14 slots of 8 floats and 6
    normalised numbers through two layers. The two sides meet in one logit.

    Parameters
    ----------
    files : AdultFiles
    epochs : int
        Passes over the data the learning rate is planned for.
    devices : int
        Devices the model is spread over; on a CPU virtual ones.
    device : {"auto", "cpu", "cuda"}
    seed : int
        Of the first weights, new rows and dropout.
    num_workers : int
        Reader threads; the result does not depend on them.
    precision : {"float32", "float16", "bfloat16", "fp8"}
        What the dense network computes in.
    """
    steps = epochs * -(-files.train_rows // BATCH)
    mixed: dict[str, Any] = {}
    if precision != "float32":
        mixed = {"use_mixed_precision": True, "mixed_precision_type": precision}
    solver = hugectr.CreateSolver(
        model_name="adult_wide_and_deep",
        seed=seed,
        batchsize=BATCH,
        batchsize_eval=BATCH_EVAL,
        max_eval_batches=-(-files.test_rows // BATCH_EVAL),
        lr=0.001,
        warmup_steps=50,
        decay_start=max(51, int(0.4 * steps)),
        decay_steps=max(1, steps - int(0.4 * steps)),
        decay_power=1.0,
        end_lr=1e-5,
        vvgpu=[list(range(devices))],
        device=device,
        repeat_dataset=False,
        **mixed,
    )
    reader = hugectr.DataReaderParams(
        data_reader_type=hugectr.DataReaderType_t.Norm,
        source=[str(files.train)],
        eval_source=str(files.test),
        check_type=hugectr.Check_t.Sum,
        num_workers=num_workers,
    )
    optimizer = hugectr.CreateOptimizer(
        optimizer_type=hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.Local
    )
    model = hugectr.Model(solver, reader, optimizer)
    model.add(
        hugectr.Input(
            label_dim=1,
            label_name="label",
            dense_dim=files.dense_dim,
            dense_name="dense",
            data_reader_sparse_param_array=[
                hugectr.DataReaderSparseParam("wide_keys", files.wide_hotness, True, 1),
                hugectr.DataReaderSparseParam("deep_keys", 1, True, files.deep_slots),
            ],
        )
    )
    for name, bottom, dim in (("wide", "wide_keys", 1), ("deep", "deep_keys", 8)):
        model.add(
            hugectr.SparseEmbedding(
                embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
                workspace_size_per_gpu_in_mb=1,
                embedding_vec_size=dim,
                combiner="sum",
                sparse_embedding_name=name,
                bottom_name=bottom,
            )
        )

    def add(kind: str, bottoms: list[str], top: str, **parameters: Any) -> None:
        layer = getattr(hugectr.Layer_t, kind)
        model.add(hugectr.DenseLayer(layer, bottoms, [top], **parameters))

    zero = hugectr.Initializer_t.Zero
    add("Reshape", ["wide"], "wide_logit", leading_dim=1)
    add("Reshape", ["deep"], "deep_flat", leading_dim=8 * files.deep_slots)
    add("Concat", ["deep_flat", "dense"], "deep_0")
    for i, width in enumerate((128, 64), start=1):
        add("InnerProduct", [f"deep_{i - 1}"], f"fc_{i}", num_output=width, bias_init_type=zero)
        add("ReLU", [f"fc_{i}"], f"relu_{i}")
        add("Dropout", [f"relu_{i}"], f"deep_{i}", dropout_rate=0.3)
    add("InnerProduct", ["deep_2"], "deep_logit", num_output=1, bias_init_type=zero)
    add("Add", ["wide_logit", "deep_logit"], "logit")
    add("BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    model.compile()
    return model
