// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/rows_beside.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

std::vector<std::uint32_t> on_host(Stream& stream, const TensorRef& list, std::size_t n) {
  std::vector<std::uint32_t> values(n);
  stream.copy(values.data(), list.data, n * sizeof values[0]);
  stream.synchronize();
  return values;
}

TensorRef to_device(Stream& stream, const TensorBag2& list,
                    const std::vector<std::uint32_t>& values) {
  TensorRef ref = list.ref();
  ref.shape = {values.size()};
  stream.copy(ref.data, values.data(), values.size() * sizeof values[0]);
  stream.synchronize();
  return ref;
}

}  // namespace

RowsBeside::RowsBeside(const OpContext& context, std::unique_ptr<RowCopies> copies,
                       const RowsAtPlaces& there, const PlanRows& numbers, std::size_t rows,
                       const PlanPlaces& lists)
    : copies_(std::move(copies)) {
  Stream& stream = *context.stream;
  // Ascending, each once.
  const std::vector<std::uint32_t> distinct = on_host(stream, numbers.distinct, rows);
  copies_->read(context, there, distinct);
  std::vector<std::uint32_t> of_keys = on_host(stream, numbers.of_keys, numbers.of_keys.size());
  for (std::uint32_t& row : of_keys) {
    if (row == kNoRow) continue;
    row = static_cast<std::uint32_t>(std::ranges::lower_bound(distinct, row) - distinct.begin());
  }
  staged_ = {copies_->arrays(),
             to_device(stream, lists.of_keys, of_keys),
             to_device(stream, lists.distinct, copies_->places()),
             {}};
}

RowsBeside::~RowsBeside() {
  try {
    if (released_) released_->synchronize();
  } catch (const std::exception&) {  // whoever waited for it has been told
  }
}

}  // namespace hugectr
