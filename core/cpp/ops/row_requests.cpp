// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/row_requests.hpp"

#include <algorithm>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kRequestGrain = 8192;

void request_rows_kernel(const OpContext& context, const RequestRows& op) {
  const std::uint32_t* __restrict rows = op.rows.ptr<std::uint32_t>();
  const std::uint32_t* __restrict buckets = op.buckets.ptr<std::uint32_t>();
  std::uint32_t* __restrict requests = op.requests.ptr<std::uint32_t>();
  std::uint32_t* __restrict places = op.places.ptr<std::uint32_t>();
  const auto row_count = static_cast<std::uint32_t>(op.row_count);
  const std::uint32_t* __restrict keys = op.keys.empty() ? nullptr : op.keys.ptr<std::uint32_t>();
  const auto per_part = static_cast<std::uint32_t>(op.buckets_per_part);
  const auto askers = static_cast<std::uint32_t>(op.askers);
  const auto micro_batches = static_cast<std::uint32_t>(op.micro_batches);
  const std::size_t n = op.rows.size(), all = op.buckets.size();
  const std::vector<std::int64_t>& asker_of = op.asker_of_device;
  parallel_for(*context.pool, n, kRequestGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t key = keys ? keys[i] : i;
      const std::uint32_t part = key < all ? buckets[key] / per_part : 0;
      std::uint32_t asker = part / micro_batches;
      if (!asker_of.empty()) {
        asker = asker < asker_of.size() ? static_cast<std::uint32_t>(asker_of[asker]) : 0;
      }
      requests[i] = (part % micro_batches * askers + asker) * row_count + rows[i];
      places[i] = static_cast<std::uint32_t>(i);
    }
  });
  places[n] = static_cast<std::uint32_t>(n);
}

void count_requests_kernel(const OpContext& context, const CountRequests& op) {
  const std::uint32_t* requests = op.requests.ptr<std::uint32_t>();
  const std::uint32_t* offsets = op.run_offsets.ptr<std::uint32_t>();
  std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  std::int64_t* counts = op.counts.ptr<std::int64_t>();
  const auto row_count = static_cast<std::uint64_t>(op.row_count);
  const std::size_t devices = op.counts.shape[1];
  const auto size = static_cast<std::size_t>(*op.run_count.ptr<std::int64_t>());
  parallel_for(*context.pool, size, kRequestGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) {
      rows[u] = requests[u] % static_cast<std::uint32_t>(row_count);
    }
  });
  const std::uint32_t* first = requests;
  for (std::size_t r = 0; r < devices; ++r) {
    const std::uint32_t* const last = std::lower_bound(first, requests + size, (r + 1) * row_count);
    counts[r] = last - first;
    counts[devices + r] = size == 0 ? 0 : offsets[last - requests] - offsets[first - requests];
    first = last;
  }
}

/// The part that `at` lies in; parts may be empty.
std::size_t part_of(const std::vector<std::int64_t>& starts, std::size_t at) {
  const auto next = std::upper_bound(starts.begin(), starts.end(), static_cast<std::int64_t>(at));
  return static_cast<std::size_t>(next - starts.begin()) - 1;
}

void place_requests_kernel(const OpContext& context, const PlaceRequests& op) {
  const std::uint32_t* offsets = op.offsets.ptr<std::uint32_t>();
  const std::uint32_t* keys = op.keys.ptr<std::uint32_t>();
  const std::uint32_t* buckets = op.buckets.ptr<std::uint32_t>();
  std::uint32_t* run_offsets = op.run_offsets.ptr<std::uint32_t>();
  std::uint32_t* numbers = op.numbers.ptr<std::uint32_t>();
  std::uint32_t* sorted_buckets = op.sorted_buckets.ptr<std::uint32_t>();
  const std::uint32_t first_key = *op.row_offsets.ptr<std::uint32_t>();
  const std::size_t runs = op.offsets.size(), n = op.keys.size();
  parallel_for(*context.pool, runs, kRequestGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) {
      const std::size_t owner = part_of(op.row_starts, u);
      run_offsets[u] = offsets[u] - offsets[op.row_starts[owner]] +
                       static_cast<std::uint32_t>(op.key_starts[owner]);
    }
  });
  run_offsets[runs] = static_cast<std::uint32_t>(n);
  parallel_for(*context.pool, runs, kRequestGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) {
      for (std::uint32_t j = run_offsets[u]; j < run_offsets[u + 1]; ++j) {
        const std::uint32_t i = keys[j] - first_key;
        if (i >= n) continue;
        numbers[i] = static_cast<std::uint32_t>(u);
        sorted_buckets[j] = buckets[i];
      }
    }
  });
}

void rebase_offsets_kernel(const OpContext& context, const RebaseOffsets& op) {
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  std::uint32_t* __restrict own = op.own_offsets.ptr<std::uint32_t>();
  const std::uint32_t first = offsets[0];
  parallel_for(*context.pool, op.own_offsets.size(), kRequestGrain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) own[i] = offsets[i] - first;
               });
}

