// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/slot_lengths.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

void slot_lengths_kernel(const OpContext& context, const SlotLengths& op) {
  const std::uint32_t* offsets = op.row_offsets.ptr<std::uint32_t>() + op.first_row;
  float* lengths = op.lengths.ptr<float>();
  const std::size_t slots = op.lengths.shape[1], stride = op.lengths.row_stride;
  parallel_for(*context.pool, op.lengths.shape[0], 4096, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t* row = offsets + i * slots;
      for (std::size_t s = 0; s < slots; ++s) {
        lengths[i * stride + s] = static_cast<float>(row[s + 1] - row[s]);
      }
    }
  });
}

const OpRegistration<SlotLengths> slot_lengths_cpu{DeviceType::Cpu, &slot_lengths_kernel};

}  // namespace

void SlotLengths::check() const {
  const std::size_t rows = check_row_offsets(kName, row_offsets);
  HCTR_CHECK(lengths.dtype == TensorScalarType::Float32 && lengths.shape.size() == 2, kName,
             ": lengths hold ", to_string(lengths.dtype), " of shape ", to_string(lengths.shape),
             ", must be (samples, slots) float32");
  HCTR_CHECK(first_row >= 0 && static_cast<std::size_t>(first_row) + lengths.size() <= rows, kName,
             ": rows ", first_row, " to ", static_cast<std::size_t>(first_row) + lengths.size(),
             " were asked for, there are ", rows);
}

}  // namespace hugectr
