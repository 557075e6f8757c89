// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/score_rows.hpp"

#include <atomic>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kScoreGrain = 8192;

void score_rows_kernel(const OpContext& context, const ScoreRows& op) {
  const auto count = static_cast<std::size_t>(*op.count.ptr<std::int64_t>());
  const auto step = static_cast<std::uint64_t>(*op.step.ptr<std::int64_t>());
  const UseRule rule = op.rule();
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  std::uint64_t* scores = op.scores.ptr<std::uint64_t>();
  std::uint32_t* candidates = op.candidates.empty() ? nullptr : op.candidates.ptr<std::uint32_t>();
  std::atomic_ref<std::int64_t> all(*op.admitted.ptr<std::int64_t>());
  const std::size_t n = candidates ? op.rows.size() : count;
  parallel_for(*context.pool, n, kScoreGrain, [&](std::size_t begin, std::size_t end) {
    std::int64_t admitted = 0;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t candidate = kNoRow;
      if (i < count && rows[i] != kNoRow) {
        std::uint64_t& score = scores[rows[i]];
        const bool was = score_admitted(score);
        score = used_score(score, op.timed ? score_step(score) : step, rule);
        admitted += score_admitted(score) && !was ? 1 : 0;
        if (!score_admitted(score)) candidate = rows[i];
      }
      if (candidates) candidates[i] = candidate;
    }
    all.fetch_add(admitted);
  });
}

void clear_scores_kernel(const OpContext& context, const ClearScores& op) {
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  std::uint64_t* scores = op.scores.ptr<std::uint64_t>();
  parallel_for(*context.pool, op.rows.size(), kScoreGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) scores[rows[i]] = 0;
  });
}

const OpRegistration<ScoreRows> score_rows_cpu{DeviceType::Cpu, &score_rows_kernel};
const OpRegistration<ClearScores> clear_scores_cpu{DeviceType::Cpu, &clear_scores_kernel};

}  // namespace

void ScoreRows::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  check_array(kName, "count", count, TensorScalarType::Int64, 1);
  check_array(kName, "step", step, TensorScalarType::Int64, 1);
  check_array(kName, "scores", scores, TensorScalarType::UInt64, scores.size());
  check_array(kName, "admitted", admitted, TensorScalarType::Int64, 1);
  if (!candidates.empty()) {
    check_array(kName, "candidates", candidates, TensorScalarType::UInt32, rows.size());
  }
  HCTR_CHECK(admit_after >= 1 && admit_after <= 1 << 20, kName, ": admit_after ", admit_after,
             " must be 1 to 2^20");
  HCTR_CHECK(period >= 0 && period <= 0xFFFFFFFFLL && kept >= 0 && kept <= 0xFFFFFFFFLL, kName,
             ": period ", period, " and kept ", kept, " must be uint32");
}

void ClearScores::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  check_array(kName, "scores", scores, TensorScalarType::UInt64, scores.size());
}

}  // namespace hugectr
