# SPDX-License-Identifier: Apache-2.0
"""JSON configs: every complaint names the path, what was found and what is allowed."""

import json

import pytest

import hugectr
from hugectr import _core
from hugectr.config.config_file import read_config
from hugectr.model.from_config import build_model

GONE = object()


def change(config, path, value):
    *way, last = path
    place = config
    for key in way:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value


SPARSE = ("layers", 0, "sparse", 0)
HPARAM = ("layers", 1, "sparse_embedding_hparam")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("solver",), GONE, ["solver: found nothing", "object"]),
        (("solver", "batchsize"), 0, ["solver.batchsize", "found 0", ">= 1"]),
        (("solver", "batchsize"), 63, ["solver.batchsize", "63", "multiple of 2"]),
        (("solver", "gpu"), [[0, 0]], ["solver.gpu[0]", "[0, 0]", "differ"]),
        (("solver", "gpu"), 3, ["solver.gpu", "found 3", "[[0, 1]]"]),
        (("solver", "max_itr"), 5, ["solver.max_itr", "did you mean 'max_iter'"]),
        (("solver", "num_epochs"), 2, ["solver.num_epochs", "only one of it and max_iter"]),
        (
            ("solver", "eval_batches"),
            2,
            ["solver.eval_batches", "only one of it and max_eval_batches"],
        ),
        (("solver", "mixed_precision"), 0, ["solver.mixed_precision", "found 0", "> 0"]),
        (("solver", "eval_metrics"), ["AUK"], ["solver.eval_metrics[0]", "'AUK'", "AverageLoss"]),
        (("solver", "eval_metrics"), ["HitRate:x"], ["solver.eval_metrics[0]", "HitRate"]),
        (("solver", "eval_metrics"), ["LogLos"], ["solver.eval_metrics[0]", "'LogLos'", "LogLoss"]),
        (("solver", "lr_policy"), "step", ["solver.lr_policy", "'step'", "'fixed'"]),
        (("solver", "input_key_type"), "I16", ["solver.input_key_type", "'I16'", "'I64'"]),
        (("optimizer",), GONE, ["optimizer: found nothing"]),
        (("optimizer", "type"), "adam", ["optimizer.type", "'adam'", "did you mean 'Adam'"]),
        (("optimizer", "global_update"), True, ["optimizer.global_update", "update_type"]),
        (
            ("optimizer", "adam_hparam", "beta"),
            0.9,
            ["optimizer.adam_hparam.beta: unknown key", "did you mean 'beta"],
        ),
        (("optimizer", "adam_hparam", "beta1"), 1.5, ["optimizer.adam_hparam.beta1", "1.5", "< 1"]),
        (
            ("optimizer", "adam_hparam", "learning_rate"),
            "x",
            ["optimizer.adam_hparam.learning_rate", "'x'", "number"],
        ),
        (("layers",), {}, ["layers", "found {}", "array"]),
        (("layers",), [], ["layers", "found []", "Data layer"]),
        (("layers", 0, "type"), "data", ["layers[0].type", "'data'", "'Data'"]),
        (("layers", 0, "source"), GONE, ["layers[0].source", "nothing", "file list"]),
        (("layers", 0, "check"), "sum", ["layers[0].check", "'sum'", "'Sum'"]),
        (("layers", 0, "format"), "Csv", ["layers[0].format", "Csv", "Norm"]),
        (("layers", 0, "label", "label_dim"), GONE, ["layers[0].label.label_dim", "nothing"]),
        (("layers", 0, "dense", "dim"), 3, ["layers[0].dense.dim: unknown", "dense_dim"]),
        ((*SPARSE, "slot_num"), 0, ["layers[0].sparse[0].slot_num", "found 0", "from 1 to"]),
        ((*SPARSE, "type"), "Slot", ["layers[0].sparse[0].type", "'DistributedSlot'"]),
        (("layers", 0, "sparse", 0), 7, ["layers[0].sparse[0]", "found 7", "object"]),
        (("layers", 1, "bottom"), "kees", ["layers[1].bottom", "'kees'", "did you mean 'keys'"]),
        (("layers", 1, "top"), "label", ["layers[1].top", "'label'", "no other tensor"]),
        (
            ("layers", 1, "type"),
            "HybridSparseEmbedding",
            ["slot_size_array", "which HybridSparseEmbedding needs"],
        ),
        (
            (*HPARAM, "embedding_vec_size"),
            2000,
            ["layers[1].sparse_embedding_hparam.embedding_vec_size", "2000", "1024"],
        ),
        (
            (*HPARAM, "max_vocabulary_size_per_gpu"),
            GONE,
            ["layers[1].sparse_embedding_hparam.workspace_size_per_gpu_in_mb", "nothing", "rows"],
        ),
        (
            (*HPARAM, "combiner"),
            "max",
            ["layers[1].sparse_embedding_hparam.combiner", "'max'", "'mean'"],
        ),
        (
            (*HPARAM, "exchange"),
            "all",
            ["layers[1].sparse_embedding_hparam.exchange", "'all'", "unique"],
        ),
        (
            (*HPARAM, "wire"),
            "int8",
            ["layers[1].sparse_embedding_hparam.wire", "'int8'", "fp8"],
        ),
        (
            (*HPARAM, "vocab"),
            1,
            ["layers[1].sparse_embedding_hparam.vocab: unknown key", "embedding_vec_size"],
        ),
        (("layers", 2, "leading_dim"), GONE, ["layers[2].leading_dim", "nothing", ">= 0"]),
        (("layers", 2, "selected"), [], ["layers[2].selected", "[]", "at least one slot"]),
        (("layers", 3, "type"), "Konkat", ["layers[3].type", "did you mean 'Concat'"]),
        (("layers", 3, "type"), "GRU", ["layers[3].gru_param.num_output", "nothing", ">= 1"]),
        (("layers", 3, "bottom"), ["flat", 3], ["layers[3].bottom", "list of strings"]),
        (("layers", 4, "fc_param"), {}, ["layers[4].fc_param.num_output", "nothing", ">= 1"]),
        (
            ("layers", 4, "fc_param"),
            {"num_outputs": 3},
            ["layers[4].fc_param.num_output", "there is 'num_outputs'", ">= 1"],
        ),
        (
            ("layers", 4, "fc_param", "weight_init"),
            "Xavier",
            ["layers[4].fc_param.weight_init", "'Xavier'", "'XavierNorm'"],
        ),
        (("layers", 5, "rate"), 0.5, ["layers[5].rate: unknown key"]),
        (
            ("layers", 1, "placement"),
            "one_device",
            ["layers[1].placement: unknown key", "belongs into layers[1].sparse_embedding_hparam"],
        ),
        (("layers", 6, "rate"), 1.0, ["layers[6].rate", "1.0", "< 1"]),
        (("layers", 8, "regularizer"), "L3", ["layers[8].regularizer", "'L3'", "'L2'"]),
        (("layers", 8, "lambda"), GONE, ["layers[8].lambda", "nothing", ">= 0"]),
        (("layer",), [], ["layer: unknown key", "did you mean 'layers'"]),
    ],
)
def test_complaints(config, write_json, path, value, words):
    change(config, path, value)
    with pytest.raises(hugectr.InvalidArgument) as caught:
        build_model(read_config(write_json(config)))
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_damaged_json_is_placed(write_json, tmp_path):
    with pytest.raises(hugectr.InvalidArgument, match="line 2, column 7"):
        read_config(write_json('{"solver":\n {"a" 1}}'))
    with pytest.raises(hugectr.InvalidArgument, match="'a' stands twice"):
        read_config(write_json('{"a": 1, "a": 2}'))
    with pytest.raises(hugectr.InvalidArgument, match="can not be read"):
        read_config(tmp_path / "none.json")


