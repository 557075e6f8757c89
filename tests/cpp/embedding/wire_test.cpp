// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/embedding/reference_table.hpp"

/// Vectors that travel between devices in fewer bits than they are made in.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 24, kSlots = 3, kDim = 16;
constexpr std::uint64_t kSeed = 5;
constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

/// Half the step between neighbouring numbers, relative: what rounding may be off by at most is
/// twice that by chance, and its root mean square about as much.
double unit(WireType wire) {
  return wire == WireType::Float8 ? 1.0 / 16 : wire == WireType::BFloat16 ? 1.0 / 256 : 1.0 / 2048;
}

using Setting = std::tuple<PlacementKind, ExchangeType, WireType, std::size_t>;

SparseEmbeddingHashParams params_of(const Setting& setting) {
  const auto [placement, exchange, wire, devices] = setting;
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.table_id = 2;
  p.placement = placement;
  p.exchange = exchange;
  p.wire = wire;
  p.type = placement == PlacementKind::BySlot ? kLocalized : kDistributed;
  if (placement == PlacementKind::Hybrid) p.frequent = {1, 2, 3, 5, 8};
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.opt_params.optimizer = Optimizer::SGD;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

HostBatch batch_of(std::uint64_t seed, std::size_t most = 3) {
  return random_batch(kSamples, kSlots, most, 0, 40, seed);
}

class Wire : public ::testing::TestWithParam<Setting> {};

TEST_P(Wire, AgreesWithTheFormulasWithinItsBitsAndRepeats) {
  const auto [placement, exchange, wire, devices] = GetParam();
  SparseEmbeddingHashParams p = params_of(GetParam());
  TableRun run(p, devices, kSeed), again(p, devices, kSeed);
  p.wire = WireType::Own;
  ReferenceTable reference(p, kSeed);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const HostBatch batch = batch_of(seed, step % 2 ? 3 : 9);
    const auto gradient = random_gradient(kSamples * kSlots * kDim, 70 + seed);
    reference.insert(batch);
    const auto expected = reference.forward(batch);
    for (TableRun* one : {&run, &again}) one->plan(batch, PlanSlot::Train0);
    const auto output = run.forward(PlanSlot::Train0, 3, step);
    ASSERT_LE(relative_distance(output, expected), unit(wire)) << "step " << step;
    ASSERT_EQ(again.forward(PlanSlot::Train0, 3, step), output);
    for (TableRun* one : {&run, &again}) {
      one->update(PlanSlot::Train0, gradient, 0.01f, step, 1.0f, 3);
    }
    reference.update(batch, gradient, 0.01f, step, 1.0);
  }
  const BufferBag rows = run.table().dump(true), repeated = again.table().dump(true);
  EXPECT_EQ(rows.vectors, repeated.vectors);
  // Steps of 0.01 change rows of 0.05 by several times that: gradients are seen.
  EXPECT_LE(relative_distance(rows.vectors, reference.vectors()), unit(wire));
}

/// What chance rounds is right in the mean, forward and back; to nearest it is not.
TEST_P(Wire, IsRightInTheMean) {
  const auto [placement, exchange, wire, devices] = GetParam();
  if (placement == PlacementKind::Replicated) GTEST_SKIP() << "nothing travels forward";
  SparseEmbeddingHashParams p = params_of(GetParam());
  TableRun run(p, devices, kSeed);
  p.wire = WireType::Own;
  TableRun exact(p, devices, kSeed);
  for (TableRun* one : {&run, &exact}) one->plan(batch_of(3), PlanSlot::Train0);
  const auto wanted = exact.forward(PlanSlot::Train0);
  std::vector<double> sum(wanted.size());
  constexpr std::int64_t kDraws = 256;
  for (std::int64_t step = 1; step <= kDraws; ++step) {
    const auto drawn = run.forward(PlanSlot::Train0, 0, step);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(drawn[i]) / kDraws;
  }
  const double nearest = relative_distance(run.forward(PlanSlot::Train0), wanted);
  const double mean = relative_distance(std::vector<float>(sum.begin(), sum.end()), wanted);
  EXPECT_GT(nearest, unit(wire) / 20);  // it does travel in few bits
  EXPECT_LT(mean, nearest / 4);         // 16 times smaller than a draw's, which is twice as far off
}

INSTANTIATE_TEST_SUITE_P(
    All, Wire,
    ::testing::Combine(::testing::Values(PlacementKind::ByKey, PlacementKind::BySlot,
                                         PlacementKind::OneDevice, PlacementKind::Replicated,
                                         PlacementKind::ByColumn, PlacementKind::Hybrid),
                       ::testing::Values(ExchangeType::Pooled, ExchangeType::Unique),
                       ::testing::Values(WireType::BFloat16, WireType::Float16, WireType::Float8),
                       ::testing::Values(2, 4)));

/// Vectors that are made in 16 bits can not travel as float32.
TEST(WireOf16Bits, AreNotMadeInMore) {
  for (const ExchangeType exchange : {ExchangeType::Pooled, ExchangeType::Unique}) {
    SparseEmbeddingHashParams p = params_of({PlacementKind::ByKey, exchange, WireType::Float8, 3});
    p.output_type = TensorScalarType::BFloat16;
    p.wire = WireType::Float32;
    EXPECT_THROW(TableRun(p, 3, kSeed), InvalidArgument);
  }
}

TEST(WireOfGroups, TablesOfOneWireTravelTogether) {
  const SparseEmbeddingHashParams a =
      params_of({PlacementKind::ByKey, ExchangeType::Auto, WireType::Float8, 2});
  SparseEmbeddingHashParams b = a;
  EXPECT_TRUE(may_travel_together(a, b));
  b.wire = WireType::Own;
  EXPECT_FALSE(may_travel_together(a, b));
}

}  // namespace
}  // namespace hugectr::test
