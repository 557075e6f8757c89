// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/serving/trained_model.hpp"

#include <gtest/gtest.h>

namespace hugectr {

ModelSpec many_hot_model(EmbeddingType type) {
  ModelSpec model = small_model(type, Optimizer::Adam);
  model.input.sparse[0].nnz_per_slot = {3, 3, 3};
  model.embeddings[0].combiner = Combiner::Mean;
  model.layers[3].bottoms = {"normed"};
  const DenseLayerSpec norm{"BatchNorm",
                            {"fc1"},
                            {"normed"},
                            {{"factor", AttributeValue(0.1)}, {"eps", AttributeValue(1e-4)}}};
  model.layers.insert(model.layers.begin() + 3, norm);
  return model;
}

std::shared_ptr<MemoryData> many_hot_data(std::size_t samples, std::uint32_t seed) {
  const auto data = random_data(samples, seed);
  std::mt19937 random(seed + 1);
  MemoryData::Sparse sparse;
  sparse.row_offsets.push_back(0);
  for (std::size_t bucket = 0; bucket < 3 * samples; ++bucket) {
    const auto slot = static_cast<std::int64_t>(bucket % 3);
    for (auto left = random() % 4; left > 0; --left) {
      sparse.keys.push_back(slot * 40 + static_cast<std::int64_t>(random() % 40));
    }
    sparse.row_offsets.push_back(sparse.keys.size());
  }
  data->sparse = {sparse};
  return data;
}

std::unique_ptr<Session> trained(const SolverSpec& solver, const ModelSpec& model,
                                 const std::shared_ptr<MemoryData>& data) {
  auto session = std::make_unique<Session>(
      solver, ReaderSpec{.num_workers = 1, .memory = data, .eval_memory = data}, model);
  losses(*session, 3);  // not all of the data: some keys have no row
  return session;
}

std::unique_ptr<Session> for_prediction(Session& from, const SolverSpec& solver, ModelSpec model) {
  model.trains = false;
  auto session = std::make_unique<Session>(solver, std::nullopt, model);
  session->network().set_dense_weights(from.network().dense_weights());
  session->network().set_non_trainables(from.network().non_trainables());
  for (std::size_t i = 0; i < session->num_tables(); ++i) {
    session->table(i).load(from.table(i).dump(false));
  }
  return session;
}

std::vector<float> evaluated(Session& session, const std::string& tensor, std::size_t samples) {
  session.reader().set_eval_source("");
  std::vector<float> values;
  Shape shape;
  while (values.size() < samples * (shape.empty() ? 1 : num_elements(shape) / shape[0])) {
    EXPECT_TRUE(session.eval());
    const std::vector<float> batch = session.network().check_out_tensor(tensor, false, &shape);
    values.insert(values.end(), batch.begin(), batch.end());
  }
  values.resize(samples * (num_elements(shape) / shape[0]));
  return values;
}

std::shared_ptr<MemoryData> reordered(const MemoryData& data,
                                      const std::vector<std::size_t>& order) {
  auto result = std::make_shared<MemoryData>();
  const std::size_t n = data.samples;
  const std::size_t labels = data.label.size() / n, dense = data.dense.size() / n;
  const std::size_t slots = (data.sparse[0].row_offsets.size() - 1) / n;
  result->samples = order.size();
  result->sparse.resize(1);
  auto& [keys, offsets] = result->sparse[0];
  const auto& [old_keys, old_offsets] = data.sparse[0];
  offsets.push_back(0);
  for (const std::size_t i : order) {
    for (std::size_t k = 0; k < labels; ++k) result->label.push_back(data.label[i * labels + k]);
    for (std::size_t k = 0; k < dense; ++k) result->dense.push_back(data.dense[i * dense + k]);
    for (std::size_t s = i * slots; s < (i + 1) * slots; ++s) {
      for (std::size_t k = old_offsets[s]; k < old_offsets[s + 1]; ++k) keys.push_back(old_keys[k]);
      offsets.push_back(keys.size());
    }
  }
  return result;
}

}  // namespace hugectr
