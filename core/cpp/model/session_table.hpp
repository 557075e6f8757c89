// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/tensor_view.hpp"
#include "core/cpp/embedding/table_access.hpp"

namespace hugectr {

struct SessionState;

/// TableRows as views.
struct TableViews {
  TensorView keys, slots, vectors;
  std::vector<TensorView> states;
};

/// A table of a Session: its rows in and out. What changes rows or tells which there are takes a
/// batch that is planned ahead back first, to be planned anew, and is collective as the Session is.
class HCTR_API SessionTable : public TableAccess {
 public:
  /// Of the session's, by its number there.
  SessionTable(SessionState& session, std::size_t index);

  /// Trained rows on one local device without a copy; a view keeps the whole model alive. Rows
  /// never move: it stays good while the table grows, but does not show the rows that come later.
  /// reset() and load() write other rows into the same memory.
  TableViews view(std::size_t local_id);
  TableStats stats() const override;

 protected:
  void settle() override;
  std::int64_t step() const override;

 private:
  SessionState& session_;
};

}  // namespace hugectr
