// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/arrow_column.hpp"
#include "core/cpp/data/arrow_format.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {

/// Rows of one record batch, turned into samples column by column.
class ArrowBlock final : public IBlock {
 public:
  /// `file` and `block` (in it) are named in errors. Throws DataError for columns that are missing
  /// or can not be what the mapping says.
  ArrowBlock(std::unique_ptr<ArrowBatch> batch, const ArrowMapping& mapping,
             const InputLayout& layout, std::size_t rows, OnBadData on_bad_data, std::string file,
             std::size_t block, DamageLog& damage);

  std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override;
  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override;

 private:
  struct Slot {
    ArrowColumn column;
    std::int64_t offset;  ///< added to its keys
    bool from_zero;       ///< its keys count from 0: there are slot sizes
    std::size_t most;     ///< nnz_per_slot
    bool keeps_last;      ///< of more keys the last ones count
    /// The numbers of a row that are keys: values [begin(row), end(row)) of the column.
    std::size_t begin(std::size_t row) const {
      const std::size_t first = column.begin(row), end = column.end(row);
      return keeps_last && end - first > most ? end - most : first;
    }
    std::size_t end(std::size_t row) const { return column.end(row); }
    std::size_t keys(std::size_t row) const { return end(row) - begin(row); }
  };
  ArrowColumn column(const std::string& name) const;
  /// Marks the rows of [first, first + count) that can not be samples; empty when all can.
  std::vector<std::uint8_t> bad_rows(std::size_t first, std::size_t count) const;
  void find_bad_keys(const Slot& slot, std::size_t first, std::vector<std::uint8_t>& bad) const;
  /// Why a row that bad_rows() found can not be a sample.
  std::string explain(std::size_t row) const;
  std::string explain_key(const Slot& slot, std::size_t row) const;
  std::string explain(const BadValue& value) const;
  /// Throws, or notes the first row of a chunk.
  void refuse(std::size_t row, const std::string& what, CSRChunk& chunk) const;
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
  const std::string file_, where_;
  DamageLog& damage_;
  std::vector<ArrowColumn> labels_, dense_;
  std::vector<std::vector<Slot>> inputs_;  ///< slots of each sparse input
};

}  // namespace hugectr
