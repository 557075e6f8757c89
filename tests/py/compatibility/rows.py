# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""What scripts and configs of v2.3 to 4.x name, with a use of each: section, name, code.

The code is run by ``trial.py``; what comes of it is the row of the page. A row that is accepted
without a word and means nothing has the reason as a fourth item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compatibility.arguments import (
    CACHES,
    DENSE_LAYER,
    GROUP,
    INFERENCE_SIZES,
    INFERENCE_WITHOUT_A_WORD,
)
from compatibility.layers import JSON_LAYERS, LAYERS
from compatibility.uses import COLLECTION, FORMATS, INFERENCE_CALLS, SESSION, TRAINING_CACHE
from compatibility.values import (
    ASYNC,
    EMBEDDING,
    ENUMS,
    GENERATOR,
    HELPER,
    HYBRID,
    INFERENCE,
    JSON_DATA,
    JSON_EMBEDDING,
    JSON_OPTIMIZER,
    JSON_SOLVER,
    OPTIMIZER,
    READER,
    SOLVER,
)

Row = tuple[str, ...]


def arguments(call: str, values: Mapping[str, str], more: str = "") -> list[Row]:
    """A row for every argument of a call: its name, and the call with it alone and ``more``."""
    return [(name, f"{call}({more}{name}={value})") for name, value in values.items()]


def names(owner: str, members: str) -> list[Row]:
    """A row for every attribute of an object."""
    return [(name, f"{owner}.{name}") for name in members.split()]


METHODS = {
    "fit": "compiled().fit(max_iter=2, display=1, eval_interval=1, snapshot=0, snapshot_prefix='')",
    "fit(num_epochs)": "compiled(repeat_dataset=False).fit(num_epochs=1)",
    "compile(loss_names, loss_weights)": "model().compile(['loss'], [1.0])",
    "summary before compile": "model().summary()",
    "start_data_reading": "compiled().start_data_reading()",
    "train": "compiled().train()",
    "train(is_first_batch=True)": "compiled().train(True)",
    "train(is_first_batch=False)": "compiled().train(False)",
    "eval": "compiled().eval()",
    "eval(eval_batch)": "compiled().eval(0)",
    "get_current_loss": "trained().get_current_loss()",
    "get_eval_metrics": "evaluated().get_eval_metrics()",
    "set_learning_rate": "compiled().set_learning_rate(0.1)",
    "get_learning_rate_scheduler": "compiled().get_learning_rate_scheduler().get_next()",
    "reset_learning_rate_scheduler": "compiled().reset_learning_rate_scheduler(base_lr=0.1)",
    "get_data_reader_train().set_source": "epochs().get_data_reader_train().set_source()",
    "get_data_reader_train().is_eof": "epochs().get_data_reader_train().is_eof()",
    "get_data_reader_eval().set_source": "epochs().get_data_reader_eval().set_source()",
    "get_data_reader_eval().is_eof": "epochs().get_data_reader_eval().is_eof()",
    "freeze_embedding": "compiled().freeze_embedding('table')",
    "unfreeze_embedding": "compiled().unfreeze_embedding('table')",
    "freeze_dense": "compiled().freeze_dense()",
    "unfreeze_dense": "compiled().unfreeze_dense()",
    "save_params_to_files": "compiled().save_params_to_files('m', 1)",
    "load_dense_weights": "saved().load_dense_weights('m_dense_1.model')",
    "load_sparse_weights": "saved().load_sparse_weights(['m0_sparse_1.model'])",
    "load_sparse_weights(dict)": "saved().load_sparse_weights({'table': 'm0_sparse_1.model'})",
    "load_dense_optimizer_states": "saved().load_dense_optimizer_states('m_opt_dense_1.model')",
    "load_sparse_optimizer_states": "saved().load_sparse_optimizer_states("
    "['m0_opt_sparse_1.model'])",
    "graph_to_json": "compiled().graph_to_json(graph_config_file='m.json')",
    "construct_from_json": "saved(); empty().construct_from_json('m.json', True)",
    "construct_from_json(include_dense_network=False)": "saved(); "
    "empty().construct_from_json(graph_config_file='m.json', include_dense_network=False)",
    "export_predictions": "evaluated().export_predictions('p.txt', 'l.txt')",
    "check_out_tensor": "trained().check_out_tensor('logit', hugectr.Tensor_t.Train)",
    "set_source(source, eval_source)": "epochs().set_source('', '')",
    "set_source(source, keyset, eval_source)": "cached().set_source(source=['train.txt'], "
    "keyset=['keyset'], eval_source='eval.txt')",
    "get_incremental_model": "compiled().get_incremental_model()",
    "dump_incremental_model_2kafka": "compiled().dump_incremental_model_2kafka()",
    "get_embedding_training_cache": "cached().get_embedding_training_cache()",
    "check_out_tensor(Evaluate)": "evaluated().check_out_tensor('table', hugectr.Tensor_t.Evaluate)",
    "freeze_embedding(all)": "compiled().freeze_embedding()",
    "freeze_embedding(list)": "compiled().freeze_embedding(['table'])",
    "load_sparse_weights(sparse_embedding_files_map)": "saved().load_sparse_weights("
    "sparse_embedding_files_map={'table': 'm0_sparse_1.model'})",
    "load_sparse_optimizer_states(dict)": "saved().load_sparse_optimizer_states("
    "{'table': 'm0_opt_sparse_1.model'})",
    "embedding_load": "c = collection(); c.embedding_dump('dump'); c.embedding_load('dump')",
    "embedding_dump": "collection().embedding_dump('dump', table_names=['first'])",
}
_NO_KNOBS = "the placements that exist have no such knobs"
#: What ``placement="hybrid"`` counts frequent keys by.
_OF_HYBRIDS = (
    "max_num_frequent_categories",
    "p_dup_max",
    "max_all_reduce_bandwidth",
    "max_all_to_all_bandwidth",
    "efficiency_bandwidth_ratio",
    "communication_type",
)
#: (section, what) -> why it means nothing, where it is accepted without a word.
WITHOUT_A_WORD = {
    ("DataReaderParams", "keyset"): "every key of the data is found, whatever the keyset says",
    **{("HybridEmbeddingParam", name): _NO_KNOBS for name in HYBRID if name not in _OF_HYBRIDS},
    **INFERENCE_WITHOUT_A_WORD,
    ("Inference", "scaler"): "nothing trains",
    ("Inference", "deployed_devices"): "a session is on device_id",
    ("JSON: data", "keyset"): "every key of the data is found, whatever the keyset says",
    **{
        ("JSON: embedding", key): _NO_KNOBS
        for key in JSON_EMBEDDING
        if key not in ("workspace_size_per_gpu_in_mb", "slot_size_array", "combiner", *_OF_HYBRIDS)
        and not key.startswith(("combiner", "max_vocabulary"))
    },
}


