# SPDX-License-Identifier: Apache-2.0
"""Models written in the original's way end where the same training in float64 ends."""

import numpy as np
import pytest
from oracle.autodiff import Var, concat
from oracle.generated_model import auto_is_the_cpu
from oracle.written_script import BATCH, DENSE, INPUTS, STEPS, WIDE, Files, Float64, Script

import hugectr

__all__ = ["auto_is_the_cpu"]

LAYER, KIND, POSITION = hugectr.DenseLayer, hugectr.Layer_t, hugectr.FcPosition_t
ACTIVATION = hugectr.Activation_t
LR, WARM_UP, DECAY_START, DECAY_STEPS, END_LR = 0.05, 5, 15, 20, 0.002
FLAT = WIDE * (INPUTS["bags"][0] + INPUTS["ids"][0]) + DENSE


def linear(take, x, out):
    return x @ take(x.value.shape[1], out) + take(out)


def flat(tables, dense):
    return concat(tables["bags"].reshape(BATCH, -1), dense, tables["ids"].reshape(BATCH, -1))


def stack(take, tables, dense):
    hidden = linear(take, flat(tables, dense), 8).relu()
    return [linear(take, linear(take, hidden, 5).relu(), 1)]


def interacting(take, tables, dense):
    x = linear(take, linear(take, linear(take, dense, 7).relu(), 5).relu(), WIDE).relu()
    rows = concat(x, tables["bags"].reshape(BATCH, -1)).reshape(BATCH, -1, WIDE)
    pairs = concat(x, rows.gram_below_diagonal(), Var(np.zeros((BATCH, 1))))
    ids = tables["ids"].reshape(BATCH, -1)
    return [linear(take, concat(linear(take, linear(take, pairs, 9).relu(), 4), ids), 1)]


def two_tasks(take, tables, dense):
    x = flat(tables, dense)
    return [linear(take, x, 1), linear(take, linear(take, x, 3).relu(), 1)]


JOINED = [
    LAYER(KIND.Reshape, ["bags_rows"], ["bags_flat"]),
    LAYER(KIND.Reshape, ["ids_rows"], ["ids_flat"]),
    LAYER(KIND.Concat, ["bags_flat", "dense", "ids_flat"], ["all"]),
]


def group(bottoms, names, sizes):
    return hugectr.GroupDenseLayer(
        group_layer_type=hugectr.GroupLayer_t.GroupFusedInnerProduct,
        bottom_name_list=bottoms,
        top_name_list=names,
        num_outputs=sizes,
        last_act_type=ACTIVATION.Non,
    )


def loss(bottoms, top="loss", **more):
    return LAYER(KIND.BinaryCrossEntropyLoss, bottoms, [top], **more)


def fully(bottom, top, size):
    return LAYER(KIND.InnerProduct, [bottom], [top], num_output=size)


def fused(position, bottoms, tops, size):
    return LAYER(KIND.FusedInnerProduct, bottoms, tops, num_output=size, pos_type=position)


GROUPED = [*JOINED, group(["all"], ["g1", "g2", "logit"], [8, 5, 1])]
HEAD, BODY = ([f"{name}{i}" for i in range(4)] for name in ("head", "body"))
INTERACTING = [
    fused(POSITION.Head, ["dense"], HEAD, 7),
    fused(POSITION.Body, HEAD, BODY, 5),
    fused(POSITION.Tail, BODY, ["tail"], WIDE),
    LAYER(KIND.Interaction, ["tail", "bags_rows"], ["pairs", "pairs_grad"]),
    group(["pairs", "pairs_grad"], ["g1", "g2"], [9, 4]),
    LAYER(KIND.Reshape, ["ids_rows"], ["ids_flat"]),
    LAYER(KIND.Concat, ["g2", "ids_flat"], ["both"]),
    fully("both", "logit", 1),
    loss(["logit", "label0"]),
]
# The second task has the first loss: weights go by labels, not by the order of layers.
TASKS = [
    *JOINED,
    fully("all", "logit0", 1),
    fully("all", "hidden", 3),
    LAYER(KIND.ReLU, ["hidden"], ["relu"]),
    fully("relu", "logit1", 1),
    loss(["logit1", "label1"], "loss1"),
    loss(["logit0", "label0"], "loss0"),
]


def penalised(kind):
    more = {"use_regularizer": True, "regularizer_type": kind, "lambda": 0.7}
    return [*GROUPED, loss(["logit", "label0"], **more)]


