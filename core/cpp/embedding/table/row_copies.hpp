// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/row_backing.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Which rows of a table have places on a device, and what lies there.
struct RowsAtPlaces {
  RowArrays arrays;    ///< by place
  TensorRef place_of;  ///< (R) uint32: of each row its place + 1, or 0
};

/// Copies of rows of a table whose home is not whole: of those that have a place on the device from
/// there, of the others from home. In host memory that ops of the device reach. Nothing moves, so
/// that it takes no room anywhere else, and nobody computes anything else for it.
class RowCopies {
 public:
  /// Memory for `most` rows.
  RowCopies(GPUResource& gpu, RowBacking& home, const std::string& owner, const RowParts& parts,
            std::size_t most);
  /// Rows that are copied at a time take about eight mebibytes.
  static std::size_t most(const RowParts& parts);

  /// Copy i := row numbers[i], all below R; of kNoRow it has any content. In the order of the
  /// context's stream, which has waited for who writes the rows. Waits.
  void read(const OpContext& context, const RowsAtPlaces& there,
            const std::vector<std::uint32_t>& numbers);
  /// The rows that were read last := their copies, at home and at their places. Waits. When it
  /// throws each is as before or as it was to be.
  void write(const OpContext& context, const RowsAtPlaces& there);

  /// Those that were read last.
  RowArrays arrays() const { return rows_.arrays(numbers_.size()); }
  /// Where row numbers[i] lies in them: i, or kNoRow for kNoRow.
  const std::vector<std::uint32_t>& places() const { return in_copies_; }

 private:
  TensorRef first(const TensorBag2& list, std::size_t n) const;
  void move(const OpContext& context, const RowsAtPlaces& there, bool to_places) const;

  GPUResource& gpu_;
  RowBacking& home_;
  GrowableRows rows_;
  TensorBag2 copies_,
      places_;              ///< rows that have places: which copies they are, and where they lie
  std::size_t placed_ = 0;  ///< so many
  std::vector<std::uint32_t> numbers_, in_copies_;
};

}  // namespace hugectr