const OpRegistration<RequestRows> request_rows_cpu{DeviceType::Cpu, &request_rows_kernel};
const SeveralRegistration<RequestRows> several_request_rows_cpu{DeviceType::Cpu};
const OpRegistration<CountRequests> count_requests_cpu{DeviceType::Cpu, &count_requests_kernel};
const SeveralRegistration<CountRequests> several_count_requests_cpu{DeviceType::Cpu};
const OpRegistration<PlaceRequests> place_requests_cpu{DeviceType::Cpu, &place_requests_kernel};
const SeveralRegistration<PlaceRequests> several_place_requests_cpu{DeviceType::Cpu};
const OpRegistration<RebaseOffsets> rebase_offsets_cpu{DeviceType::Cpu, &rebase_offsets_kernel};
const SeveralRegistration<RebaseOffsets> several_rebase_offsets_cpu{DeviceType::Cpu};

constexpr auto kRequestNumber = TensorScalarType::UInt32;

void check_row_count(const char* op, std::int64_t row_count, std::size_t devices) {
  HCTR_CHECK(row_count >= 1 && static_cast<std::uint64_t>(row_count) <= 0xFFFFFFFFu / devices, op,
             ": ", row_count, " rows for each of ", devices,
             " askers: their product must be 1 to 2^32 - 1");
}

}  // namespace

void RequestRows::check() const {
  const std::size_t n = rows.size();
  check_row_count(kName, row_count, 1);
  HCTR_CHECK(buckets_per_part >= 1 && buckets_per_part <= 0xFFFFFFFFll, kName,
             ": buckets_per_part ", buckets_per_part, " must be 1 to 2^32 - 1");
  HCTR_CHECK(askers >= 1 && micro_batches >= 1 && askers <= 0xFFFFll && micro_batches <= 0xFFFFll,
             kName, ": ", askers, " askers and ", micro_batches,
             " micro_batches must be 1 to 65535 each");
  HCTR_CHECK(std::ranges::all_of(asker_of_device,
                                 [this](std::int64_t one) { return one >= 0 && one < askers; }),
             kName, ": asker_of_device must hold numbers below the ", askers, " askers");
  check_array(kName, "rows", rows, kRequestNumber, n);
  check_array(kName, "buckets", buckets, kRequestNumber, keys.empty() ? n : buckets.size());
  if (!keys.empty()) check_array(kName, "keys", keys, kRequestNumber, n);
  check_array(kName, "requests", requests, kRequestNumber, n);
  check_array(kName, "places", places, kRequestNumber, n + 1);
}

void CountRequests::check() const {
  HCTR_CHECK(counts.shape.size() == 2 && counts.shape[0] == 2 && counts.shape[1] >= 1, kName,
             ": counts have shape ", to_string(counts.shape), ", must be (2, askers)");
  check_row_count(kName, row_count, counts.shape[1]);
  check_array(kName, "counts", counts, TensorScalarType::Int64, counts.size());
  check_array(kName, "run_count", run_count, TensorScalarType::Int64, 1);
  check_array(kName, "requests", requests, kRequestNumber, requests.size());
  check_array_at_least(kName, "run_offsets", run_offsets, kRequestNumber, requests.size() + 1);
  check_array_at_least(kName, "rows", rows, kRequestNumber, requests.size());
}

void PlaceRequests::check() const {
  const std::size_t runs = offsets.size(), n = keys.size();
  HCTR_CHECK(!row_starts.empty() && row_starts.size() == key_starts.size(), kName, ": ",
             row_starts.size(), " row_starts and ", key_starts.size(),
             " key_starts, must be one of each an owner");
  const auto check_starts = [](const char* name, const std::vector<std::int64_t>& starts,
                               std::size_t end) {
    HCTR_CHECK(starts.front() == 0 && std::is_sorted(starts.begin(), starts.end()) &&
                   starts.back() <= static_cast<std::int64_t>(end),
               kName, ": ", name, " must begin with 0 and ascend to at most ", end);
  };
  check_starts("row_starts", row_starts, runs);
  check_starts("key_starts", key_starts, n);
  check_row_offsets(kName, row_offsets);
  check_array(kName, "offsets", offsets, kRequestNumber, runs);
  check_array(kName, "keys", keys, kRequestNumber, n);
  check_array(kName, "buckets", buckets, kRequestNumber, n);
  check_array(kName, "run_offsets", run_offsets, kRequestNumber, runs + 1);
  check_array(kName, "numbers", numbers, kRequestNumber, n);
  check_array(kName, "sorted_buckets", sorted_buckets, kRequestNumber, n);
}

void RebaseOffsets::check() const {
  check_array(kName, "own_offsets", own_offsets, kRequestNumber,
              check_row_offsets(kName, row_offsets) + 1);
}

}  // namespace hugectr
