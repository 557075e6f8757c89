// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/growable_tensor.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {

namespace {

/// Growing by an eighth stays at this many bytes until they are a thirty-second.
constexpr std::size_t kEighthUpTo = std::size_t{64} << 20;

}  // namespace

GrowableTensor::GrowableTensor(MemoryResource& resource, TensorScalarType type,
                               std::size_t row_size, std::size_t max_rows, std::string name)
    : device_(resource.device()),
      type_(type),
      row_size_(row_size),
      max_rows_(max_rows),
      name_(std::move(name)) {
  HCTR_CHECK(row_size > 0 && size_of(type) > 0, "'", name_, "' needs rows of at least one element");
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(max_rows, row_size * size_of(type), &bytes)) {
    throw OutOfMemory(concat("'", name_, "' can not have ", max_rows, " rows of ", row_size, " ",
                             to_string(type), ": more than the address space"));
  }
  memory_ = resource.reserve_growable(bytes, name_);
}

void GrowableTensor::grow_to(std::size_t rows) {
  if (rows <= rows_) return;
  if (rows > max_rows_) {
    throw OutOfMemory(concat("'", name_, "' needs ", rows, " rows and may have ", max_rows_,
                             ": raise its budget or reduce its keys"));
  }
  const std::size_t row_bytes = row_size_ * size_of(type_);
  const std::size_t more = std::max(rows_ / 32, std::min(rows_ / 8, kEighthUpTo / row_bytes));
  const std::size_t generous = std::min(max_rows_, std::max(rows, rows_ + more));
  try {
    memory_->grow(generous * row_bytes);
  } catch (const OutOfMemory&) {
    if (generous == rows) throw;
    memory_->grow(rows * row_bytes);  // what was asked for may still fit
  }
  // Pages come whole: take the rows that came with them.
  rows_ = std::min(max_rows_, memory_->size() / row_bytes);
}

TensorRef GrowableTensor::ref(std::size_t first, std::size_t count) const {
  HCTR_CHECK(first <= rows_ && count <= rows_ - first, "'", name_, "' has rows 0 to ", rows_,
             ", asked for ", count, " from ", first);
  TensorRef ref;
  ref.dtype = type_;
  ref.device = device_;
  ref.shape = {count, row_size_};
  ref.row_stride = row_size_;
  if (memory_) {
    ref.data = static_cast<char*>(memory_->data()) + first * row_size_ * size_of(type_);
  }
  return ref;
}

}  // namespace hugectr