def test_a_config_becomes_a_model(config, write_json):
    parsed = read_config(write_json(config))
    solver = parsed.solver.to_solver(parsed.optimizer.schedule)
    assert solver.metrics_spec == {
        hugectr.MetricsType.AUC: 0.99,
        hugectr.MetricsType.AverageLoss: 1.0,
    }
    assert (solver.batchsize, solver.vvgpu, solver.lr) == (64, [[0, 1]], 0.01)
    table = parsed.layers.embeddings[0]
    assert (table.combiner, table.rows_per_gpu) == ("sum", 1000)
    first = parsed.layers.dense[2]
    assert first.parameters["weight_init_type"] is hugectr.Initializer_t.XavierUniform
    assert first.parameters["bias_init_type"] is hugectr.Initializer_t.Default


def test_every_metric_of_the_catalogue_is_a_string(config, write_json):
    plain = ["LogLoss", "Calibration", "AverageLoss", "NDCG", "SMAPE", "GAUC", "MSE", "Accuracy"]
    config["solver"]["eval_metrics"] = ["AUC:0.8", "HitRate:0.5", *plain]
    parsed = read_config(write_json(config))
    spec = parsed.solver.to_solver(parsed.optimizer.schedule).metrics_spec
    assert {metric.name: threshold for metric, threshold in spec.items()} == {
        "AUC": 0.8,
        "HitRate": 0.5,
        **dict.fromkeys(plain, 1.0),
    }
    assert {metric.name for metric in spec} == set(_core.metrics())


