// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "core/cpp/memory/dlpack.hpp"
#include "core/cpp/model/session.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {
namespace {

constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

std::vector<float> values_of(const TensorView& view) {
  wait_until_ready(view);
  std::vector<float> values;
  for (std::size_t r = 0; r < view.ref.rows(); ++r) {
    const float* const row = view.ref.row<float>(r);
    values.insert(values.end(), row, row + view.ref.row_size());
  }
  return values;
}

TEST(SessionViews, ShowWhatTheSessionHolds) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24 * 4, 1)};
  Session session(small_solver(2), reader, small_model(kLocalized, Optimizer::Adam));
  losses(session, 5);
  std::vector<float> weights, tensor;
  for (const std::string& name : session.network().weight_names()) {
    const auto part = values_of(session.network().weight_view(name, 1));
    weights.insert(weights.end(), part.begin(), part.end());
  }
  EXPECT_EQ(weights, session.network().dense_weights());
  for (const std::size_t device : {0, 1}) {
    const auto part = values_of(session.network().tensor_view("relu1", true, device));
    tensor.insert(tensor.end(), part.begin(), part.end());
  }
  EXPECT_EQ(tensor, session.network().check_out_tensor("relu1", true, nullptr));
  EXPECT_THROW(session.network().tensor_view("relu1", true, 2), InvalidArgument);
  EXPECT_THROW(session.network().weight_view("fc1", 0), InvalidArgument);
  EXPECT_THROW(session.table(1).view(0), InvalidArgument);
  EXPECT_THROW(session.wait_for_stream(nullptr), InvalidArgument);
}

TEST(SessionViews, TheLastViewTakesTheModelAlongInAnyThread) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24 * 4, 1)};
  std::optional<Session> session(std::in_place, small_solver(2), reader,
                                 small_model(kLocalized, Optimizer::Adam));
  losses(*session, 3);
  const TableViews table = session->table(0).view(0);
  const std::vector<float> vectors = values_of(table.vectors);
  TensorView view = session->network().tensor_view("relu1", true, 0);
  dlpack::DLManagedTensor* const shared = dlpack::export_tensor(view.ref, view.owner);
  session->train();  // leaves work queued and a plan under way
  view = {};
  session.reset();
  EXPECT_EQ(table.vectors.ref.rows(), vectors.size() / table.vectors.ref.row_size());
  // Nothing has run since, so the memory holds what the last step left.
  EXPECT_EQ(values_of(table.vectors).size(), vectors.size());
  ASSERT_EQ(shared->dl_tensor.shape[0], 12);
  const auto* const data = static_cast<const float*>(shared->dl_tensor.data);
  for (int i = 0; i < 12 * 8; ++i) EXPECT_GE(data[i], 0.0f);
  std::thread([&] { shared->deleter(shared); }).join();
}

TEST(SessionViews, AWeightIsSetOnEveryDevice) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24 * 4, 1)};
  Session session(small_solver(3), reader, small_model(kLocalized, Optimizer::SGD));
  const TensorRef weight = session.network().weight_view("fc1.weight", 0).ref;
  std::vector<float> values(weight.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i);
  session.network().set_weight("fc1.weight",
                               {make_ref(values.data(), weight.shape), nullptr, nullptr});
  for (const std::size_t device : {0, 1, 2}) {
    EXPECT_EQ(values_of(session.network().weight_view("fc1.weight", device)), values);
  }
  EXPECT_THROW(
      session.network().set_weight("fc1.weight", {make_ref(values.data(), {1}), nullptr, nullptr}),
      InvalidArgument);
}

}  // namespace
}  // namespace hugectr
