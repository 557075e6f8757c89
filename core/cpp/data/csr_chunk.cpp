// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/csr_chunk.hpp"

#include <algorithm>
#include <cstring>

#include "core/cpp/base/error.hpp"

namespace hugectr {

std::size_t SparseInput::max_feature_num() const {
  std::size_t sum = 0;
  for (const int nnz : nnz_per_slot) sum += static_cast<std::size_t>(std::max(nnz, 0));
  return sum;
}

std::size_t SparseInput::max_nnz() const {
  std::size_t most = 0;
  for (const int nnz : nnz_per_slot)
    most = std::max(most, static_cast<std::size_t>(std::max(nnz, 0)));
  return most;
}

std::size_t InputLayout::total_slots() const {
  std::size_t sum = 0;
  for (const SparseInput& input : sparse) sum += input.slot_num;
  return sum;
}

void InputLayout::check() const {
  for (const SparseInput& input : sparse) {
    HCTR_CHECK(input.slot_num > 0 && input.nnz_per_slot.size() == input.slot_num, "sparse input '",
               input.top_name, "': slot_num is ", input.slot_num, " and nnz_per_slot has ",
               input.nnz_per_slot.size(), " numbers, need one for each slot");
    for (const int nnz : input.nnz_per_slot) {
      HCTR_CHECK(nnz >= 0, "sparse input '", input.top_name, "': nnz_per_slot has ", nnz,
                 ", allowed are 0 and more");
    }
  }
}

CSRChunk make_csr_chunk(const InputLayout& layout, std::size_t batch,
                        const std::shared_ptr<MemoryResource>& resource) {
  CSRChunk chunk;
  const auto array = [&](std::size_t bytes) {
    StagingArray result(resource);
    result.reserve(std::max<std::size_t>(bytes, 1));
    return result;
  };
  chunk.label = array(batch * layout.label_dim * sizeof(float));
  chunk.dense = array(batch * layout.dense_dim * sizeof(float));
  chunk.weight = array(batch * sizeof(float));
  for (const SparseInput& input : layout.sparse) {
    HostCsr csr;
    csr.keys = array(1);
    csr.row_offsets = array((batch * input.slot_num + 1) * sizeof(offset_t));
    chunk.sparse.push_back(std::move(csr));
  }
  return chunk;
}

void take_keys_out(const InputLayout& layout, std::size_t at, std::size_t count, CSRChunk& chunk) {
  const float* weight = chunk.weight.as<float>() + at;
  const std::size_t key_bytes = layout.i64_keys ? 8 : 4;
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    const std::size_t slots = layout.sparse[i].slot_num;
    HostCsr& csr = chunk.sparse[i];
    auto* keys = csr.keys.as<std::uint8_t>();
    offset_t* rows = csr.row_offsets.as<offset_t>() + at * slots;
    std::size_t begin = rows[0];  // where the sample's keys are; they go to rows[0]
    for (std::size_t k = 0; k < count; ++k, rows += slots) {
      const std::size_t end = rows[slots];
      if (weight[k] == 0.0f) {
        std::fill_n(rows + 1, slots, rows[0]);
      } else if (begin != rows[0]) {
        std::memmove(keys + rows[0] * key_bytes, keys + begin * key_bytes,
                     (end - begin) * key_bytes);
        const auto shift = static_cast<offset_t>(begin - rows[0]);
        for (std::size_t s = 1; s <= slots; ++s) rows[s] -= shift;
      }
      begin = end;
    }
    csr.nnz = rows[0];
  }
}

void pad_samples(const InputLayout& layout, std::size_t first, std::size_t batch, CSRChunk& chunk) {
  const std::size_t count = batch - first;
  const auto zero = [&](StagingArray& array, std::size_t width) {
    if (width * count > 0) {
      std::memset(array.as<float>() + first * width, 0, count * width * sizeof(float));
    }
  };
  zero(chunk.label, layout.label_dim);
  zero(chunk.dense, layout.dense_dim);
  zero(chunk.weight, 1);
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    const std::size_t slots = layout.sparse[i].slot_num;
    HostCsr& csr = chunk.sparse[i];
    offset_t* offsets = csr.row_offsets.as<offset_t>();
    std::fill(offsets + first * slots, offsets + batch * slots + 1, static_cast<offset_t>(csr.nnz));
  }
}

}  // namespace hugectr