def test_run_length(config, write_json):
    del config["solver"]["max_iter"]
    parsed = read_config(write_json(config)).solver
    assert (parsed.repeat_dataset, parsed.num_epochs, parsed.batchsize) == (False, 1, 64)
    config["solver"]["num_epochs"] = 3
    assert read_config(write_json(config)).solver.num_epochs == 3


def test_eval_samples_become_batches(config, write_json):
    del config["solver"]["max_eval_batches"]
    config["solver"]["max_eval_samples"] = 130
    assert read_config(write_json(config)).solver.max_eval_batches == 3


def test_arguments_of_the_helper_win(config, write_json):
    given = hugectr.solver_parser_helper(batchsize=32, repeat_dataset=True, seed=0)
    merged = read_config(write_json(config), given).solver
    assert (merged.batchsize, merged.batchsize_eval, merged.seed) == (32, 64, 0)
    assert merged.vvgpu == [[0, 1]]
    assert merged.max_eval_batches == 2
    del config["solver"]
    assert read_config(write_json(config), given).solver.batchsize == 32


def test_complaint_about_a_helper_argument_names_it(config, write_json):
    given = hugectr.solver_parser_helper(batchsize=33)
    with pytest.raises(hugectr.InvalidArgument, match="solver_parser_helper: batchsize"):
        build_model(read_config(write_json(config), given))


def test_scheduler_of_a_config(config, write_json):
    config["optimizer"] = {
        "type": "SGD",
        "sgd_hparam": {"learning_rate": 1.0, "warmup_steps": 4, "atomic_update": False},
    }
    scheduler = hugectr.get_learning_rate_scheduler(write_json(config))
    assert [scheduler.get_next() for _ in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_solver_parser(config, write_json):
    solver = hugectr.SolverParser(write_json(config))
    assert (solver.batchsize, solver.max_iter, solver.i64_input_key) == (64, 21, False)


@pytest.mark.parametrize(
    ("keys", "dtype", "scaler", "dynamic"),
    [
        ({"mixed_precision": 512}, "float16", 512.0, False),
        ({"mixed_precision": 1}, "float16", 1.0, False),
        ({"mixed_precision_type": "bfloat16"}, "bfloat16", 1.0, False),
        ({"mixed_precision": 1024, "mixed_precision_type": "bfloat16"}, "bfloat16", 1024.0, False),
        (
            {"mixed_precision_type": "float16", "dynamic_loss_scaling": True},
            "float16",
            1.0,
            True,
        ),
        ({"enable_tf32_compute": True}, "float32", 1.0, False),
    ],
)
def test_precision(config, write_json, keys, dtype, scaler, dynamic):
    config["solver"] |= keys
    parsed = read_config(write_json(config))
    solver = parsed.solver.to_solver(parsed.optimizer.schedule)
    assert solver.compute_dtype == dtype
    assert (solver.scaler, solver.dynamic_loss_scaling) == (scaler, dynamic)
    assert solver.to_spec()["tf32"] == ("enable_tf32_compute" in keys)


def test_how_vectors_travel(config, write_json):
    config["solver"] |= {"wire": "bf16", "micro_batches": 2}
    parsed = read_config(write_json(config))
    solver = parsed.solver.to_solver(parsed.optimizer.schedule)
    assert (solver.wire, solver.micro_batches) == ("bf16", 2)
    config["solver"] |= {"micro_batches": 0}
    with pytest.raises(hugectr.InvalidArgument, match=r"solver\.micro_batches.*0"):
        read_config(write_json(config))


def test_known_keys_without_effect_are_accepted(config, write_json):
    config["solver"] |= {"cuda_graph": False, "algorithm_search": True, "async_mlp_wgrad": True}
    config["layers"][1]["plan_file"] = "all2all.json"
    config["inference"] = {"max_batchsize": 1}
    assert json.dumps(config)
    assert read_config(write_json(config)).layers.embeddings
