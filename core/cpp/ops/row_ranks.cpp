// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/row_ranks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kRankGrain = 1 << 16;

void count_ranks_kernel(const OpContext& context, const CountRanks& op) {
  std::int64_t* counts = op.counts.ptr<std::int64_t>();
  std::fill_n(counts, kRankDigits, 0);
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const RankedRows<Key> ranked(op);
    const int word = static_cast<int>(op.word), shift = static_cast<int>(op.shift);
    parallel_for(*context.pool, op.row_keys.size(), kRankGrain,
                 [&](std::size_t begin, std::size_t end) {
                   std::array<std::int64_t, kRankDigits> own{};
                   for (std::size_t row = begin; row < end; ++row) {
                     if (ranked.keys[row] == kEmptyKey<Key>) continue;
                     const int digit = ranked.digit(word, shift, row);
                     if (digit >= 0) ++own[static_cast<std::size_t>(digit)];
                   }
                   for (std::size_t i = 0; i < kRankDigits; ++i) {
                     if (own[i] > 0) std::atomic_ref<std::int64_t>(counts[i]).fetch_add(own[i]);
                   }
                 });
  });
}

void take_ranked_kernel(const OpContext& context, const TakeRanked& op) {
  std::int64_t& found = *op.count.ptr<std::int64_t>();
  found = 0;
  std::uint32_t* rows = op.rows.empty() ? nullptr : op.rows.ptr<std::uint32_t>();
  std::atomic_ref<std::int64_t> all(found);
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const RankedRows<Key> ranked(op);
    parallel_for(*context.pool, op.row_keys.size(), kRankGrain,
                 [&](std::size_t begin, std::size_t end) {
                   std::vector<std::uint32_t> own;
                   for (std::size_t row = begin; row < end; ++row) {
                     if (ranked.taken(row, op.candidates, op.ties, op.dated)) {
                       own.push_back(static_cast<std::uint32_t>(row));
                     }
                   }
                   const auto at = all.fetch_add(static_cast<std::int64_t>(own.size()));
                   if (rows) std::copy(own.begin(), own.end(), rows + at);
                 });
  });
}

const OpRegistration<CountRanks> count_ranks_cpu{DeviceType::Cpu, &count_ranks_kernel};
const OpRegistration<TakeRanked> take_ranked_cpu{DeviceType::Cpu, &take_ranked_kernel};

template <class Op>
void check_ranked(const Op& op) {
  with_key_type(op.row_keys.dtype, [](auto) {});
  const std::size_t rows = op.row_keys.size();
  check_array(Op::kName, "row_keys", op.row_keys, op.row_keys.dtype, rows);
  check_array(Op::kName, "scores", op.scores, TensorScalarType::UInt64, rows);
  if (!op.row_slots.empty()) {
    check_array(Op::kName, "row_slots", op.row_slots, TensorScalarType::UInt32, rows);
  }
  HCTR_CHECK(op.rank >= 0 && op.rank <= static_cast<std::int64_t>(RowRank::Lfu), Op::kName,
             ": there is no rank ", op.rank);
  HCTR_CHECK(op.period >= 0 && op.period <= 0xFFFFFFFFLL && op.kept >= 0 &&
                 op.kept <= 0xFFFFFFFFLL && op.step >= 0,
             Op::kName, ": period and kept must be uint32, and step not negative");
  HCTR_CHECK(op.bound.size() == kRankWords, Op::kName, ": bound has ", op.bound.size(),
             " words, a rank has ", int{kRankWords});
}

}  // namespace

void CountRanks::check() const {
  check_ranked(*this);
  check_array(kName, "counts", counts, TensorScalarType::Int64, kRankDigits);
  HCTR_CHECK(word >= 0 && word < kRankWords && shift >= 0 && shift < 64, kName, ": word ", word,
             " and shift ", shift, " are none of a rank");
}

void TakeRanked::check() const {
  check_ranked(*this);
  check_array(kName, "count", count, TensorScalarType::Int64, 1);
  if (!rows.empty()) check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
}

}  // namespace hugectr
