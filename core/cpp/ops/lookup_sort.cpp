// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/lookup_sort.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kSortGrain = std::size_t{1} << 15;  // pairs of a piece
constexpr unsigned kMaxDigitBits = 11;  // 2048 counters stay in the first-level cache

/// One digit of a least-significant-first radix sort; read(i) gives pair i (row << 32 | bucket).
/// Pieces keep their order inside a digit, so the sort is stable on any number of threads.
template <class Read>
void sort_digit(ThreadPool& pool, std::size_t n, unsigned shift, unsigned bits,
                std::vector<std::uint32_t>& starts, const Read& read,
                std::uint64_t* __restrict out) {
  const std::size_t pieces = (n + kSortGrain - 1) / kSortGrain;
  const std::size_t digits = std::size_t{1} << bits;
  starts.assign(pieces * digits, 0);
  parallel_for(pool, n, kSortGrain, [&](std::size_t begin, std::size_t end) {
    std::uint32_t* counts = starts.data() + begin / kSortGrain * digits;
    for (std::size_t i = begin; i < end; ++i) ++counts[read(i) >> shift & (digits - 1)];
  });
  std::uint32_t sum = 0;
  for (std::size_t digit = 0; digit < digits; ++digit) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      sum += std::exchange(starts[piece * digits + digit], sum);
    }
  }
  parallel_for(pool, n, kSortGrain, [&](std::size_t begin, std::size_t end) {
    std::uint32_t* at = starts.data() + begin / kSortGrain * digits;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t pair = read(i);
      out[at[pair >> shift & (digits - 1)]++] = pair;
    }
  });
}

/// Splits sorted pairs into buckets, unique rows and run offsets.
void mark_runs(ThreadPool& pool, const LookupSort& op, const std::uint64_t* __restrict pairs,
               std::size_t n) {
  std::uint32_t* __restrict sorted_buckets = op.sorted_buckets.ptr<std::uint32_t>();
  std::uint32_t* __restrict unique_rows = op.unique_rows.ptr<std::uint32_t>();
  std::uint32_t* __restrict run_offsets = op.run_offsets.ptr<std::uint32_t>();
  const auto starts_run = [&](std::size_t i) {
    return i == 0 || pairs[i] >> 32 != pairs[i - 1] >> 32;
  };
  std::vector<std::uint32_t> first((n + kSortGrain - 1) / kSortGrain + 1, 0);
  parallel_for(pool, n, kSortGrain, [&](std::size_t begin, std::size_t end) {
    std::uint32_t runs = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sorted_buckets[i] = static_cast<std::uint32_t>(pairs[i]);
      runs += starts_run(i);
    }
    first[begin / kSortGrain + 1] = runs;
  });
  for (std::size_t p = 1; p < first.size(); ++p) first[p] += first[p - 1];
  parallel_for(pool, n, kSortGrain, [&](std::size_t begin, std::size_t end) {
    std::uint32_t run = first[begin / kSortGrain];
    for (std::size_t i = begin; i < end; ++i) {
      if (!starts_run(i)) continue;
      unique_rows[run] = static_cast<std::uint32_t>(pairs[i] >> 32);
      run_offsets[run++] = static_cast<std::uint32_t>(i);
    }
  });
  run_offsets[first.back()] = static_cast<std::uint32_t>(n);
  *op.run_count.ptr<std::int64_t>() = first.back();
}

void lookup_sort_kernel(const OpContext& context, const LookupSort& op) {
  const std::size_t n = op.rows.size();
  const std::uint32_t* __restrict rows = op.rows.ptr<std::uint32_t>();
  const std::uint32_t* __restrict buckets = op.buckets.ptr<std::uint32_t>();
  std::uint64_t* from = op.scratch.ptr<std::uint64_t>();
  std::uint64_t* to = from + n;
  const auto bits = std::max<unsigned>(
      1, std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(op.row_count, 1) - 1)));
  const unsigned passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const unsigned digit_bits = (bits + passes - 1) / passes;
  std::vector<std::uint32_t> starts;
  for (unsigned pass = 0; pass < passes; ++pass) {
    const unsigned shift = 32 + pass * digit_bits;
    if (pass == 0) {
      const auto pair = [=](std::size_t i) {
        return static_cast<std::uint64_t>(rows[i]) << 32 | buckets[i];
      };
      sort_digit(*context.pool, n, shift, digit_bits, starts, pair, to);
    } else {
      const auto pair = [=](std::size_t i) { return from[i]; };
      sort_digit(*context.pool, n, shift, digit_bits, starts, pair, to);
    }
    std::swap(from, to);
  }
  mark_runs(*context.pool, op, from, n);
}

const OpRegistration<LookupSort> lookup_sort_cpu{DeviceType::Cpu, &lookup_sort_kernel};
const SeveralRegistration<LookupSort> several_lookup_sort_cpu{DeviceType::Cpu};

}  // namespace

void LookupSort::check() const {
  const std::size_t n = rows.size();
  check_array(kName, "rows", rows, TensorScalarType::UInt32, n);
  check_array(kName, "buckets", buckets, TensorScalarType::UInt32, n);
  check_array_at_least(kName, "sorted_buckets", sorted_buckets, TensorScalarType::UInt32, n);
  check_array_at_least(kName, "unique_rows", unique_rows, TensorScalarType::UInt32, n);
  check_array_at_least(kName, "run_offsets", run_offsets, TensorScalarType::UInt32, n + 1);
  check_array(kName, "run_count", run_count, TensorScalarType::Int64, 1);
  check_array_at_least(kName, "scratch", scratch, TensorScalarType::UInt64, 2 * n);
}

}  // namespace hugectr
