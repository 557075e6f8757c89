// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_order.hpp"

#include <algorithm>

#include "core/cpp/embedding/table/row_sort.hpp"
#include "core/cpp/embedding/table/row_transfer.hpp"
#include "core/cpp/embedding/table/row_visit.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

/// Rows out of a table, in the order of (slot, key) whatever device they lie on.
namespace hugectr {
namespace {

constexpr std::size_t kGrain = std::size_t{1} << 15;  // rows of a piece of a loop

/// Rows that one device has among a part of an order.
struct DeviceRows {
  std::vector<std::uint32_t> rows;
  std::vector<std::size_t> targets;  ///< places in the part; empty: i goes to i
};

std::vector<DeviceRows> by_device(const RowOrder& order, std::size_t begin, std::size_t end,
                                  std::size_t device_count) {
  std::vector<DeviceRows> parts(device_count);
  if (order.devices.empty()) {
    parts[0].rows.assign(order.rows.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.rows.begin() + static_cast<std::ptrdiff_t>(end));
    return parts;
  }
  for (std::size_t i = begin; i < end; ++i) {
    parts[order.devices[i]].rows.push_back(order.rows[i]);
    parts[order.devices[i]].targets.push_back(i - begin);
  }
  return parts;
}

/// Writes where the rows of one part lie; returns how many.
template <class Key>
std::size_t place_rows(const Table& table, std::uint32_t id, ThreadPool& pool, RowMark since,
                       RowPlace* places) {
  const RowExtent extent = table.visible();
  const std::size_t rows = extent.rows;
  std::vector<Key> keys;
  std::vector<std::uint32_t> slots, stamps(since == 0 ? 0 : rows);
  std::vector<std::uint32_t> births(table.has_gaps() ? rows : 0);
  table.index().dump(table.gpu().plan_context(), rows, keys, slots);
  const auto place = [&](std::size_t row) {
    return RowPlace::of(static_cast<std::int64_t>(keys[row]), slots.empty() ? 0 : slots[row], id,
                        static_cast<std::uint32_t>(row));
  };
  if (since == 0 && births.empty()) {
    parallel_for(pool, rows, kGrain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) places[row] = place(row);
    });
    return rows;
  }
  Stream& stream = table.gpu().compute_stream();
  const std::size_t bytes = rows * sizeof(std::uint32_t);
  if (!stamps.empty()) stream.copy(stamps.data(), table.stamps(rows).data, bytes);
  if (!births.empty()) stream.copy(births.data(), table.births(rows).data, bytes);
  stream.synchronize();
  std::size_t n = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool visible =
        births.empty() || (keys[row] != kEmptyKey<Key> && births[row] <= extent.birth);
    if (visible && (since == 0 || stamps[row] >= since)) places[n++] = place(row);
  }
  return n;
}

}  // namespace

RowOrder order_of(const TableParts& parts, ThreadPool& pool, RowMark since) {
  const TableSpec& spec = parts.front()->spec();
  HCTR_CHECK(parts.size() <= std::size_t{1} << RowPlace::kDeviceBits &&
                 spec.slot_num <= std::size_t{1} << RowPlace::kSlotBits,
             "embedding '", spec.name, "' has ", parts.size(), " devices and ", spec.slot_num,
             " slots, more than its rows can be sorted by");
  std::size_t total = 0, n = 0;
  for (const auto& table : parts) total += table->visible().rows;
  // Large pages, and written first by the threads that fill them: a vector has neither.
  const auto arena = DeviceBuffer2::create(spec.name + " rows to sort",
                                           DeviceAllocator(make_host_memory_resource()));
  TensorBag2 first = arena->reserve({total, 2}, TensorScalarType::UInt64, "rows");
  TensorBag2 second = arena->reserve({total, 2}, TensorScalarType::UInt64, "rows again");
  arena->allocate();
  auto* places = static_cast<RowPlace*>(first.get_ptr());
  for (std::size_t id = 0; id < parts.size(); ++id) {
    n += with_key_type(spec.key_type, [&]<class Key>(Key) {
      return place_rows<Key>(*parts[id], static_cast<std::uint32_t>(id), pool, since, places + n);
    });
  }
  places = sort_rows(pool, places, static_cast<RowPlace*>(second.get_ptr()), n);

  RowOrder order;
  order.keys.resize(n);
  order.rows.resize(n);
  order.slot_ids.resize(spec.has_slots() ? n : 0);
  order.devices.resize(parts.size() > 1 ? n : 0);
  parallel_for(pool, n, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      order.keys[i] = places[i].key;
      order.rows[i] = places[i].row();
      if (spec.has_slots()) order.slot_ids[i] = places[i].slot();
      if (parts.size() > 1) order.devices[i] = places[i].device();
    }
  });
  return order;
}

void read_rows(const TableParts& parts, const RowOrder& order, std::size_t begin, std::size_t end,
               const RowValues& values) {
  const TableSpec& spec = parts.front()->spec();
  HCTR_CHECK(begin <= end && end <= order.size(), "embedding '", spec.name, "': rows ", begin,
             " to ", end, " of an order of ", order.size());
  const std::vector<DeviceRows> wanted = by_device(order, begin, end, parts.size());
  for (std::size_t id = 0; id < parts.size(); ++id) {
    const Table& table = *parts[id];
    if (wanted[id].rows.empty()) continue;
    const std::size_t rows = table.visible().rows;
    const std::uint32_t last = *std::max_element(wanted[id].rows.begin(), wanted[id].rows.end());
    HCTR_CHECK(last < rows, "embedding '", spec.name, "' has ", rows, " rows on ",
               to_string(table.gpu().device()), " and the order names row ", last,
               ": it is of an earlier state of the table");
    const OpContext context = table.gpu().compute_context();
    const bool visits = values.vectors || !values.states.empty() || values.last_step;
    if (visits)
      visit_in_pieces(table.store(), context, rows, wanted[id].rows, RowUse::Read,
                      [&](const VisitedPiece& piece) {
                        const std::vector<std::size_t> targets = piece.of(wanted[id].targets);
                        RowTransfer transfer(table.gpu(), context, table.owner(), piece.rows,
                                             targets, widest_part(spec.vec_size),
                                             !table.store().visited_on_host());
                        const RowArrays& arrays = piece.arrays;
                        if (values.vectors) transfer.read(arrays.vectors, values.vectors);
                        for (std::size_t s = 0; s < values.states.size(); ++s) {
                          transfer.read(arrays.states.at(s), values.states[s]);
                        }
                        if (values.last_step && !arrays.last_step.empty()) {
                          transfer.read(arrays.last_step, values.last_step);
                        }
                      });
    if (values.scores && table.keeps_scores()) {  // they are in the device's memory
      RowTransfer transfer(table.gpu(), context, table.owner(), wanted[id].rows, wanted[id].targets,
                           sizeof(std::uint64_t), table.gpu().device().type != DeviceType::Cpu);
      transfer.read(table.scores(rows), values.scores);
    }
  }
}

}  // namespace hugectr
