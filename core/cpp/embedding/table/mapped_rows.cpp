// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/memory/growable_tensor.hpp"

namespace hugectr {
namespace {

bool meet(const void* begin, std::size_t bytes, const GrowableTensor& tensor) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const auto table = reinterpret_cast<std::uintptr_t>(tensor.ref(0, 0).data);
  return first < table + tensor.size_in_bytes() && table < first + bytes;
}

class MappedRows final : public RowStore {
 public:
  MappedRows(MemoryResource& memory, const std::string& owner, const RowParts& parts,
             std::size_t max_rows)
      : vectors_(memory, TensorScalarType::Float32, parts.vec_size, max_rows, owner + " weights") {
    for (const std::size_t width : parts.states) {
      states_.emplace_back(memory, TensorScalarType::Float32, width, max_rows,
                           concat(owner, " optimizer state ", states_.size()));
    }
    if (parts.last_step) {
      last_step_ =
          GrowableTensor(memory, TensorScalarType::Int64, 1, max_rows, owner + " last step");
    }
  }

  void grow_to(std::size_t rows) override {
    vectors_.grow_to(rows);
    for (GrowableTensor& state : states_) state.grow_to(rows);
    if (last_step_.max_rows() > 0) last_step_.grow_to(rows);
  }

  bool wants_distinct_rows() const override { return false; }
  StagedRows stage(const OpContext&, std::size_t, std::size_t rows,
                   const PlanRows& numbers) override {
    return {whole(rows), numbers.of_keys, numbers.distinct};  // a number is a place
  }
  void release(const OpContext&, std::size_t) override {}
  void write_back(const OpContext&) override {}

  RowArrays whole(std::size_t rows) const override {
    RowArrays arrays{vectors_.ref(0, rows), {}, {}};
    for (const GrowableTensor& state : states_) arrays.states.push_back(state.ref(0, rows));
    if (last_step_.max_rows() > 0) arrays.last_step = last_step_.ref(0, rows);
    return arrays;
  }

  bool overlaps(const void* begin, std::size_t bytes) const override {
    bool any = meet(begin, bytes, vectors_);
    for (const GrowableTensor& state : states_) any = any || meet(begin, bytes, state);
    return any;
  }
  std::size_t vector_bytes() const override { return vectors_.size_in_bytes(); }
  std::size_t size_in_bytes() const override {
    std::size_t bytes = vectors_.size_in_bytes() + last_step_.size_in_bytes();
    for (const GrowableTensor& state : states_) bytes += state.size_in_bytes();
    return bytes;
  }

 private:
  GrowableTensor vectors_, last_step_;
  std::vector<GrowableTensor> states_;
};

}  // namespace

RowParts parts_of_row(std::size_t vec_size, const OptParams& params) {
  return {vec_size, state_widths(params, vec_size), keeps_last_step(params)};
}

std::unique_ptr<RowStore> make_mapped_rows(MemoryResource& memory, const std::string& owner,
                                           const RowParts& parts, std::size_t max_rows) {
  return std::make_unique<MappedRows>(memory, owner, parts, max_rows);
}

}  // namespace hugectr
