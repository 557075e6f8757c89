// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <hugectr/hugectr.hpp>
#include <memory>
#include <optional>
#include <vector>

int main() {
  auto data = std::make_shared<hugectr::MemoryData>();  // three samples: two keys, one number
  data->samples = 3;
  data->label = {0.0f, 1.0f, 1.0f};
  data->dense = {0.1f, 0.7f, 0.4f};
  data->sparse = {{.keys = {1, 7, 2, 8, 1, 8}, .row_offsets = {0, 1, 2, 3, 4, 5, 6}}};

  hugectr::ModelSpec model;
  model.input = {.label_name = "label", .dense_name = "number", .dense_dim = 1};
  model.input.sparse = {{.top_name = "keys", .nnz_per_slot = {1, 1}, .slot_num = 2}};
  model.embeddings.emplace_back();
  model.embeddings[0].embedding_vec_size = 4;
  model.embeddings[0].name = "vectors";
  model.embeddings[0].bottoms = {"keys"};
  model.layers = {{"Reshape", {"vectors"}, {"flat"}, {{"leading_dim", std::int64_t{8}}}},
                  {"Concat", {"flat", "number"}, {"features"}, {}},
                  {"InnerProduct", {"features"}, {"logit"}, {{"num_output", std::int64_t{1}}}},
                  {"BinaryCrossEntropyLoss", {"logit", "label"}, {"loss"}, {}}};
  hugectr::SolverSpec solver;
  solver.batchsize = solver.batchsize_eval = 3;
  hugectr::Session training(solver, hugectr::ReaderSpec{.memory = data}, model);
  for (int step = 0; step < 500; ++step) training.train();

  model.trains = false;                                   // no gradients, no optimizer states
  hugectr::Session session(solver, std::nullopt, model);  // and no reader
  session.network().set_dense_weights(training.network().dense_weights());
  session.network().set_non_trainables(training.network().non_trainables());
  session.table(0).load(training.table(0).dump(false));
  const hugectr::Predictor predictor(session);  // for any number of threads
  for (const float p : predictor.predict(*data)) std::printf("%.3f\n", p);
}
