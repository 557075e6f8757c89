// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/expand_buckets.hpp"

#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kExpandGrain = 8192;

void expand_buckets_kernel(const OpContext& context, const ExpandBuckets& op) {
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  std::uint32_t* __restrict buckets = op.buckets.ptr<std::uint32_t>();
  parallel_for(*context.pool, op.row_offsets.size() - 1, kExpandGrain,
               [&](std::size_t begin, std::size_t end) {
                 std::uint32_t i = offsets[begin];
                 for (std::size_t bucket = begin; bucket < end; ++bucket) {
                   for (const std::uint32_t last = offsets[bucket + 1]; i < last; ++i) {
                     buckets[i] = static_cast<std::uint32_t>(bucket);
                   }
                 }
               });
}

const OpRegistration<ExpandBuckets> expand_buckets_cpu{DeviceType::Cpu, &expand_buckets_kernel};
const SeveralRegistration<ExpandBuckets> several_expand_buckets_cpu{DeviceType::Cpu};

}  // namespace

void ExpandBuckets::check() const {
  check_row_offsets(kName, row_offsets);
  check_array(kName, "buckets", buckets, TensorScalarType::UInt32, buckets.size());
}

}  // namespace hugectr
