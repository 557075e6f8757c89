// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/arrow_column.hpp"
#include "core/cpp/data/arrow_format.hpp"

namespace hugectr {

/// Rows of one record batch, turned into samples column by column.
class ArrowBlock final : public IBlock {
 public:
  /// `where` names file and block in errors. Throws DataError for columns that are missing or can
  /// not be what the mapping says.
  ArrowBlock(std::unique_ptr<ArrowBatch> batch, const ArrowMapping& mapping,
             const InputLayout& layout, std::size_t rows, OnBadData on_bad_data, std::string where);

  std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override;
  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override;

 private:
  struct Slot {
    ArrowColumn column;
    std::int64_t offset;  ///< added to its keys
    std::size_t most;     ///< nnz_per_slot
    bool exactly;         ///< is_fixed_length
  };
  ArrowColumn column(const std::string& name) const;
  /// Rows of [first, first + count) that can not be samples; throws for the first under Error.
  std::vector<std::uint8_t> bad_rows(std::size_t first, std::size_t count) const;
  void find_bad_keys(const Slot& slot, std::size_t first, std::vector<std::uint8_t>& bad) const;
  [[noreturn]] void refuse(std::size_t row) const;
  void copy_floats(const std::vector<ArrowColumn>& columns, std::size_t first, std::size_t count,
                   const std::vector<std::uint8_t>& bad, float* to) const;
  template <class Key>
  void copy_single_keys(std::size_t input, std::size_t first, std::size_t count, std::size_t at,
                        HostCsr& csr) const;
  template <class Key>
  void copy_listed_keys(std::size_t input, std::size_t first, std::size_t count, std::size_t at,
                        const std::vector<std::uint8_t>& bad, HostCsr& csr) const;

  std::unique_ptr<ArrowBatch> batch_;
  const InputLayout& layout_;
  const OnBadData on_bad_data_;
  const std::string where_;
  std::vector<ArrowColumn> labels_, dense_;
  std::vector<std::vector<Slot>> inputs_;  ///< slots of each sparse input
};

}  // namespace hugectr
