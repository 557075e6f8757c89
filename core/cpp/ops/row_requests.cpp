// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/row_requests.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kGrain = 8192;

void request_rows_kernel(const OpContext& context, const RequestRows& op) {
  const std::uint32_t* __restrict rows = op.rows.ptr<std::uint32_t>();
  const std::uint32_t* __restrict buckets = op.buckets.ptr<std::uint32_t>();
  std::uint32_t* __restrict requests = op.requests.ptr<std::uint32_t>();
  std::uint32_t* __restrict places = op.places.ptr<std::uint32_t>();
  const auto row_count = static_cast<std::uint32_t>(op.row_count);
  const auto per_device = static_cast<std::uint32_t>(op.buckets_per_device);
  const std::size_t n = op.rows.size();
  parallel_for(*context.pool, n, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      requests[i] = buckets[i] / per_device * row_count + rows[i];
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
  parallel_for(*context.pool, size, kGrain, [&](std::size_t begin, std::size_t end) {
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

void number_requests_kernel(const OpContext& context, const NumberRequests& op) {
  const std::uint32_t* requests = op.requests.ptr<std::uint32_t>();
  const std::uint32_t* offsets = op.run_offsets.ptr<std::uint32_t>();
  const std::uint32_t* places = op.places.ptr<std::uint32_t>();
  std::uint32_t* numbers = op.numbers.ptr<std::uint32_t>();
  const auto row_count = static_cast<std::uint32_t>(op.row_count);
  parallel_for(*context.pool, op.requests.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) {
      const auto number = static_cast<std::uint32_t>(static_cast<std::int64_t>(u) +
                                                     op.shifts[requests[u] / row_count]);
      for (std::uint32_t j = offsets[u]; j < offsets[u + 1]; ++j) numbers[places[j]] = number;
    }
  });
}

template <class Key>
void owners_of_keys(const OpContext& context, const OwnersOfKeys& op) {
  const Key* keys = op.keys.ptr<Key>();
  const std::uint32_t* offsets = op.row_offsets.ptr<std::uint32_t>();
  std::uint32_t* own_offsets = op.own_offsets.ptr<std::uint32_t>();
  std::uint32_t* buckets = op.buckets.ptr<std::uint32_t>();
  std::uint32_t* owners = op.owners.ptr<std::uint32_t>();
  std::uint32_t* places = op.places.ptr<std::uint32_t>();
  const auto slots = static_cast<std::size_t>(op.slot_num);
  const auto devices = static_cast<std::size_t>(op.device_count);
  const std::uint32_t start = offsets[0];
  own_offsets[0] = 0;
  parallel_for(*context.pool, op.row_offsets.size() - 1, kGrain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t b = begin; b < end; ++b) {
                   const std::size_t of_slot = owner_of_slot(b % slots, devices);
                   for (std::uint32_t i = offsets[b]; i < offsets[b + 1]; ++i) {
                     const std::size_t owner =
                         op.by_slot ? of_slot : owner_of_key(widen_key(keys[i]), devices);
                     buckets[i - start] = static_cast<std::uint32_t>(b);
                     owners[i - start] = static_cast<std::uint32_t>(owner);
                     places[i - start] = i - start;
                   }
                   own_offsets[b + 1] = offsets[b + 1] - start;
                 }
               });
}

void owners_of_keys_kernel(const OpContext& context, const OwnersOfKeys& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) { owners_of_keys<Key>(context, op); });
}

const OpRegistration<RequestRows> request_rows_cpu{DeviceType::Cpu, &request_rows_kernel};
const OpRegistration<CountRequests> count_requests_cpu{DeviceType::Cpu, &count_requests_kernel};
const OpRegistration<NumberRequests> number_requests_cpu{DeviceType::Cpu, &number_requests_kernel};
const OpRegistration<OwnersOfKeys> owners_of_keys_cpu{DeviceType::Cpu, &owners_of_keys_kernel};

constexpr auto kU32 = TensorScalarType::UInt32;

void check_row_count(const char* op, std::int64_t row_count, std::size_t devices) {
  HCTR_CHECK(row_count >= 1 && static_cast<std::uint64_t>(row_count) <= 0xFFFFFFFFu / devices, op,
             ": ", row_count, " rows for each of ", devices,
             " devices: their product must be 1 to 2^32 - 1");
}

}  // namespace

void RequestRows::check() const {
  const std::size_t n = rows.size();
  check_row_count(kName, row_count, 1);
  HCTR_CHECK(buckets_per_device >= 1 && buckets_per_device <= 0xFFFFFFFFll, kName,
             ": buckets_per_device ", buckets_per_device, " must be 1 to 2^32 - 1");
  check_array(kName, "rows", rows, kU32, n);
  check_array(kName, "buckets", buckets, kU32, n);
  check_array(kName, "requests", requests, kU32, n);
  check_array(kName, "places", places, kU32, n + 1);
}

void CountRequests::check() const {
  HCTR_CHECK(counts.shape.size() == 2 && counts.shape[0] == 2 && counts.shape[1] >= 1, kName,
             ": counts have shape ", to_string(counts.shape), ", must be (2, devices)");
  check_row_count(kName, row_count, counts.shape[1]);
  check_array(kName, "counts", counts, TensorScalarType::Int64, counts.size());
  check_array(kName, "run_count", run_count, TensorScalarType::Int64, 1);
  check_array(kName, "requests", requests, kU32, requests.size());
  check_array_at_least(kName, "run_offsets", run_offsets, kU32, requests.size() + 1);
  check_array_at_least(kName, "rows", rows, kU32, requests.size());
}

void NumberRequests::check() const {
  HCTR_CHECK(!shifts.empty(), kName, ": shifts are missing, one a device");
  check_row_count(kName, row_count, shifts.size());
  check_array(kName, "requests", requests, kU32, requests.size());
  check_array(kName, "run_offsets", run_offsets, kU32, requests.size() + 1);
  check_array(kName, "places", places, kU32, places.size());
  check_array(kName, "numbers", numbers, kU32, places.size());
}

void OwnersOfKeys::check() const {
  const std::size_t m = check_row_offsets(kName, row_offsets), n = buckets.size();
  with_key_type(keys.dtype, [](auto) {});
  HCTR_CHECK(keys.contiguous(), kName, ": keys must lie without gaps");
  HCTR_CHECK(slot_num >= 1 && device_count >= 1, kName, ": ", slot_num, " slots and ", device_count,
             " devices: at least one of each");
  check_array(kName, "own_offsets", own_offsets, kU32, m + 1);
  check_array(kName, "buckets", buckets, kU32, n);
  check_array(kName, "owners", owners, kU32, n);
  check_array(kName, "places", places, kU32, n);
}

}  // namespace hugectr