STACK_WEIGHTS = (FLAT + 1) * 8 + 9 * 5 + 6
PAIRS = WIDE + 6 + 1
INTERACTING_WEIGHTS = 5 * 7 + 8 * 5 + 6 * WIDE + (PAIRS + 1) * 9 + 10 * 4 + 4 + 2 * WIDE + 1
PLAIN = [*GROUPED, loss(["logit", "label0"])]
FTRL = (("beta", 0.8), ("lambda1", 0.01), ("lambda2", 0.03))
MOMENTUM = (("momentum_factor", 0.7),)
SCRIPTS = {
    "GroupDenseLayer": (PLAIN, Script(stack, STACK_WEIGHTS)),
    "Interaction": (INTERACTING, Script(interacting, INTERACTING_WEIGHTS)),
    "Ftrl": (PLAIN, Script(stack, STACK_WEIGHTS, "Ftrl", "Global", FTRL)),
    "AdaGrad": (PLAIN, Script(stack, STACK_WEIGHTS, "AdaGrad", "Global")),
    "Adam": (PLAIN, Script(stack, STACK_WEIGHTS, "Adam", "Global", (("beta2", 0.99),))),
    "Momentum": (PLAIN, Script(stack, STACK_WEIGHTS, "MomentumSGD", "Global", MOMENTUM)),
    "Nesterov": (PLAIN, Script(stack, STACK_WEIGHTS, "Nesterov", "Global", MOMENTUM)),
    "tasks": (TASKS, Script(two_tasks, 4 * FLAT + 8, task_weights=(0.3, 1.7))),
    **{
        kind.name: (
            penalised(kind),
            Script(stack, STACK_WEIGHTS, regularizer=(kind.name, 0.7)),
        )
        for kind in hugectr.Regularizer_t
    },
}


def rate(step):
    """The schedule of the solver below, steps from 1."""
    if step <= WARM_UP:
        return LR * step / WARM_UP
    left = (DECAY_START + DECAY_STEPS - step) / DECAY_STEPS
    return LR if step <= DECAY_START else max(END_LR, LR * max(left, 0) ** 2)


def model_of(files, layers, script, devices):
    """The script, up to its first step, from the files' weights."""
    model = hugectr.Model(
        hugectr.CreateSolver(
            seed=1,
            lr=LR,
            warmup_steps=WARM_UP,
            decay_start=DECAY_START,
            decay_steps=DECAY_STEPS,
            decay_power=2.0,
            end_lr=END_LR,
            max_eval_batches=STEPS,
            batchsize=BATCH,
            batchsize_eval=BATCH,
            vvgpu=[list(range(devices))],
        ),
        hugectr.DataReaderParams(
            data_reader_type=hugectr.DataReaderType_t.Norm,
            source=[str(files.folder / "list.txt")],
            eval_source=str(files.folder / "list.txt"),
            check_type=hugectr.Check_t.Sum,
            num_workers=1,
        ),
        hugectr.CreateOptimizer(
            optimizer_type=hugectr.Optimizer_t[script.optimizer],
            update_type=hugectr.Update_t[script.update],
            **dict(script.settings),
        ),
    )
    tasks = len(script.task_weights)
    model.add(
        hugectr.Input(
            label_dims=[1] * tasks,
            label_names=[f"label{i}" for i in range(tasks)],
            label_weights=list(script.task_weights),
            dense_dim=DENSE,
            dense_name="dense",
            data_reader_sparse_param_array=[
                hugectr.DataReaderSparseParam(name, most, False, slots)
                for name, (slots, most, _, _) in INPUTS.items()
            ],
        )
    )
    kinds = hugectr.Embedding_t
    for name, kind in (
        ("bags", kinds.DistributedSlotSparseEmbeddingHash),
        ("ids", kinds.LocalizedSlotSparseEmbeddingHash),
    ):
        model.add(
            hugectr.SparseEmbedding(
                embedding_type=kind,
                workspace_size_per_gpu_in_mb=1,
                embedding_vec_size=WIDE,
                combiner=INPUTS[name][3],
                sparse_embedding_name=f"{name}_rows",
                bottom_name=name,
            )
        )
    for layer in layers:
        model.add(layer)
    model.compile()
    model.load_dense_weights(str(files.folder / "first.model"))
    model.load_sparse_weights([str(files.folder / f"{name}.model") for name in INPUTS])
    return model


def close(found, wanted, what):
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < 5e-6, f"{what}: {error:.1e} of the largest"


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_where_float64_ends(tmp_path, name, devices):
    layers, script = SCRIPTS[name]
    # Drawn once for all: where a sum comes to 0 within float32, ReLU and the sign of L1 may differ
    # from float64's, in one of 300 draws.
    files = Files(tmp_path, np.random.default_rng(5), script)
    model, wanted = model_of(files, layers, script, devices), Float64(files, script)
    model.fit(max_iter=STEPS, display=STEPS, eval_interval=10 * STEPS, snapshot=10 * STEPS)
    last = [wanted.train(rate(step)) for step in range(1, STEPS + 1)][-1]

    close(model.get_current_loss(), last, "loss")
    model.save_params_to_files(str(tmp_path / "m"), 1)
    close(np.fromfile(tmp_path / "m_dense_1.model", "<f4"), wanted.weights, "dense weights")
    if wanted.states:
        states = np.fromfile(tmp_path / "m_opt_dense_1.model", "<f4")
        close(states, np.concatenate(wanted.states), "dense states")
    for i, table in enumerate(INPUTS):
        folder = tmp_path / f"m{i}_sparse_1.model"
        keys = np.fromfile(folder / "key", "<i8")
        assert sorted(keys) == list(range(len(wanted.rows[table])))
        found = np.fromfile(folder / "emb_vector", "<f4").reshape(-1, WIDE)
        close(found, wanted.rows[table][keys], f"rows of {table}")
    model.eval()
    model.export_predictions(str(tmp_path / "p"), str(tmp_path / "l"))
    # Of several losses those of the first that was added.
    task = len(script.task_weights) - 1
    close(np.loadtxt(tmp_path / "p"), wanted.predictions(0)[:, task], "predictions")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "l"), files.label[:BATCH, task])
