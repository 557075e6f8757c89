# SPDX-License-Identifier: Apache-2.0
import hugectr, json, os
cfg = json.load(open("deepfm_v23.json"))
cfg["solver"].pop("max_iter"); cfg["solver"]["num_epochs"] = 3
json.dump(cfg, open("v30_epoch.json", "w"), indent=2)
solver_config = hugectr.solver_parser_helper(seed = 3, batchsize = 512, batchsize_eval = 512, max_eval_batches = 5, vvgpu = [[0]], repeat_dataset = False, num_epochs = 3)
sess = hugectr.Session(solver_config, "v30_epoch.json")
data_reader_train = sess.get_data_reader_train()
data_reader_eval = sess.get_data_reader_eval()
lr_sch = hugectr.get_learning_rate_scheduler("v30_epoch.json")
data_reader_eval.set_source()
n = 0
for epoch in range(2):
    data_reader_train.set_source()
    while True:
        sess.set_learning_rate(lr_sch.get_next())
        good = sess.train()
        if not good: break
        n += 1
    print("epoch", epoch, n, "Loss:", sess.get_current_loss())
    sess.evaluation(export_predictions_out_file = "sess_pred_%d.txt" % epoch, export_labels_out_file = "sess_label_%d.txt" % epoch)
    print("Evaluation, AUC: %f" % sess.get_eval_metrics()[0][1])

