// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/position_offsets.hpp"

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kPositionGrain = 8192;

void position_offsets_kernel(const OpContext& context, const PositionOffsets& op) {
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  const std::uint32_t* __restrict starts = op.starts.ptr<std::uint32_t>();
  std::uint32_t* __restrict out = op.out.ptr<std::uint32_t>();
  const std::size_t slots = op.starts.size() - 1;
  const auto positions = static_cast<std::size_t>(op.positions);
  parallel_for(*context.pool, op.out.size() - 1, kPositionGrain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t j = begin; j < end; ++j) {
                   out[j] = position_offset(offsets, starts, slots, positions, j);
                 }
               });
  out[op.out.size() - 1] = offsets[op.row_offsets.size() - 1];
}

const OpRegistration<PositionOffsets> position_offsets_cpu{DeviceType::Cpu,
                                                           &position_offsets_kernel};
const SeveralRegistration<PositionOffsets> several_position_offsets_cpu{DeviceType::Cpu};

}  // namespace

void PositionOffsets::check() const {
  const std::size_t rows = check_row_offsets(kName, row_offsets);
  check_array_at_least(kName, "starts", starts, TensorScalarType::UInt32, 2);
  const std::size_t slots = starts.size() - 1;
  HCTR_CHECK(positions > 0, kName, ": positions is ", positions, ", must be > 0");
  HCTR_CHECK(rows % slots == 0, kName, ": ", rows, " rows are no samples of ", slots, " slots");
  check_array(kName, "out", out, TensorScalarType::UInt32,
              rows / slots * static_cast<std::size_t>(positions) + 1);
}

}  // namespace hugectr
