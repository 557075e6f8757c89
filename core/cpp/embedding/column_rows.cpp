// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/column_rows.hpp"

#include <algorithm>

#include "core/cpp/embedding/table/row_find.hpp"
#include "core/cpp/embedding/table/row_transfer.hpp"
#include "core/cpp/embedding/table/row_visit.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

/// One device's columns of rows, on their way to whole rows on the host.
class ColumnReader {
 public:
  ColumnReader(const Table& table, const VisitedPiece& piece)
      : table_(table),
        piece_(piece),
        transfer_(table.gpu(), table.gpu().compute_context(), table.owner(), piece.rows, in_order_,
                  widest_part(table.spec().vec_size), !table.store().visited_on_host()) {}

  const RowArrays& arrays() const { return piece_.arrays; }
  /// Into those columns of whole rows: row i of all that are visited goes to row place(i).
  template <class Place>
  void read(const TensorRef& source, float* whole, const Place& place) {
    const TableSpec& spec = table_.spec();
    std::vector<float> columns(piece_.rows.size() * spec.vec_size);
    transfer_.read(source, columns.data());
    for (std::size_t i = 0; i < piece_.rows.size(); ++i) {
      std::copy_n(columns.begin() + static_cast<std::ptrdiff_t>(i * spec.vec_size), spec.vec_size,
                  whole + place(piece_.begin + i) * spec.all_columns + spec.first_column);
    }
  }
  void read_steps(std::int64_t* steps) {
    transfer_.read(piece_.arrays.last_step, steps + piece_.begin);
  }

 private:
  const Table& table_;
  const VisitedPiece& piece_;
  const std::vector<std::size_t> in_order_;
  RowTransfer transfer_;
};

/// f(reader) of these rows, as many at a time as there can be.
template <class F>
void read_in_pieces(const Table& table, const std::vector<std::uint32_t>& rows, const F& f) {
  visit_in_pieces(table.store(), table.gpu().compute_context(), table.visible().rows, rows,
                  RowUse::Read, [&](const VisitedPiece& piece) {
                    ColumnReader reader(table, piece);
                    f(reader);
                  });
}

/// Numbers of an order's rows on another device.
std::vector<std::uint32_t> rows_on(Table& table, const RowOrder& order, std::size_t begin,
                                   std::size_t end) {
  const std::vector<std::int64_t> keys(order.keys.begin() + static_cast<std::ptrdiff_t>(begin),
                                       order.keys.begin() + static_cast<std::ptrdiff_t>(end));
  std::vector<std::uint32_t> slots;
  for (std::size_t i = begin; i < end && !order.slot_ids.empty(); ++i) {
    slots.push_back(static_cast<std::uint32_t>(order.slot_ids[i]));
  }
  std::vector<std::uint32_t> rows = find_rows(table, keys, slots);
  HCTR_CHECK(std::ranges::count(rows, kNoRow) == 0, "embedding '", table.spec().name,
             "': a row of another device is not on ", to_string(table.gpu().device()),
             ": the order is of an earlier state of the table");
  return rows;
}

}  // namespace

void read_columns(const Table& first, const TableParts& others, const RowOrder& order,
                  std::size_t begin, std::size_t end, const RowValues& values) {
  HCTR_CHECK(begin <= end && end <= order.size(), "embedding '", first.spec().name, "': rows ",
             begin, " to ", end, " of an order of ", order.size());
  if (begin == end) return;
  const auto read = [&](const Table& table, const std::vector<std::uint32_t>& rows, bool steps) {
    const auto in_order = [](std::size_t i) { return i; };
    read_in_pieces(table, rows, [&](ColumnReader& reader) {
      const RowArrays& arrays = reader.arrays();
      if (values.vectors) reader.read(arrays.vectors, values.vectors, in_order);
      for (std::size_t s = 0; s < values.states.size(); ++s) {
        reader.read(arrays.states.at(s), values.states[s], in_order);
      }
      if (steps && values.last_step && !arrays.last_step.empty()) {
        reader.read_steps(values.last_step);
      }
    });
  };
  read(first,
       {order.rows.begin() + static_cast<std::ptrdiff_t>(begin),
        order.rows.begin() + static_cast<std::ptrdiff_t>(end)},
       true);
  for (const auto& table : others) {
    if (table->visible().rows > 0) read(*table, rows_on(*table, order, begin, end), false);
  }
}

void look_up_columns(const Table& table, const std::vector<std::uint32_t>& rows,
                     const std::vector<std::size_t>& places, float* vectors) {
  read_in_pieces(table, rows, [&](ColumnReader& reader) {
    reader.read(reader.arrays().vectors, vectors, [&](std::size_t i) { return places[i]; });
  });
}

ColumnsOfRows::ColumnsOfRows(const RowView& rows, const TableSpec& spec) : view_(rows) {
  const auto take = [&](const float* whole) {
    std::vector<float>& columns = copies_.emplace_back(rows.size * spec.vec_size);
    for (std::size_t i = 0; i < rows.size; ++i) {
      std::copy_n(whole + i * spec.all_columns + spec.first_column, spec.vec_size,
                  columns.begin() + static_cast<std::ptrdiff_t>(i * spec.vec_size));
    }
    return columns.data();
  };
  view_.vec_size = spec.vec_size;
  if (rows.size == 0) return;
  copies_.reserve(1 + rows.states.size());
  view_.vectors = take(rows.vectors);
  for (const float*& state : view_.states) state = take(state);
}

}  // namespace hugectr