def sections() -> Iterator[tuple[str, list[Row]]]:
    """Every section of the page, in its order: title, rows."""
    for title, rows in _sections():
        reasons = [WITHOUT_A_WORD.get((title, row[0])) for row in rows]
        yield (
            title,
            [row if why is None else (*row, why) for row, why in zip(rows, reasons, strict=True)],
        )


def _sections() -> Iterator[tuple[str, list[Row]]]:
    precision = [
        ("use_mixed_precision, scaler", "CreateSolver(use_mixed_precision=True, scaler=1024)")
    ]
    yield (
        "CreateSolver",
        [
            *arguments("hugectr.CreateSolver", SOLVER),
            *[(name, "hugectr." + code) for name, code in precision],
        ],
    )
    yield (
        "solver_parser_helper (v3.0)",
        [
            *arguments("hugectr.solver_parser_helper", HELPER),
            (
                "use_mixed_precision, scaler",
                "hugectr.solver_parser_helper(use_mixed_precision=True, scaler=512)",
            ),
        ],
    )
    yield (
        "DataReaderParams",
        [
            *arguments("reader", READER),
            ("source (a list of one)", "reader(source=['a'])"),
            ("source, keyset (several)", "reader(source=['a', 'b'], keyset=['c', 'd'])"),
            ("source (a pathlib.Path)", "reader(source=[Path('a')], eval_source=Path('b'))"),
        ],
    )
    yield "AsyncParam", arguments("hugectr.AsyncParam", ASYNC)
    yield (
        "DataSourceParams",
        arguments(
            "hugectr.DataSourceParams",
            {"server": "'a'", "port": "1", "source": "hugectr.FileSystemType_t.S3"},
        )
        + [
            (
                f"{place} of {kind}",
                f"hugectr.DataReaderParams(T.{kind}, '/a', data_source_params="
                f"hugectr.data.DataSourceParams(hugectr.FileSystemType_t.{place}, 'node', 9000))",
            )
            for kind in ("Parquet", "Norm")
            for place in ("HDFS", "S3", "GCS")
        ],
    )
    yield (
        "DataReaderSparseParam",
        [
            ("nnz_per_slot (a number)", "hugectr.DataReaderSparseParam('a', 2, False, 3)"),
            ("nnz_per_slot (a list)", "hugectr.DataReaderSparseParam('a', [1, 2, 3], False, 3)"),
            ("is_fixed_length", "hugectr.DataReaderSparseParam('a', 2, True, 3)"),
            (
                "v3.0 form",
                "hugectr.DataReaderSparseParam(hugectr.DataReaderSparse_t.Localized, 9, 3, 3)",
            ),
        ],
    )
    yield (
        "Input",
        [
            ("label_dim, dense_dim", "hugectr.Input(1, 'label', 2, 'dense', [sparse()])"),
            (
                "v3.0 form",
                "hugectr.Input(data_reader_type=hugectr.DataReaderType_t.Norm, source='a', "
                "eval_source='b', check_type=hugectr.Check_t.Sum, cache_eval_data=0, num_workers=2, "
                "slot_size_array=[], label_dim=1, label_name='label', dense_dim=2, dense_name='dense', "
                "data_reader_sparse_param_array=[sparse()], sparse_names=['keys'])",
            ),
            (
                "label_dims, label_names, label_weights",
                "hugectr.Input(label_dims=[1, 1], label_names=['a', 'b'], label_weights=[1.0, 2.0], "
                "dense_dim=2, dense_name='dense', data_reader_sparse_param_array=[sparse()])",
            ),
        ],
    )
    yield (
        "SparseEmbedding",
        [
            *arguments("table", EMBEDDING),
            ("combiner (v3.0)", "table(combiner=1)"),
            *[
                (f"Embedding_t.{kind}", f"table(hugectr.Embedding_t.{kind}{more}).to_spec()")
                for kind, more in (
                    ("DistributedSlotSparseEmbeddingHash", ""),
                    ("LocalizedSlotSparseEmbeddingHash", ""),
                    ("LocalizedSlotSparseEmbeddingOneHot", ", slot_size_array=[9, 9]"),
                    ("HybridSparseEmbedding", ", slot_size_array=[9, 9]"),
                )
            ],
        ],
    )
    yield (
        "CreateOptimizer",
        [
            *arguments("hugectr.CreateOptimizer", OPTIMIZER),
            *[
                (f"Optimizer_t.{kind}", f"optimizer(optimizer_type=hugectr.Optimizer_t.{kind})")
                for kind in ["Adam", "AdaGrad", "MomentumSGD", "Nesterov", "SGD", "Ftrl", "RMSProp"]
            ],
            *[
                (f"Update_t.{kind}", f"optimizer(update_type=hugectr.Update_t.{kind})")
                for kind in ["Local", "Global", "LazyGlobal"]
            ],
            (
                "atomic_update",
                "hugectr.CreateOptimizer(atomic_update=False)",
                "updates are deterministic either way",
            ),
            (
                "use_mixed_precision (v3.0)",
                "hugectr.CreateOptimizer(use_mixed_precision=True)",
                "the solver decides",
            ),
            *arguments(
                "hugectr.CreateOptimizer",
                {"beta": "0.1", "lambda1": "0.1", "lambda2": "0.1"},
                "hugectr.Optimizer_t.Ftrl, ",
            ),
            (
                "beta, lambda1, lambda2 of 0 (of another optimizer)",
                "hugectr.CreateOptimizer(beta=0, lambda1=0, lambda2=0)",
            ),
            ("hugectr.optimizer.CreateOptimizer", "hugectr.optimizer.CreateOptimizer()"),
        ],
    )
    yield "Layers", list(LAYERS.items())
    yield "DenseLayer", list(DENSE_LAYER.items())
    yield (
        "GroupDenseLayer",
        list(GROUP.items()),
    )
    yield "HybridEmbeddingParam", arguments("hugectr.HybridEmbeddingParam", HYBRID)
    yield "Model", [*METHODS.items(), ("ModelPerfExt", "hugectr.ModelPerfExt")]
    yield (
        "Metrics",
        [
            (name, f"hugectr.CreateSolver(metrics_spec={{hugectr.MetricsType.{name}: 0.5}})")
            for name in ("AUC", "AverageLoss", "HitRate", "NDCG", "SMAPE")
        ],
    )
    yield "Session (v2.3, v3.0)", list(SESSION.items())
    yield (
        "Data generator",
        arguments(
            "hugectr.tools.DataGeneratorParams",
            GENERATOR,
            "hugectr.DataReaderType_t.Norm, 1, 2, 2, False, 'a', 'b', [10, 20], ",
        ),
    )
    yield "Formats: generated, and trained on", list(FORMATS.items())
    yield (
        "Inference",
        [
            *INFERENCE_SIZES.items(),
            *arguments("inference", INFERENCE),
            *INFERENCE_CALLS.items(),
        ],
    )
    yield (
        "Embedding training cache",
        [
            *CACHES.items(),
            *TRAINING_CACHE.items(),
        ],
    )
    yield (
        "Embedding collection",
        [
            ("EmbeddingTableConfig", "hugectr.EmbeddingTableConfig('a', 10, 4)"),
            ("EmbeddingCollectionConfig", "hugectr.EmbeddingCollectionConfig()"),
            *COLLECTION.items(),
        ],
    )
    for enum, members in ENUMS.items():
        yield f"Enum {enum}", names(f"hugectr.{enum}", members)
    yield (
        "JSON: solver",
        [
            (name, f"json_solver({name.partition(' ')[0]}={value})")
            for name, value in JSON_SOLVER.items()
        ],
    )
    yield (
        "JSON: sections",
        [
            ("model_name", "json_section(model_name='m')"),
            ("inference (v3.0)", "json_section(inference={'max_batchsize': 64})"),
        ],
    )
    yield (
        "JSON: optimizer",
        [
            *[
                (kind, f"json_optimizer({{'type': '{kind}', {hparam}}})")
                for kind, hparam in JSON_OPTIMIZER.items()
            ],
            *[
                (key, f"json_optimizer({{'type': 'Adam', '{key}': {value}}})")
                for key, value in {"update_type": "'LazyGlobal'", "global_update": "True"}.items()
            ],
        ],
    )
    yield (
        "JSON: data",
        [
            *[
                (name, f"json_data({name.partition(' ')[0]}={value})")
                for name, value in JSON_DATA.items()
            ],
            (
                "sparse: max_feature_num_per_sample, max_nnz (v2.3, v3.0)",
                "json_data(sparse=[{'top': 'keys', 'type': 'LocalizedSlot', "
                "'max_feature_num_per_sample': 3, 'max_nnz': 1, 'slot_num': 3}])",
            ),
            (
                "sparse: nnz_per_slot, is_fixed_length",
                "json_data(sparse=[{'top': 'keys', 'type': 'DistributedSlot', 'nnz_per_slot': [1, 2, 1], "
                "'is_fixed_length': False, 'slot_num': 3}])",
            ),
        ],
    )
    yield (
        "JSON: embedding",
        [
            *[
                (name, f"json_embedding({name.partition(' ')[0]}={value})")
                for name, value in JSON_EMBEDDING.items()
            ],
            *[
                (f"type {kind}", f"json_table(type='{kind}'{sizes})")
                for kind, sizes in (
                    ("DistributedSlotSparseEmbeddingHash", ""),
                    ("LocalizedSlotSparseEmbeddingHash", ""),
                    ("LocalizedSlotSparseEmbeddingOneHot", ", slot_size_array=[50] * 4"),
                    ("HybridSparseEmbedding", ", slot_size_array=[50] * 4"),
                )
            ],
            ("optimizer", "json_table(optimizer={'type': 'SGD', 'sgd_hparam': {}})"),
            ("plan_file", "json_table(plan_file='a')"),
            ("max_vocabulary_size_global", "json_embedding(max_vocabulary_size_global=100)"),
        ],
    )
    yield (
        "JSON: layers",
        [
            (name, f"json_layer('{name.partition(' ')[0]}', {ends}, {keys})")
            for name, (ends, keys) in JSON_LAYERS.items()
        ],
    )
    yield (
        "Command",
        [
            ("huge_ctr --version", "huge_ctr(['--version'])"),
            ("huge_ctr --help", "huge_ctr(['--help'])"),
            ("huge_ctr --train", "huge_ctr"),
        ],
    )
