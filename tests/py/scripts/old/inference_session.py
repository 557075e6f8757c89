# SPDX-License-Identifier: Apache-2.0
import numpy as np

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams

solver = hugectr.CreateSolver(
    seed=3,
    model_name="net",
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.005,
    vvgpu=[[0]],
    repeat_dataset=True,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Norm,
    source=["./norm/file_list.txt"],
    eval_source="./norm/file_list_test.txt",
    check_type=hugectr.Check_t.Sum,
)
model = hugectr.Model(solver, reader, hugectr.CreateOptimizer())
model.construct_from_json("graph.json", True)
model.compile()
model.fit(max_iter=40, display=20, eval_interval=1000, snapshot=1000)
model.graph_to_json("net.json")
model.save_params_to_files("net", 40)
for _ in range(4):
    model.eval()
    model.export_predictions("net_predictions.txt", "net_labels.txt")
auc = dict(model.get_eval_metrics())["AUC"]

inference_params = InferenceParams(
    model_name="net",
    max_batchsize=128,
    hit_rate_threshold=1.0,
    dense_model_file="./net_dense_40.model",
    sparse_model_files=["./net0_sparse_40.model"],
    device_id=0,
    use_gpu_embedding_cache=True,
    cache_size_percentage=0.2,
    i64_input_key=False,
    use_mixed_precision=False,
)
inference_session = CreateInferenceSession("net.json", inference_params)
predictions = inference_session.predict(
    num_batches=4,
    source="./norm/file_list_test.txt",
    data_reader_type=hugectr.DataReaderType_t.Norm,
    check_type=hugectr.Check_t.Sum,
)
grount_truth = np.loadtxt("net_predictions.txt")
np.testing.assert_allclose(predictions, grount_truth, atol=1e-6)
assert np.loadtxt("net_labels.txt").shape == (512,)
found = inference_session.evaluate(
    4, "./norm/file_list_test.txt", hugectr.DataReaderType_t.Norm, hugectr.Check_t.Sum
)
assert abs(found - auc) < 1e-5
inference_session.refresh_embedding_cache()
one = inference_session.predict([0.5] * 26, list(range(52)), list(range(53)), False)
assert one.shape == (2,)
