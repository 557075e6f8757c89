// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_block.hpp"

#include <algorithm>

namespace hugectr {

std::size_t NormBlock::key_count(std::size_t input, std::size_t first, std::size_t count) const {
  const NormRecordShape& shape = reading_.shape;
  const std::size_t bytes = range_->begins[first + count] - range_->begins[first];
  // Of all inputs together: how a record's bytes are divided among them is not known yet.
  const std::size_t keys =
      (bytes - count * (shape.min_payload + shape.frame_bytes())) / shape.key_bytes;
  return std::min(keys, count * shape.inputs[input].most) + NormDecoder::kKeySlack;
}

}  // namespace hugectr
