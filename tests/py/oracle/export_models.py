# SPDX-License-Identifier: Apache-2.0
"""Models of every layer type with random weights, what evaluation says of a batch, and its keys."""

from dataclasses import dataclass

import numpy as np

import hugectr
from hugectr.data import MemoryDataset

SLOTS, DENSE, SIZE, BATCH = 3, 5, 6, 48
_RELU, _NON = hugectr.Activation_t.Relu, hugectr.Activation_t.Non
_HEAD, _TAIL = hugectr.FcPosition_t.Head, hugectr.FcPosition_t.Tail
_HELPED = ["head", "head_mask", "head_dRelu", "head_db"]

#: type, bottoms, tops, parameters; each net ends in "logit" and reads "emb" and "dense".
EVERY_LAYER = [
    ("Reshape", ["emb"], ["flat"], {"leading_dim": SLOTS * SIZE}),
    ("Reshape", ["emb"], ["picked"], {"selected": True, "selected_slots": [2, 0]}),
    ("Reshape", ["flat"], ["steps"], {"time_step": SLOTS, "leading_dim": SIZE}),
    ("InnerProduct", ["steps"], ["by_step"], {"num_output": 4}),
    ("ReduceSum", ["by_step"], ["over_steps"], {"axis": 1}),
    ("Reshape", ["over_steps"], ["step_sum"], {"leading_dim": 4}),
    # Rows that are parts of samples.
    ("Reshape", ["emb"], ["vectors"], {"leading_dim": SIZE}),
    ("Slice", ["vectors"], ["left_part", "right_part"], {"ranges": [(0, 4), (2, 6)]}),
    ("InnerProduct", ["right_part"], ["part"], {"num_output": 4}),
    ("Sub", ["left_part", "part"], ["parts_less"], {}),
    ("Concat", ["left_part", "parts_less"], ["parts"], {}),
    ("Reshape", ["parts"], ["parts_flat"], {"leading_dim": 8 * SLOTS}),
    ("Slice", ["dense"], ["from", "to"], {"ranges": [(0, 1), (1, 2)]}),
    (
        "SequenceMask",
        ["from", "to"],
        ["there"],
        {"max_sequence_len_from": 2, "max_sequence_len_to": 3},
    ),
    ("Reshape", ["there"], ["there_flat"], {"leading_dim": 6}),
    ("BatchNorm", ["dense"], ["norm"], {"factor": 0.3, "eps": 1e-4}),
    ("WeightMultiply", ["norm"], ["weighted"], {"weight_dims": [DENSE, SIZE]}),
    ("FmOrder2", ["weighted"], ["pairs"], {"out_dim": SIZE}),
    ("InnerProduct", ["norm"], ["bottom"], {"num_output": SIZE}),
    ("Scale", ["bottom"], ["bottom_rows"], {"axis": 1, "factor": SLOTS}),
    ("Sub", ["bottom_rows", "vectors"], ["apart"], {}),
    ("Reshape", ["apart"], ["apart_flat"], {"leading_dim": SLOTS * SIZE}),
    ("ELU", ["bottom"], ["bottom_elu"], {"elu_alpha": 0.7}),
    ("Interaction", ["bottom_elu", "emb"], ["crossed"], {}),
    ("Concat", ["flat", "norm"], ["both"], {}),
    ("Slice", ["both"], ["left", "right"], {"ranges": [(0, 9), (6, 23)]}),
    ("MultiCross", ["left"], ["cross"], {"num_layers": 3}),
    ("MultiCross", ["right"], ["cross2"], {"num_layers": 2, "projection_dim": 4}),
    ("Tanh", ["cross"], ["cross_tanh"], {}),
    ("Softplus", ["cross2"], ["cross2_soft"], {}),
    ("Dropout", ["cross2_soft"], ["dropped"], {"dropout_rate": 0.4}),
    ("Cast", ["dropped"], ["cast"], {}),
    ("Sigmoid", ["crossed"], ["gate"], {}),
    ("DotProduct", ["crossed", "gate"], ["gated"], {}),
    ("ElementwiseMultiply", ["pairs", "bottom_elu", "bottom"], ["product"], {}),
    ("ReLU", ["picked"], ["picked_relu"], {}),
    ("Reshape", ["flat"], ["turned"], {"shape": [-1, SIZE, SLOTS]}),
    ("MatrixMultiply", ["emb", "turned"], ["by_slot"], {}),
    ("ReduceMean", ["by_slot"], ["slot_mean"], {"axis": 2}),
    ("Select", ["slot_mean"], ["some_slots"], {"dim": 1, "index": [2, 0, 2]}),
    ("Reshape", ["some_slots"], ["few"], {"leading_dim": 3}),
    ("Scale", ["few"], ["more"], {"axis": 0, "factor": 2}),
    ("Sub", ["pairs", "bottom"], ["less"], {}),
    ("FusedInnerProduct", ["norm"], _HELPED, {"num_output": 6, "pos_type": _HEAD}),
    (
        "FusedInnerProduct",
        _HELPED,
        ["tail"],
        {"num_output": 3, "pos_type": _TAIL, "act_type": _NON},
    ),
    ("LayerNorm", ["steps"], ["rows"], {"eps": 1e-2}),
    ("BatchNorm", ["rows"], ["columns"], {"factor": 0.3}),
    ("Softmax", ["columns"], ["shares"], {}),
    ("Sigmoid", ["shares"], ["mask"], {}),
    ("Softmax", ["columns", "mask"], ["kept"], {}),
    ("Reshape", ["kept"], ["kept_flat"], {"leading_dim": SLOTS * SIZE}),
    (
        "MLP",
        ["kept_flat"],
        ["stack"],
        {"num_outputs": [5, 4], "activations": [_RELU, _NON], "biases": [False, True]},
    ),
    # Sequences, and slots as rows.
    ("InnerProduct", ["norm"], ["asking"], {"num_output": 2 * SIZE}),
    ("Reshape", ["asking"], ["queries"], {"time_step": 2, "leading_dim": SIZE}),
    (
        "MultiHeadAttention",
        ["queries", "rows", "steps", "there"],
        ["attended"],
        {"num_attention_heads": 2},
    ),
    ("Reshape", ["attended"], ["attended_flat"], {"leading_dim": 2 * SIZE}),
    ("Reshape", ["flat"], ["heads"], {"shape": [-1, 2, SLOTS, SIZE // 2]}),
    ("MultiHeadAttention", ["heads", "heads", "heads"], ["heads_y"], {}),
    ("Reshape", ["heads_y"], ["heads_flat"], {"leading_dim": SLOTS * SIZE}),
    ("GRU", ["rows"], ["states"], {"num_output": 4, "SeqLength": SLOTS, "vector_size": SIZE}),
    ("Reshape", ["states"], ["states_flat"], {"leading_dim": 4 * SLOTS}),
    ("GRU", ["flat"], ["states2"], {"num_output": 2, "SeqLength": SLOTS, "vector_size": SIZE}),
    ("FusedReshapeConcatGeneral", ["emb", "by_step"], ["joined"], {}),
    ("InnerProduct", ["joined"], ["joined_fc"], {"num_output": 2}),
    ("Reshape", ["joined_fc"], ["joined_flat"], {"leading_dim": 2 * SLOTS}),
    ("FusedReshapeConcat", ["emb", "by_step"], ["history", "item"], {}),
    ("InnerProduct", ["history"], ["history_fc"], {"num_output": 3}),
    ("Reshape", ["history_fc"], ["history_flat"], {"leading_dim": 3 * (SLOTS - 1)}),
    (
        "Concat",
        [
            *("attended_flat", "heads_flat", "states_flat", "states2"),
            *("joined_flat", "history_flat", "item"),
            *("gated", "cross_tanh", "cast", "product", "picked_relu"),
            *("step_sum", "more", "less", "tail", "stack", "parts_flat", "there_flat"),
            "apart_flat",
        ],
        ["all"],
        {},
    ),
    ("InnerProduct", ["all"], ["deep"], {"num_output": 1}),
    ("ReduceSum", ["product"], ["wide"], {"axis": 1}),
    ("Add", ["deep", "wide"], ["logit"], {}),
]
#: The types whose value for a sample depends on the others of its batch.
OF_BATCH = [
    ("Reshape", ["emb"], ["vectors"], {"leading_dim": SIZE}),
    ("PReLU_Dice", ["vectors"], ["bent"], {"elu_alpha": 0.3}),
    ("Reshape", ["bent"], ["flat"], {"leading_dim": SLOTS * SIZE}),
    ("Concat", ["flat", "dense"], ["x"], {}),
    ("InnerProduct", ["x"], ["fc"], {"num_output": 8}),
    ("PReLU_Dice", ["fc"], ["dice"], {"elu_alpha": 0.7, "eps": 1e-3}),
    ("InnerProduct", ["dice"], ["logit"], {"num_output": 1}),
]
#: A mask of one row for each step: how many places it sees; attention under it (SASRec's).
STEP_MASK = [
    ("Softplus", ["dense"], ["lengths"], {}),  # of at least one place each
    ("Reshape", ["lengths"], ["counts"], {"leading_dim": 1}),
    ("SequenceMask", ["counts", "counts"], ["sees"], {"max_sequence_len_to": DENSE}),
    ("Reshape", ["sees"], ["mask"], {"shape": [-1, 1, DENSE, DENSE]}),
    ("InnerProduct", ["dense"], ["wide"], {"num_output": DENSE * SIZE}),
    ("Reshape", ["wide"], ["steps"], {"time_step": DENSE, "leading_dim": SIZE}),
    ("MultiHeadAttention", ["steps", "steps", "steps", "mask"], ["attended"], {}),
    ("Reshape", ["attended"], ["attended_flat"], {"leading_dim": DENSE * SIZE}),
    ("Reshape", ["emb"], ["flat"], {"leading_dim": SLOTS * SIZE}),
    ("Concat", ["attended_flat", "flat"], ["x"], {}),
    ("InnerProduct", ["x"], ["logit"], {"num_output": 1}),
]
_PLACES = np.random.default_rng(3)
#: The types that pick rows by their place in the batch.
OF_PLACES = [
    ("Gather", ["dense"], ["turned"], {"indices": [*range(BATCH)][::-1]}),
    ("Reshape", ["emb"], ["vectors"], {"leading_dim": SIZE}),
    (
        "Gather",
        ["vectors"],
        ["some"],
        {"indices": _PLACES.integers(0, BATCH * SLOTS, 2 * BATCH).tolist()},
    ),
    ("InnerProduct", ["some"], ["some_fc"], {"num_output": 4}),
    ("Reshape", ["some_fc"], ["some_flat"], {"leading_dim": 8}),
    ("Select", ["some_flat"], ["mixed"], {"index": _PLACES.permutation(BATCH).tolist()}),
    ("Concat", ["turned", "mixed", "dense"], ["x"], {}),
    ("InnerProduct", ["x"], ["fc"], {"num_output": 8}),
    ("Tanh", ["fc"], ["bent"], {}),
    ("InnerProduct", ["bent"], ["logit"], {"num_output": 1}),
]
TOWER = [
    ("Reshape", ["emb"], ["flat"], {"leading_dim": SLOTS * SIZE}),
    ("Concat", ["flat", "dense"], ["x"], {}),
    ("InnerProduct", ["x"], ["fc"], {"num_output": 8}),
    ("ReLU", ["fc"], ["relu"], {}),
    ("InnerProduct", ["relu"], ["logit"], {"num_output": 1}),
]


@dataclass
class Example:
    """A trained model, a batch for its exports, and what evaluation makes of it."""

    model: hugectr.Model
    keys: np.ndarray  # (batch, slots), or (batch, slots, most) padded with -1
    dense: np.ndarray
    logit: np.ndarray
    vectors: np.ndarray  # (batch, slots, size) of table "emb"

    @property
    def probability(self):
        return 1 / (1 + np.exp(-self.logit.astype(np.float64)))

    @property
    def inputs(self):
        return {"dense": self.dense, "keys": self.keys}


def _data(rng, most, first_key):
    """Samples and the same keys as a padded array; keys from `first_key` on are unseen ones."""
    label = rng.integers(0, 2, (BATCH, 1)).astype(np.float32)
    dense = rng.normal(3, 2, (BATCH, DENSE)).astype(np.float32)
    counts = (
        np.ones((BATCH, SLOTS), int) if most == 1 else rng.integers(0, most + 1, (BATCH, SLOTS))
    )
    padded = rng.integers(first_key, first_key + 40, (BATCH, SLOTS, most))
    padded[np.arange(most) >= counts[..., None]] = -1
    offsets = np.concatenate([[0], counts.reshape(-1).cumsum()])
    sparse = {"keys": (padded[padded != -1], offsets)}
    keys = padded[..., 0] if most == 1 else padded
    return MemoryDataset(label, dense, sparse), keys


def example(layers, embedding="Distributed", most=1, combiner="sum", seed=0, steps=4, i64=True):
    """Train a few steps, evaluate one batch in which some keys were never seen."""
    rng = np.random.default_rng(seed)
    train, _ = _data(rng, most, 0)
    test, keys = _data(rng, most, 20)
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, max_eval_batches=1, lr=0.02, seed=seed + 1,
        i64_input_key=i64, vvgpu=[[0]],
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, train, eval_source=test)
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, optimizer)
    sparse = hugectr.DataReaderSparseParam("keys", most, most == 1, SLOTS)
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    kind = hugectr.Embedding_t[f"{embedding}SlotSparseEmbeddingHash"]
    model.add(hugectr.SparseEmbedding(kind, 1, SIZE, combiner, "emb", "keys"))
    for name, bottoms, tops, parameters in layers:
        model.add(hugectr.DenseLayer(hugectr.Layer_t[name], bottoms, tops, **parameters))
    loss = hugectr.Layer_t.BinaryCrossEntropyLoss
    model.add(hugectr.DenseLayer(loss, ["logit", "label"], ["loss"]))
    model.compile()
    weights = np.asarray(model.session.network.dense_weights())
    model.set_dense_weights((weights + rng.normal(0, 0.2, weights.shape)).astype(np.float32))
    for _ in range(steps):
        model.train()
    model.eval()
    evaluation = hugectr.Tensor_t.Evaluate
    return Example(
        model,
        keys,
        np.asarray(test.dense),
        model.check_out_tensor("logit", evaluation),
        model.check_out_tensor("emb", evaluation),
    )
