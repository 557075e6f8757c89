// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/linear.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// True when the rows of tensor `id` go on, up to a multiple of 8 elements, with memory that
/// belongs to no other tensor; `zeros`: and that nobody ever writes to.
bool has_padding(const StepSchedule& schedule, int id, bool zeros) {
  if (id < 0) return false;
  const auto& tensors = schedule.tensors();
  const ScheduleTensor& tensor = tensors[static_cast<std::size_t>(id)];
  const ScheduleTensor& root =
      tensor.base < 0 ? tensor : tensors[static_cast<std::size_t>(tensor.base)];
  if (tensor.shape.size() != 2 || root.shape.empty() || tensor.shape[0] != root.shape[0]) {
    return false;
  }
  // A view that ends where its root's rows end has the root's padding.
  const std::size_t row_size = num_elements(root.shape) / std::max<std::size_t>(root.shape[0], 1);
  if (tensor.base >= 0 && tensor.offset + tensor.shape[1] != row_size) return false;
  const std::size_t whole = (tensor.shape[1] + kRowAlign - 1) / kRowAlign * kRowAlign;
  if (root.row_stride < tensor.offset + whole) return false;
  // The arena starts as zeros, and activations share it with nobody.
  return zeros ? root.role == TensorRole::Activation : root.role != TensorRole::External;
}

}  // namespace

void mark_padded_rows(StepSchedule& schedule) {
  for (OpRecord& record : schedule.records()) {
    if (const auto* forward = record.op.get_if<LinearFwd>()) {
      LinearFwd marked = *forward;
      marked.padded = has_padding(schedule, marked.x.id, true);
      record.op = marked;
    } else if (const auto* backward = record.op.get_if<LinearBwd>()) {
      LinearBwd marked = *backward;
      marked.padded = has_padding(schedule, marked.x.id, true);
      marked.dx_padded = !marked.dx.empty() && has_padding(schedule, marked.dx.id, false);
      record.op = marked;
    }
  }
}

}  // namespace hugectr
