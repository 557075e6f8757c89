// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/select_slots.hpp"
#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

void select_slots_fwd_kernel(const OpContext& ctx, const SelectSlotsFwd& op) {
  const std::size_t dim = op.x.shape[2];
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    std::vector<cuda::ColumnPartOf<T>> parts;
    for (std::size_t i = 0; i < op.slots.size(); ++i) {
      cuda::ColumnPartOf<T> part;
      part.to = op.y.ptr<T>() + i * dim;
      part.to_row = op.y.row_stride;
      part.count = dim;
      part.sources[0] = {op.x.ptr<T>() + static_cast<std::size_t>(op.slots[i]) * dim,
                         op.x.row_stride, 0};
      part.source_count = 1;
      cuda::append_part(parts, part);  // neighbouring slots become one part
    }
    cuda::run_column_parts(ctx, SelectSlotsFwd::kName, op.x.rows(), parts);
  });
}

void select_slots_bwd_kernel(const OpContext& ctx, const SelectSlotsBwd& op) {
  const std::size_t dim = op.dx.shape[2];
  cuda::with_real_type(op.dx.dtype, [&]<class T>(T) {
    std::vector<cuda::ColumnRange<T>> ranges;
    for (std::size_t i = 0; i < op.slots.size(); ++i) {
      ranges.push_back({op.dy.ptr<T>() + i * dim, op.dy.row_stride,
                        static_cast<std::size_t>(op.slots[i]) * dim, dim});
    }
    cuda::sum_column_ranges(ctx, SelectSlotsBwd::kName, op.dx.rows(), op.dx.row_size(),
                            op.dx.ptr<T>(), op.dx.row_stride, ranges);
  });
}

const OpRegistration<SelectSlotsFwd> select_slots_fwd_cuda{DeviceType::Cuda,
                                                           &select_slots_fwd_kernel};
const OpRegistration<SelectSlotsBwd> select_slots_bwd_cuda{DeviceType::Cuda,
                                                           &select_slots_bwd_kernel};

}  // namespace
}  // namespace hugectr
