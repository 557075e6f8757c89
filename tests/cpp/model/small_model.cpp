// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {

std::shared_ptr<MemoryData> random_data(std::size_t samples, std::uint32_t seed,
                                        std::int64_t first_key) {
  std::mt19937 random(seed);
  auto data = std::make_shared<MemoryData>();
  data->samples = samples;
  data->sparse.resize(1);
  MemoryData::Sparse& sparse = data->sparse[0];
  for (std::size_t i = 0; i < samples; ++i) {
    float score = 0.0f;
    for (int slot = 0; slot < 3; ++slot) {
      const auto key = static_cast<std::int64_t>(random() % 40);
      score += key % 3 == 0 ? 1.0f : -0.6f;
      sparse.row_offsets.push_back(sparse.keys.size());
      sparse.keys.push_back(first_key + slot * 40 + key);
    }
    for (int j = 0; j < 2; ++j) {
      data->dense.push_back(static_cast<float>(random() % 1000) / 500.0f - 1.0f);
    }
    data->label.push_back(score + data->dense.back() > 0.0f ? 1.0f : 0.0f);
  }
  sparse.row_offsets.push_back(sparse.keys.size());
  return data;
}

ModelSpec small_model(EmbeddingType type, Optimizer optimizer, std::size_t max_rows) {
  ModelSpec model;
  model.input.label_name = "label";
  model.input.dense_name = "dense";
  model.input.dense_dim = 2;
  model.input.sparse = {
      {.top_name = "data", .nnz_per_slot = {1, 1, 1}, .is_fixed_length = false, .slot_num = 3}};
  SparseEmbeddingSpec embedding;
  embedding.type = type;
  embedding.max_vocabulary_size_per_gpu = max_rows;
  embedding.embedding_vec_size = 4;
  embedding.name = "emb";
  embedding.bottoms = {"data"};
  model.embeddings = {embedding};
  const auto number = [](std::int64_t value) { return AttributeValue(value); };
  model.layers = {
      {"Reshape", {"emb"}, {"flat"}, {{"leading_dim", number(12)}}},
      {"Concat", {"flat", "dense"}, {"both"}, {}},
      {"InnerProduct", {"both"}, {"fc1"}, {{"num_output", number(8)}}},
      {"ReLU", {"fc1"}, {"relu1"}, {}},
      {"InnerProduct", {"relu1"}, {"fc2"}, {{"num_output", number(1)}}},
      {"BinaryCrossEntropyLoss", {"fc2", "label"}, {"loss"}, {}},
  };
  model.opt_params.optimizer = optimizer;
  model.opt_params.update_type = Update::Local;
  return model;
}

SolverSpec small_solver(int devices) {
  SolverSpec solver;
  solver.seed = 5;
  solver.batchsize = solver.batchsize_eval = 24;
  solver.vvgpu = {{}};
  for (int i = 0; i < devices; ++i) solver.vvgpu[0].push_back(i);
  solver.lr.base_lr = 0.05;
  return solver;
}

std::vector<float> losses(Session& session, int steps) {
  std::vector<float> values;
  for (int i = 0; i < steps; ++i) {
    session.train();
    values.push_back(session.get_current_loss());
  }
  return values;
}

}  // namespace hugectr
