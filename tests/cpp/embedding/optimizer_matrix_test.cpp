// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/cpp/embedding/reference_table.hpp"

/// Every optimizer x update type x combiner x distribution x key type against the formulas in
/// double, on one, two and three devices.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 12, kSlots = 5, kSteps = 7;
constexpr std::uint64_t kSeed = 7;

using Setting = std::tuple<Optimizer, Update, Combiner, EmbeddingType, bool>;

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  const char* const optimizers[] = {"Adam", "AdaGrad", "MomentumSGD",    "Nesterov",
                                    "SGD",  "Ftrl",    "RowWiseAdaGrad", "RMSProp"};
  const char* const updates[] = {"Local", "Global", "LazyGlobal"};
  const auto [optimizer, update, combiner, type, i64] = info.param;
  return std::string(optimizers[static_cast<int>(optimizer)]) + updates[static_cast<int>(update)] +
         (combiner == Combiner::Sum ? "Sum" : "Mean") +
         (type == EmbeddingType::DistributedSlotSparseEmbeddingHash ? "Distributed" : "Localized") +
         (i64 ? "Int64" : "UInt32");
}

SparseEmbeddingHashParams params_of(const Setting& setting) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.table_id = 3;
  std::tie(p.opt_params.optimizer, p.opt_params.update_type, p.combiner, p.type, p.i64_keys) =
      setting;
  p.slot_num = kSlots;
  p.embedding_vec_size = 7;
  p.opt_params.momentum_factor = 0.9f;
  p.opt_params.initial_accu_value = 0.25f;
  p.opt_params.beta = 0.5f;
  p.opt_params.lambda1 = 0.01f;
  p.opt_params.lambda2 = 0.1f;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

HostBatch batch_of(const SparseEmbeddingHashParams& p, std::uint64_t seed) {
  // Negative int64 keys are ordinary ones.
  return random_batch(kSamples, kSlots, 4, p.i64_keys ? -25 : 3, 50, seed);
}

/// Steps of a table on 1, 2 and 3 devices, each against the reference.
void expect_formulas(const SparseEmbeddingHashParams& p) {
  std::vector<float> one_device;
  for (const std::size_t devices : {1, 2, 3}) {
    SCOPED_TRACE(concat(devices, " devices"));
    TableRun run(p, devices, kSeed);
    ReferenceTable reference(p, kSeed);
    for (std::size_t step = 1; step <= kSteps; ++step) {
      const HostBatch batch = batch_of(p, 100 + step);
      const auto gradient = random_gradient(kSamples * kSlots * p.embedding_vec_size, 200 + step);
      const double lr = 0.01 / static_cast<double>(step);
      reference.insert(batch);
      const std::vector<double> expected = reference.forward(batch);
      const auto output = run.train(batch, gradient, static_cast<float>(lr),
                                    static_cast<std::int64_t>(step), 0.125f);
      ASSERT_LE(relative_distance(output, expected), 1e-5) << "step " << step;
      reference.update(batch, gradient, static_cast<float>(lr), static_cast<std::int64_t>(step),
                       0.125);
    }
    // Half of these keys are unknown: they count in the mean and add nothing.
    const HostBatch other = random_batch(kSamples, kSlots, 4, p.i64_keys ? 0 : 28, 50, 77);
    EXPECT_LE(relative_distance(run.evaluate(other), reference.forward(other)), 1e-5);

    const BufferBag rows = run.table().dump(true);
    expect_rows(rows, reference);
    if (one_device.empty()) one_device = rows.vectors;
    EXPECT_LE(relative_distance(rows.vectors, one_device), 1e-5);
  }
}

class OptimizerMatrix : public ::testing::TestWithParam<Setting> {};

TEST_P(OptimizerMatrix, AgreesWithTheFormulasOnAnyDeviceCount) {
  expect_formulas(params_of(GetParam()));
}

/// What is done before the rule, of rules that make much of a row's gradient and of one that sees
/// it alone: every distinct row once, whatever the devices.
TEST(Adjustments, OfRowsAgreeWithTheFormulasOnAnyDeviceCount) {
  for (const Optimizer optimizer : {Optimizer::SGD, Optimizer::Adam, Optimizer::RowWiseAdaGrad}) {
    for (const EmbeddingType type : {EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                     EmbeddingType::LocalizedSlotSparseEmbeddingHash}) {
      SparseEmbeddingHashParams p =
          params_of({optimizer, Update::Local, Combiner::Sum, type, false});
      p.opt_params.weight_decay = 2.0f;
      p.opt_params.clip_value = 0.1f;
      expect_formulas(p);
      p.opt_params.l1 = 0.05f;
      p.opt_params.l2 = 0.7f;
      expect_formulas(p);
      for (const ExchangeType exchange : {ExchangeType::Pooled, ExchangeType::Unique}) {
        p.exchange = exchange;
        expect_formulas(p);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerMatrix,
    ::testing::Combine(::testing::Values(Optimizer::Adam, Optimizer::AdaGrad,
                                         Optimizer::MomentumSGD, Optimizer::Nesterov,
                                         Optimizer::SGD, Optimizer::Ftrl, Optimizer::RowWiseAdaGrad,
                                         Optimizer::RMSProp),
                       ::testing::Values(Update::Local, Update::Global, Update::LazyGlobal),
                       ::testing::Values(Combiner::Sum, Combiner::Mean),
                       ::testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash),
                       ::testing::Bool()),
    name_of);

}  // namespace
}  // namespace hugectr::test
