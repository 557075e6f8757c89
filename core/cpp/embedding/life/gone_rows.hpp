// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/embedding/table/row_bag.hpp"

namespace hugectr {

/// Which rows have gone since a mark: what an order of rows can not name. Kept from the first mark
/// on, an identity once.
class GoneRows {
 public:
  /// Rows that go now. slots: one a key, or none.
  void add(RowMark now, const std::vector<std::int64_t>& keys,
           const std::vector<std::uint32_t>& slots);
  /// Those that went since a mark, sorted by (slot, key); they may have come back.
  RowNames since(RowMark mark);
  /// Forgets all of it when it is longer than `most`; whether it did.
  bool forget_beyond(std::size_t most);
  void clear() {
    rows_.clear();
    joined_ = 0;
  }

 private:
  struct Gone {
    std::uint32_t slot;
    RowMark mark;
    std::int64_t key;
  };
  /// Of an identity that went several times the last.
  void join();

  std::vector<Gone> rows_;
  std::size_t joined_ = 0;  ///< the first ones are sorted, each identity once
};

}  // namespace hugectr
