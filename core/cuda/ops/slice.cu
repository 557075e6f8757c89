// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/slice.hpp"
#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

template <class T>
void copy_ranges(const OpContext& ctx, const SliceFwd& op) {
  const std::size_t outer = segments(op.x, op.axis);
  const std::size_t step = axis_step(op.x, op.axis);
  std::vector<cuda::ColumnPartOf<T>> parts;
  for (std::size_t i = 0; i < op.ys.size(); ++i) {
    cuda::ColumnPartOf<T> part;
    part.to = op.ys[i].ptr<T>();
    part.to_row = op.ys[i].row_stride;
    part.outer = outer;
    part.count = op.ys[i].row_size() / outer;
    part.to_segment = part.count;
    part.sources[0] = {op.x.ptr<T>() + static_cast<std::size_t>(op.begins[i]) * step,
                       op.x.row_stride, op.x.row_size() / outer};
    part.source_count = 1;
    cuda::append_part(parts, part);
  }
  cuda::run_column_parts(ctx, SliceFwd::kName, op.x.rows(), parts);
}

void slice_fwd_kernel(const OpContext& ctx, const SliceFwd& op) {
  if (op.x.size() == 0) return;
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) { copy_ranges<T>(ctx, op); });
}

void slice_bwd_kernel(const OpContext& ctx, const SliceBwd& op) {
  const std::size_t step = axis_step(op.dx, 1);
  cuda::with_real_type(op.dx.dtype, [&]<class T>(T) {
    std::vector<cuda::ColumnRange<T>> ranges;
    for (std::size_t i = 0; i < op.dys.size(); ++i) {
      const TensorRef& dy = op.dys[i];
      ranges.push_back({dy.ptr<T>(), dy.row_stride, static_cast<std::size_t>(op.begins[i]) * step,
                        dy.row_size()});
    }
    cuda::sum_column_ranges(ctx, SliceBwd::kName, op.dx.rows(), op.dx.row_size(), op.dx.ptr<T>(),
                            op.dx.row_stride, ranges);
  });
}

const OpRegistration<SliceFwd> slice_fwd_cuda{DeviceType::Cuda, &slice_fwd_kernel};
const OpRegistration<SliceBwd> slice_bwd_cuda{DeviceType::Cuda, &slice_bwd_kernel};

}  // namespace
}  // namespace hugectr
