// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/cpp/ops/op_run.hpp"

/// All rules against their formulas: tests/cpp/embedding/optimizer_matrix_test.cpp.
namespace hugectr::test {
namespace {

/// SGD with lr 1 on runs of the given lengths: w must be minus the sum of the gradients.
void check_sums(std::size_t d, const std::vector<std::size_t>& lengths, std::size_t pad,
                std::int64_t longest_run = 0) {
  constexpr std::size_t kSlots = 3;
  OpRun on;
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  Numbers unique_rows, run_offsets{0}, sorted_buckets;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    unique_rows.push_back(static_cast<std::uint32_t>(2 * r + 1));
    run_offsets.push_back(run_offsets.back() + static_cast<std::uint32_t>(lengths[r]));
  }
  constexpr std::size_t kSamples = 40;
  for (std::uint32_t i = 0; i < run_offsets.back(); ++i) {
    sorted_buckets.push_back(static_cast<std::uint32_t>(random() % (kSamples * kSlots)));
  }
  const std::size_t rows = 2 * lengths.size() + 1, stride = kSlots * d + pad;
  Floats gradient(kSamples * stride), scale(kSamples * kSlots), weights(rows * d, 0.0f), lr{1.0f},
      unscale{0.25f};
  for (float& g : gradient) g = normal(random);
  for (float& s : scale) s = std::abs(normal(random));
  std::vector<std::int64_t> step{1}, count{static_cast<std::int64_t>(lengths.size())};
  OptParams params;
  params.optimizer = Optimizer::SGD;
  TensorRef gradient_ref = on.ref(gradient, {kSamples, kSlots, d});
  gradient_ref.row_stride = stride;
  on(EmbeddingUpdate{.sorted_buckets = on.ref(sorted_buckets),
                     .unique_rows = on.ref(unique_rows),
                     .run_offsets = on.ref(run_offsets),
                     .run_count = on.ref(count),
                     .gradient = gradient_ref,
                     .scale = on.ref(scale),
                     .weights = on.ref(weights, {rows, d}),
                     .lr = on.ref(lr),
                     .step = on.ref(step),
                     .unscale = on.ref(unscale),
                     .params = params,
                     .longest_run = longest_run});
  double difference = 0, norm = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    for (std::size_t c = 0; c < d; ++c) {
      double sum = 0;
      for (std::uint32_t i = run_offsets[r]; i < run_offsets[r + 1]; ++i) {
        const std::size_t b = sorted_buckets[i];
        sum += static_cast<double>(scale[b]) * gradient[b / kSlots * stride + b % kSlots * d + c];
      }
      const double error = weights[(2 * r + 1) * d + c] + sum / 4;
      difference += error * error;
      norm += sum * sum / 16;
      ASSERT_EQ(weights[2 * r * d + c], 0.0f) << "an untouched row changed";
    }
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-5) << "d " << d;
}

TEST(EmbeddingUpdateOp, RunsOfAnyLengthAreSummed) {
  for (const std::size_t d : {1, 5, 8, 16, 32, 64, 100, 128}) {
    check_sums(d, {1, 2, 63, 64, 65, 128, 129, 1000, 5000, 3}, 0);
    check_sums(d, std::vector<std::size_t>(1500, 2), 3);
  }
}

TEST(EmbeddingUpdateOp, RunsWhoseLongestIsKnownAreSummed) {
  for (const std::size_t d : {5, 64, 128}) {
    check_sums(d, std::vector<std::size_t>(1500, 1), 0, 1);
    check_sums(d, {1, 64, 2, 63, 64}, 0, 64);
    check_sums(d, {1, 64, 65, 200}, 0, 200);
  }
}

