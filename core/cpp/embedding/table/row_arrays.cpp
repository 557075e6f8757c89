// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_arrays.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

bool meet(const void* begin, std::size_t bytes, const GrowableTensor& tensor) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const auto table = reinterpret_cast<std::uintptr_t>(tensor.ref(0, 0).data);
  return first < table + tensor.size_in_bytes() && table < first + bytes;
}

}  // namespace

std::size_t RowParts::row_bytes() const {
  const std::size_t numbers = std::accumulate(states.begin(), states.end(), std::size_t{0});
  return vector_bytes() + numbers * sizeof(float) + (last_step ? sizeof(std::int64_t) : 0);
}

RowParts parts_of_row(std::size_t vec_size, TensorScalarType vector_type, const OptParams& params) {
  return {vec_size, vector_type, state_widths(params, vec_size), keeps_last_step(params)};
}

std::vector<TensorRef> parts_of(const RowArrays& arrays) {
  std::vector<TensorRef> parts{arrays.vectors};
  parts.insert(parts.end(), arrays.states.begin(), arrays.states.end());
  if (!arrays.last_step.empty()) parts.push_back(arrays.last_step);
  return parts;
}

GrowableRows::GrowableRows(MemoryResource& memory, DeviceId device, const std::string& owner,
                           const RowParts& parts, std::size_t max_rows)
    : device_(device),
      vectors_(memory, parts.vector_type, parts.vec_size, max_rows, owner + " weights") {
  for (const std::size_t width : parts.states) {
    states_.emplace_back(memory, TensorScalarType::Float32, width, max_rows,
                         concat(owner, " optimizer state ", states_.size()));
  }
  if (parts.last_step) {
    last_step_ = GrowableTensor(memory, TensorScalarType::Int64, 1, max_rows, owner + " last step");
  }
}

void GrowableRows::grow_to(std::size_t rows) {
  vectors_.grow_to(rows);
  for (GrowableTensor& state : states_) state.grow_to(rows);
  if (last_step_.max_rows() > 0) last_step_.grow_to(rows);
}

std::size_t GrowableRows::room() const {
  std::size_t rows = vectors_.rows();
  for (const GrowableTensor& state : states_) rows = std::min(rows, state.rows());
  return last_step_.max_rows() > 0 ? std::min(rows, last_step_.rows()) : rows;
}

RowArrays GrowableRows::arrays(std::size_t rows) const {
  // Host memory that serves a device is the device's to its ops.
  const auto ref = [&](const GrowableTensor& tensor) {
    TensorRef ref = tensor.ref(0, rows);
    ref.device = device_;
    return ref;
  };
  RowArrays arrays{ref(vectors_), {}, {}};
  for (const GrowableTensor& state : states_) arrays.states.push_back(ref(state));
  if (last_step_.max_rows() > 0) arrays.last_step = ref(last_step_);
  return arrays;
}

bool GrowableRows::overlaps(const void* begin, std::size_t bytes) const {
  bool any = meet(begin, bytes, vectors_);
  for (const GrowableTensor& state : states_) any = any || meet(begin, bytes, state);
  return any;
}

std::size_t GrowableRows::size_in_bytes() const {
  std::size_t bytes = vectors_.size_in_bytes() + last_step_.size_in_bytes();
  for (const GrowableTensor& state : states_) bytes += state.size_in_bytes();
  return bytes;
}

}  // namespace hugectr
