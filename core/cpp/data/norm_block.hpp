// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/norm_reading.hpp"

namespace hugectr {

/// A range of records; each is decoded when it is copied.
class NormBlock final : public IBlock {
 public:
  NormBlock(const NormReading& reading, std::shared_ptr<const NormRange> range)
      : reading_(reading), range_(std::move(range)) {}

  std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override;
  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override {
    return reading_.decoder.decode_rows(*range_, first, count, at, chunk);
  }
  std::uint64_t byte_behind(std::size_t rows) const override {
    return range_->byte + range_->begins[rows];
  }

 private:
  const NormReading& reading_;
  const std::shared_ptr<const NormRange> range_;
};

}  // namespace hugectr
