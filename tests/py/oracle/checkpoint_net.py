# SPDX-License-Identifier: Apache-2.0
"""The model of the checkpoints in ``tests/fixtures``, and what is known of them without a loader.

It must stay as it is: the committed checkpoints were saved by it.
"""

import numpy as np

import hugectr
from hugectr.data import from_arrays

SAMPLES, BATCH, AFTER = 48, 8, 4

#: Name of a fixture -> how its model differs from the defaults of ``build``.
CASES = {
    "sgd": {"optimizer": "SGD", "update": "Local"},
    "momentum": {"optimizer": "MomentumSGD", "update": "Local", "frozen": "two"},
    "nesterov": {"optimizer": "Nesterov", "update": "Local"},
    "adagrad": {"optimizer": "AdaGrad", "update": "Local"},
    "adam_lazy": {"optimizer": "Adam", "update": "LazyGlobal"},
    "adam_local": {"optimizer": "Adam", "update": "Local", "norm": True},
    "adam_global": {"optimizer": "Adam", "update": "Global", "norm": True},
    "deltas": {"optimizer": "Adam", "update": "LazyGlobal", "deltas": 2},
    "job": {"optimizer": "AdaGrad", "update": "Local", "norm": True, "processes": 2},
    "float16": {"optimizer": "Adam", "update": "Local", "precision": "float16"},
    "bfloat16": {"optimizer": "SGD", "update": "Local", "precision": "bfloat16"},
    "epochs": {"optimizer": "Adam", "update": "Local", "norm": True, "repeat": False},
}


def data():
    """Samples by integer arithmetic: the same wherever and whenever they are made."""
    i = np.arange(SAMPLES)
    label = ((i * 7 + i // 3) % 2).astype(np.float32)
    dense = (((np.outer(i + 1, [3, 5, 11])) % 17) / 8 - 1).astype(np.float32)
    one = (np.outer(i + 2, [5, 7]) % 19 + np.array([0, 100])).astype(np.int64)
    two = np.outer(i + 1, [3, 4, 9]) % 13
    return from_arrays(label, dense, {"ones": one, "twos": two.astype(np.int64)})


def build(
    optimizer="SGD",
    update="Local",
    *,
    norm=False,
    precision="",
    repeat=True,
    processes=1,
    frozen="",
    deltas=0,
    **changes,
):
    """A Distributed and a Localized table, a small net. ``changes``: see the code."""
    mixed = {}
    if precision:
        mixed = {"use_mixed_precision": True, "mixed_precision_type": precision}
        mixed["dynamic_loss_scaling"] = precision == "float16"
    solver = hugectr.CreateSolver(
        model_name=changes.get("model_name", "fixture"),
        seed=changes.get("seed", 11),
        batchsize=changes.get("batch", BATCH),
        batchsize_eval=changes.get("batch", BATCH),
        lr=changes.get("lr", 0.05),
        warmup_steps=4,
        decay_start=6,
        decay_steps=30,
        i64_input_key=changes.get("i64", True),
        repeat_dataset=repeat,
        device="cpu",
        vvgpu=changes.get("vvgpu", [[0]] * processes),
        **mixed,
    )
    source = changes.get("source") or data()
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, source, num_workers=1)
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer],
        hugectr.Update_t[update],
        beta1=changes.get("beta1", 0.9),
        initial_accu_value=0.1 if optimizer == "AdaGrad" else 0.0,
        momentum_factor=0.9 if optimizer in ("MomentumSGD", "Nesterov") else 0.0,
    )
    model = hugectr.Model(solver, reader, params)
    model.add(
        hugectr.Input(
            1,
            "label",
            3,
            "dense",
            [
                hugectr.DataReaderSparseParam("ones", 1, True, 2),
                hugectr.DataReaderSparseParam("twos", 1, True, 3),
            ],
        )
    )
    kind = hugectr.Embedding_t
    model.add(
        hugectr.SparseEmbedding(
            changes.get("kind", kind.DistributedSlotSparseEmbeddingHash),
            0 if "budget" in changes else 1,
            changes.get("vec", 4),
            changes.get("combiner", "sum"),
            changes.get("table", "one"),
            "ones",
            max_vocabulary_size_per_gpu=changes.get("budget", 0),
        )
    )
    model.add(
        hugectr.SparseEmbedding(kind.LocalizedSlotSparseEmbeddingHash, 1, 2, "mean", "two", "twos")
    )
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    vec = changes.get("vec", 4)
    model.add(layer(t.Reshape, [changes.get("table", "one")], ["flat1"], leading_dim=2 * vec))
    model.add(layer(t.Reshape, ["two"], ["flat2"], leading_dim=6))
    parts = changes.get("concat", ["flat1", "flat2", "dense"])
    model.add(layer(t.Concat, parts, ["features"]))
    hidden = changes.get("hidden", 5)
    model.add(layer(t.InnerProduct, ["features"], ["hidden"], num_output=hidden))
    top = "hidden"
    if norm:
        model.add(layer(t.BatchNorm, ["hidden"], ["normed"], factor=0.1, eps=1e-4))
        top = "normed"
    model.add(layer(t[changes.get("activation", "ReLU")], [top], ["active"]))
    model.add(layer(t.InnerProduct, ["active"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def train(model, steps):
    """So many steps, the schedule going on; losses as bits."""
    model.start_data_reading()
    found = []
    for _ in range(steps):
        model.next_learning_rate()
        assert model.train()
        found.append(bits(np.float32(model.get_current_loss())))
    return found


def bits(values):
    """Numbers as the hexadecimal digits of their bytes."""
    return np.ascontiguousarray(values).tobytes().hex()


def statistic_bits(values):
    """Running statistics, whose type is wider since b17f4bf: float32 where that holds them."""
    narrow = values.astype(np.float32)
    return bits(narrow if np.array_equal(narrow, values) else values)


def rows(session, index):
    """``slot:key`` -> vector, states and last step of a row, as bits."""
    bag = session.table(index).dump(True)
    found = {}
    for number, key in enumerate(bag["keys"]):
        slot = 0 if bag["slot_ids"] is None else int(bag["slot_ids"][number])
        row = {"vector": bits(bag["vectors"][number])}
        row |= {f"state{i}": bits(state[number]) for i, state in enumerate(bag["states"])}
        if bag["last_step"] is not None:
            row["last_step"] = int(bag["last_step"][number])
        found[f"{slot}:{int(key)}"] = row
    return found


def everything(model):
    """What a model is, but for its rows, asked of the session alone."""
    session = model.session
    return {
        "step": session.step(),
        "seed": session.seed(),
        "weights": bits(session.network.dense_weights()),
        "states": bits(session.network.dense_optimizer_states()),
        "statistics": [
            [name, statistic_bits(mean), statistic_bits(var)]
            for name, mean, var in session.network.non_trainables()
        ],
        "learning_rate": session.learning_rate_state(),
        "loss_scaling": session.network.loss_scaling_state(),
        "data_position": session.reader.position(),
        "frozen": sorted(model.frozen()),
        "fit_epoch": model.fit_epoch,
    }
