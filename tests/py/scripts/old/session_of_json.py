# SPDX-License-Identifier: Apache-2.0
import hugectr

solver_config = hugectr.solver_parser_helper(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    model_file="",
    embedding_files=[],
    vvgpu=[[0, 1]],
    use_mixed_precision=False,
    scaler=1.0,
    i64_input_key=False,
    use_algorithm_search=True,
    use_cuda_graph=True,
    repeat_dataset=True,
)
lr_sch = hugectr.get_learning_rate_scheduler("session_v30.json")
sess = hugectr.Session(solver_config, "session_v30.json")
sess.start_data_reading()
for i in range(300):
    sess.set_learning_rate(lr_sch.get_next())
    sess.train()
    if i % 100 == 0:
        print("[HUGECTR][INFO] iter: {}; loss: {}".format(i, sess.get_current_loss()))
    if i == 250:
        sess.check_overflow()
        sess.copy_weights_for_evaluation()
        for _ in range(solver_config.max_eval_batches):
            sess.eval()
        metrics = sess.get_eval_metrics()
sess.download_params_to_files("./v30", 60)
again = sess.evaluation("predictions.txt", "labels.txt")
model = sess.model
