# SPDX-License-Identifier: Apache-2.0
"""The older Session, as scripts use it."""

import pytest

import hugectr


@pytest.mark.parametrize("budget", ["max_vocabulary_size_per_gpu", "workspace_size_per_gpu_in_mb"])
@pytest.mark.parametrize("own_solver", [True, False])
def test_the_loop_of_old_scripts(config, write_json, tmp_path, budget, own_solver):
    hparam = config["layers"][1]["sparse_embedding_hparam"]
    del hparam["max_vocabulary_size_per_gpu"]
    hparam[budget] = 1 if budget.startswith("workspace") else 1000
    if not own_solver:
        del config["solver"]
    json_config_file = str(write_json(config))
    solver_config = hugectr.solver_parser_helper(
        batchsize=64, batchsize_eval=64, vvgpu=[[0, 1, 2, 3, 4, 5, 6, 7]], repeat_dataset=True
    )
    sess = hugectr.Session(solver_config, json_config_file)
    sess.start_data_reading()
    losses = []
    for i in range(200):
        sess.train()
        if i % 10 == 0:
            losses.append(sess.get_current_loss())
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    for _ in range(2):
        assert sess.eval()
    assert 0.5 < dict(sess.get_eval_metrics())["AUC"] <= 1.0
    sess.check_overflow()
    sess.copy_weights_for_evaluation()
    sess.set_learning_rate(0.5)
    assert sess.get_params_num() > 200
    prefix = str(tmp_path / "out" / "m")
    sess.download_params_to_files(prefix, 7)
    metrics = sess.evaluation()
    again = hugectr.Session(
        hugectr.solver_parser_helper(
            batchsize=64,
            batchsize_eval=64,
            max_eval_batches=sess.model.solver.max_eval_batches,
            model_file=f"{prefix}_dense_7.model",
            embedding_files=[f"{prefix}0_sparse_7.model"],
        ),
        json_config_file,
    )
    assert again.evaluation()[0] == pytest.approx(metrics[0])


def test_epoch_mode(config, write_json):
    solver_config = hugectr.solver_parser_helper(
        batchsize=64, batchsize_eval=64, repeat_dataset=False
    )
    sess = hugectr.Session(solver_config, str(write_json(config)))
    for _ in range(2):
        sess.get_data_reader_train().set_source()
        steps = 0
        while sess.train():
            steps += 1
        assert steps == 4
        assert sess.get_data_reader_train().is_eof()


def test_wrong_first_argument(config, write_json):
    with pytest.raises(hugectr.InvalidArgument, match="solver_parser_helper"):
        hugectr.Session(hugectr.CreateSolver(), str(write_json(config)))


def test_the_oversubscriber_of_old_scripts(config, write_json, tmp_path):
    path = str(write_json(config))
    settings = {"batchsize": 64, "batchsize_eval": 64, "use_model_oversubscriber": True}
    solver = hugectr.solver_parser_helper(**settings)
    sess = hugectr.Session(solver, path, True, str(tmp_path))
    oversubscriber = sess.get_model_oversubscriber()
    keyset = tmp_path / "keyset"
    keyset.write_bytes(bytes(4 * 10))
    oversubscriber.update([str(keyset)])
    for _ in range(5):
        assert sess.train()
    oversubscriber.store([str(tmp_path / "table")])
    assert sorted(file.name for file in (tmp_path / "table").iterdir()) == ["emb_vector", "key"]
    assert sess.model.table_stats()[0]["max_rows"] == 0

    again = hugectr.Session(
        hugectr.solver_parser_helper(**settings, embedding_files=[str(tmp_path / "table")]), path
    )
    found, wanted = (s.model.session.table(0).dump(False) for s in (again, sess))
    assert found["keys"].tolist() == wanted["keys"].tolist()
    assert (found["vectors"] == wanted["vectors"]).all()
    new = hugectr.solver_parser_helper(**settings, embedding_files=[str(tmp_path / "new")])
    assert len(hugectr.Session(new, path).model.session.table(0).order()) == 0
    plain = hugectr.Session(hugectr.solver_parser_helper(batchsize=64, batchsize_eval=64), path)
    with pytest.raises(hugectr.InvalidArgument, match="use_model_oversubscriber=True"):
        plain.get_model_oversubscriber()
