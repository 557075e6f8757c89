// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kFp8Align = 16;  ///< numbers: the 16 bytes at which rows of fp8 begin

bool takes_fp8(const TensorRef& w) {
  const bool in_16_bits =
      w.dtype == TensorScalarType::BFloat16 || w.dtype == TensorScalarType::Float16;
  return in_16_bits && w.shape.size() == 2 && w.shape[0] >= kFp8Align &&
         w.shape[1] % kFp8Align == 0;
}

template <class Linear>
void mark(OpRecord& record) {
  const auto* linear = record.op.get_if<Linear>();
  if (linear == nullptr || !takes_fp8(linear->w)) return;
  Linear marked = *linear;
  marked.fp8 = true;
  record.op = marked;
}

}  // namespace

void products_in_fp8(StepSchedule& schedule) {
  for (OpRecord& record : schedule.records()) {
    mark<LinearFwd>(record);
    mark<LinearBwd>(record);
  }
}

}  // namespace hugectr
