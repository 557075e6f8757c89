// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/row_times.hpp"

#include <algorithm>
#include <atomic>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kTimeGrain = 8192;

void sample_times_kernel(const OpContext& context, const SampleTimes& op) {
  const std::uint32_t* offsets = op.row_offsets.ptr<std::uint32_t>();
  std::uint32_t* times = op.times.ptr<std::uint32_t>();
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const Key* keys = op.keys.ptr<Key>();
    parallel_for(*context.pool, op.times.size(), kTimeGrain,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i) {
                     std::uint32_t latest = 0;
                     for (std::uint32_t k = offsets[i]; k < offsets[i + 1]; ++k) {
                       latest = std::max(latest, time_of_key(keys[k]));
                     }
                     times[i] = latest;
                   }
                 });
  });
}

void note_times_kernel(const OpContext& context, const NoteTimes& op) {
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  const std::uint32_t* buckets = op.buckets.ptr<std::uint32_t>();
  const std::uint32_t* times = op.times.ptr<std::uint32_t>();
  std::uint64_t* scores = op.scores.ptr<std::uint64_t>();
  const auto sample_buckets = static_cast<std::uint32_t>(op.sample_buckets);
  parallel_for(*context.pool, op.rows.size(), kTimeGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      if (rows[k] == kNoRow) continue;
      const std::uint64_t time = times[buckets[k] / sample_buckets];
      std::atomic_ref<std::uint64_t> score(scores[rows[k]]);
      std::uint64_t before = score.load(std::memory_order_relaxed);
      while (score_step(before) < time &&
             !score.compare_exchange_weak(before, (before & ~kLastScoredStep) | time,
                                          std::memory_order_relaxed)) {
      }
    }
  });
}

void latest_use_kernel(const OpContext& context, const LatestUse& op) {
  const std::uint64_t* scores = op.scores.ptr<std::uint64_t>();
  std::atomic<std::uint64_t> latest{0};
  parallel_for(*context.pool, op.scores.size(), kTimeGrain,
               [&](std::size_t begin, std::size_t end) {
                 std::uint64_t own = 0;
                 for (std::size_t i = begin; i < end; ++i) {
                   own = std::max(own, score_step(scores[i]));
                 }
                 std::uint64_t before = latest.load();
                 while (before < own && !latest.compare_exchange_weak(before, own)) {
                 }
               });
  *op.latest.ptr<std::int64_t>() = static_cast<std::int64_t>(latest.load());
}

const OpRegistration<SampleTimes> sample_times_cpu{DeviceType::Cpu, &sample_times_kernel};
const OpRegistration<NoteTimes> note_times_cpu{DeviceType::Cpu, &note_times_kernel};
const OpRegistration<LatestUse> latest_use_cpu{DeviceType::Cpu, &latest_use_kernel};

}  // namespace

void SampleTimes::check() const {
  with_key_type(keys.dtype, [](auto) {});
  check_array(kName, "keys", keys, keys.dtype, keys.size());
  check_array(kName, "times", times, TensorScalarType::UInt32, times.size());
  check_array(kName, "row_offsets", row_offsets, TensorScalarType::UInt32, times.size() + 1);
}

void NoteTimes::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  check_array(kName, "buckets", buckets, TensorScalarType::UInt32, rows.size());
  check_array(kName, "times", times, TensorScalarType::UInt32, times.size());
  check_array(kName, "scores", scores, TensorScalarType::UInt64, scores.size());
  HCTR_CHECK(sample_buckets >= 1 && sample_buckets <= 0xFFFFFFFFLL, kName, ": sample_buckets ",
             sample_buckets, " must be 1 to 2^32 - 1");
}

void LatestUse::check() const {
  check_array(kName, "scores", scores, TensorScalarType::UInt64, scores.size());
  check_array(kName, "latest", latest, TensorScalarType::Int64, 1);
}

}  // namespace hugectr
