// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bucket_scale.hpp"

#include <algorithm>
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

void bucket_scale_kernel(const OpContext& context, const BucketScale& op) {
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  float* __restrict scale = op.scale.ptr<float>();
  parallel_for(*context.pool, op.scale.size(), 16384, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      scale[b] = 1.0f / static_cast<float>(std::max(1u, offsets[b + 1] - offsets[b]));
    }
  });
}

const OpRegistration<BucketScale> bucket_scale_cpu{DeviceType::Cpu, &bucket_scale_kernel};
const SeveralRegistration<BucketScale> several_bucket_scale_cpu{DeviceType::Cpu};

}  // namespace

void BucketScale::check() const {
  const std::size_t buckets = check_row_offsets(kName, row_offsets);
  check_array(kName, "scale", scale, TensorScalarType::Float32, buckets);
}

}  // namespace hugectr