TEST(EmbeddingUpdateOp, UnscaleZeroLeavesEverythingAsItIs) {
  constexpr std::size_t kDim = 5, kRows = 3;
  for (const float unscale : {0.0f, 1.0f}) {
    OpRun on;
    // A run of one, one of several chunks; gradients as an overflow leaves them.
    Numbers buckets(201, 0), rows{0, 2}, offsets{0, 1, 201};
    Floats gradient(kDim, unscale == 0.0f ? NAN : 1.0f), factor{unscale}, lr{0.1f};
    Floats weights(kRows * kDim, 1.0f), m(kRows * kDim, 2.0f), v(kRows * kDim, 3.0f);
    std::vector<std::int64_t> step{5}, count{2}, last_step{1, 2, 3};
    OptParams params;
    params.optimizer = Optimizer::Adam;
    params.update_type = Update::LazyGlobal;
    on(EmbeddingUpdate{.sorted_buckets = on.ref(buckets),
                       .unique_rows = on.ref(rows),
                       .run_offsets = on.ref(offsets),
                       .run_count = on.ref(count),
                       .gradient = on.ref(gradient, {1, 1, kDim}),
                       .weights = on.ref(weights, {kRows, kDim}),
                       .last_step = on.ref(last_step),
                       .lr = on.ref(lr),
                       .step = on.ref(step),
                       .unscale = on.ref(factor),
                       .states = {on.ref(m, {kRows, kDim}), on.ref(v, {kRows, kDim})},
                       .params = params});
    for (std::size_t i = 0; i < kRows * kDim; ++i) {
      const bool same = unscale == 0.0f || i / kDim == 1;
      ASSERT_EQ(weights[i] == 1.0f, same) << i;
      ASSERT_EQ(m[i] == 2.0f, same) << i;
      ASSERT_EQ(v[i] == 3.0f, same) << i;
    }
    EXPECT_EQ(last_step, unscale == 0.0f ? (std::vector<std::int64_t>{1, 2, 3})
                                         : (std::vector<std::int64_t>{5, 2, 5}));
  }
}

TEST(EmbeddingSweepOp, UnscaleZeroLeavesEverythingAsItIs) {
  OpRun on;
  Numbers unique_rows{0};
  Floats weights(4, 1.0f), state(4, 2.0f), lr{0.1f}, unscale{0.0f};
  std::vector<std::int64_t> step{1}, count{1};
  OptParams params;
  params.optimizer = Optimizer::MomentumSGD;
  params.update_type = Update::Global;
  params.momentum_factor = 0.5f;
  const auto sweep = [&] {
    on(EmbeddingSweep{.unique_rows = on.ref(unique_rows),
                      .run_count = on.ref(count),
                      .weights = on.ref(weights, {4, 1}),
                      .lr = on.ref(lr),
                      .step = on.ref(step),
                      .unscale = on.ref(unscale),
                      .states = {on.ref(state, {4, 1})},
                      .params = params});
  };
  sweep();
  EXPECT_EQ(weights, Floats(4, 1.0f));
  EXPECT_EQ(state, Floats(4, 2.0f));
  unscale[0] = 0.5f;
  sweep();
  EXPECT_EQ(weights, (Floats{1.0f, 2.0f, 2.0f, 2.0f}));  // of g = 0: no factor plays a part
}

TEST(EmbeddingSweepOp, ChangesExactlyTheRowsThatWereNotTouched) {
  constexpr std::size_t kRows = 5000, kDim = 3;
  OpRun on;
  Numbers touched;
  for (std::uint32_t r = 0; r < kRows; r += r < 2000 ? 1 + r % 3 : 700) touched.push_back(r);
  Numbers unique_rows = touched;
  unique_rows.resize(kRows, 0);  // what lies behind run_count does not matter
  Floats weights(kRows * kDim, 1.0f), state(kRows * kDim, 2.0f), lr{0.1f};
  std::vector<std::int64_t> step{3}, count{static_cast<std::int64_t>(touched.size())};
  OptParams params;
  params.optimizer = Optimizer::MomentumSGD;
  params.update_type = Update::Global;
  params.momentum_factor = 0.5f;
  on(EmbeddingSweep{.unique_rows = on.ref(unique_rows),
                    .run_count = on.ref(count),
                    .weights = on.ref(weights, {kRows, kDim}),
                    .lr = on.ref(lr),
                    .step = on.ref(step),
                    .states = {on.ref(state, {kRows, kDim})},
                    .params = params});
  std::vector<bool> is_touched(kRows, false);
  for (const std::uint32_t r : touched) is_touched[r] = true;
  for (std::size_t i = 0; i < kRows * kDim; ++i) {
    ASSERT_EQ(weights[i], is_touched[i / kDim] ? 1.0f : 2.0f) << "row " << i / kDim;
    ASSERT_EQ(state[i], is_touched[i / kDim] ? 2.0f : 1.0f) << "row " << i / kDim;
  }
}

TEST(EmbeddingSweepOp, RefusesRulesThatLeaveUntouchedRowsAlone) {
  OpRun on;
  Numbers rows{0};
  Floats weights(1), lr{0.1f};
  std::vector<std::int64_t> step{1}, count{0};
  OptParams params;
  params.optimizer = Optimizer::SGD;
  EXPECT_THROW(on(EmbeddingSweep{.unique_rows = on.ref(rows),
                                 .run_count = on.ref(count),
                                 .weights = on.ref(weights, {1, 1}),
                                 .lr = on.ref(lr),
                                 .step = on.ref(step),
                                 .params = params}),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
