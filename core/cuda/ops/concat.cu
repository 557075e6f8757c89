// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

template <class T>
void join(const OpContext& ctx, const ConcatFwd& op) {
  const std::size_t outer = segments(op.y, op.axis);
  const std::size_t y_segment = op.y.row_size() / outer;
  T* to = op.y.ptr<T>();
  std::vector<cuda::ColumnPartOf<T>> parts;
  for (const TensorRef& x : op.xs) {
    cuda::ColumnPartOf<T> part;
    part.to = to;
    part.to_row = op.y.row_stride;
    part.to_segment = y_segment;
    part.outer = outer;
    part.count = x.row_size() / outer;
    part.sources[0] = {x.ptr<T>(), x.row_stride, part.count};
    part.source_count = 1;
    cuda::append_part(parts, part);
    to += part.count;
  }
  cuda::run_column_parts(ctx, ConcatFwd::kName, op.y.rows(), parts);
}

void concat_fwd_kernel(const OpContext& ctx, const ConcatFwd& op) {
  if (op.y.size() == 0) return;
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) { join<T>(ctx, op); });
}

const OpRegistration<ConcatFwd> concat_fwd_cuda{DeviceType::Cuda, &concat_fwd_kernel};

}  // namespace
}  // namespace hugectr
