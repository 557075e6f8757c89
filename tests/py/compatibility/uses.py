# SPDX-License-Identifier: Apache-2.0
"""Uses of what stands in files: sessions, formats, the training cache, collections, inference."""

#: The older Session, with a config of one table.
SESSION = {
    "train": "session().train()",
    "eval": "session().eval()",
    "get_eval_metrics": "s = session(); s.eval(); s.get_eval_metrics()",
    "evaluation": "session().evaluation('p.txt', 'l.txt')",
    "get_current_loss": "s = session(); s.train(); s.get_current_loss()",
    "set_learning_rate": "session().set_learning_rate(0.1)",
    "start_data_reading": "session().start_data_reading()",
    "download_params_to_files": "session().download_params_to_files('s', 1)",
    "init_params": "s = session(); s.download_params_to_files('s', 1); "
    "s.init_params('s_dense_1.model')",
    "get_params_num": "session().get_params_num()",
    "check_overflow": "session().check_overflow()",
    "copy_weights_for_evaluation": "session().copy_weights_for_evaluation()",
    "get_data_reader_train": "session(repeat_dataset=False).get_data_reader_train().set_source()",
    "get_data_reader_eval": "session(repeat_dataset=False).get_data_reader_eval().set_source()",
    "get_model_oversubscriber": "s = session(use_model_oversubscriber=True, "
    "repeat_dataset=False); s.get_model_oversubscriber().store(['over'])",
    "get_learning_rate_scheduler": "hugectr.get_learning_rate_scheduler(config()).get_next()",
    "LearningRateScheduler": "hugectr.LearningRateScheduler(0.1, 2, 4, 4, 2.0, 0.0).get_next()",
    "SolverParser": "hugectr.SolverParser(config())",
}
#: Formats as the generator writes them and readers read them.
FORMATS = {
    "Norm": "read(T.Norm, 'Sum')",
    "Norm, Check_t.Non": "read(T.Norm, check_type=hugectr.Check_t.Non)",
    "Norm, i64_input_key": "read(T.Norm, 'Sum', i64_input_key=True)",
    "Norm, nnz_array": "read(T.Norm, 'Sum', nnz_array=[2, 1, 2, 1])",
    "Raw": "read(T.Raw)",
    "Raw, float_label_dense": "read(T.Raw, float_label_dense=True)",
    "RawAsync": "read(T.RawAsync)",
    "Parquet (file list)": "read(T.Parquet)",
    "Parquet (file list), i64_input_key": "read(T.Parquet, i64_input_key=True)",
    "Parquet (folder)": "read(T.Parquet, source='train', eval_source='eval')",
    "Distribution_t.Uniform": "read(T.Norm, 'Sum', dist_type=hugectr.Distribution_t.Uniform)",
    **{
        f"PowerLaw_t.{kind}": f"read(T.Norm, 'Sum', power_law_type=hugectr.PowerLaw_t.{kind})"
        for kind in ("Long", "Medium", "Short", "Specific")
    },
}
#: A model with an embedding training cache over two sources with keysets.
TRAINING_CACHE = {
    "fit": "cached().fit(num_epochs=1)",
    "TrainPSType_t.Cached": "cached(ps_types=[hugectr.TrainPSType_t.Cached], local_paths=['./'], "
    "sparse_models=['new'], hmem_cache_configs=[hugectr.CreateHMemCache(2, 0.5, 0)]).train()",
    "update (a file)": "cached().get_embedding_training_cache().update('keyset')",
    "update (a list)": "cached().get_embedding_training_cache().update(['keyset', 'keyset'])",
    "get_incremental_model": "c = cached(); c.train(); c.get_incremental_model()",
}
#: Embedding collections, trained.
COLLECTION = {
    "embedding_lookup": "collection()",
    "embedding_lookup (combiner concat)": "collection('concat')",
    "embedding_lookup (lists)": "collection()",
    "max_vocabulary_size of -1": "collection()",
    "a table, an input and a top of one name": "collection(names=('a', 'a', 'a_vector'))",
    "a table and its top of one name": "collection(names=('first', 'a', 'first'))",
    "shard (mp)": "collection(shard_matrix=[['first', 'second']], "
    "shard_strategy=[('mp', ['first', 'second'])])",
    "shard (dp), compression_strategy": "collection(shard_matrix=[['first', 'second']], "
    "shard_strategy=[('mp', ['first']), ('dp', ['second'])], compression_strategy={"
    "hugectr.CompressionStrategy.Reduction: ['first'], hugectr.CompressionStrategy.Unique: []})",
    "use_exclusive_keys, comm_strategy": "hugectr.EmbeddingCollectionConfig("
    "use_exclusive_keys=True, comm_strategy=hugectr.CommunicationStrategy.Hierarchical)",
    "opt_params_or_empty": "hugectr.EmbeddingTableConfig('a', 10, 4, hugectr.CreateOptimizer())",
    "init_param_or_empty (Uniform)": "hugectr.EmbeddingTableConfig("
    "'a', 10, 4, init_param_or_empty=hugectr.Uniform(0.1))",
    "init_param_or_empty (Sinusoidal)": "hugectr.EmbeddingTableConfig("
    "'a', 10, 4, init_param_or_empty=hugectr.Sinusoidal())",
}
_DATA = "num_batches=2, source='eval.txt', data_reader_type=T.Norm, check_type=hugectr.Check_t.Sum"
#: An inference session of saved files.
INFERENCE_CALLS = {
    "CreateInferenceSession": "inference_session()",
    "predict (files)": f"inference_session().predict({_DATA})",
    "predict (lists)": "inference_session().predict([0.5] * 3, [0, 60, 110, 160], [0, 1, 2, 3, 4])",
    "predict (lists, i64_input_key)": "inference_session().predict("
    "[0.5] * 3, [0, 60, 110, 160], [0, 1, 2, 3, 4], True)",
    "evaluate": f"inference_session().evaluate({_DATA})",
    "refresh_embedding_cache": "inference_session().refresh_embedding_cache()",
}
