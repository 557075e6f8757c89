// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/linked_rows.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/linked_segments.hpp"

namespace hugectr {
namespace {

/// The rows at these places of an order.
RowOrder chosen(const RowOrder& order, const std::vector<std::size_t>& places) {
  RowOrder found;
  found.table = order.table;
  for (const std::size_t i : places) {
    found.keys.push_back(order.keys[i]);
    found.rows.push_back(order.rows[i]);
    if (!order.slot_ids.empty()) found.slot_ids.push_back(order.slot_ids[i]);
    if (!order.devices.empty()) found.devices.push_back(order.devices[i]);
  }
  return found;
}

LinkedRows linked_rows(const RowOrder& order, const std::vector<std::size_t>& places,
                       const StoredRows& stored, std::size_t row_bytes) {
  std::vector<std::pair<RowLocation, std::size_t>> sorted;  // place in the order
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (stored.at[i].segment != 0) sorted.emplace_back(stored.at[i], places[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  LinkedRows linked;
  linked.row_bytes = row_bytes;
  std::vector<std::size_t> by_place;
  by_place.reserve(sorted.size());
  linked.places.reserve(sorted.size());
  std::uint32_t segment = 0;
  for (const auto& [at, i] : sorted) {
    if (at.segment != segment) {
      segment = at.segment;
      linked.segments.push_back(stored.segments.at(segment));
    }
    linked.places.push_back(linked_place(linked.segments.size() - 1, at));
    by_place.push_back(i);
  }
  linked.order = chosen(order, by_place);
  return linked;
}

}  // namespace

SharedSegment LinkedRows::segment(std::size_t i) const {
  const SegmentFile& file = segments.at(i)->file();
  return {file.path(), file.sums().bytes(), file.head_sum(), file.sums().sums()};
}

void LinkedRows::sync(std::size_t i) const { segments.at(i)->file().sync(); }

void LinkedRows::verify(std::size_t i, bool again) const { segments.at(i)->file().verify(again); }

StoredSplit split_stored(const TableParts& parts, RowOrder order) {
  StoredSplit split;
  std::vector<bool> is_linked(order.size(), false);
  for (std::size_t id = 0; id < parts.size(); ++id) {
    if (!parts[id]->store().stored({})) continue;  // before lists of all rows are made
    std::vector<std::size_t> places;
    std::vector<std::uint32_t> rows;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (!order.devices.empty() && order.devices[i] != id) continue;
      places.push_back(i);
      rows.push_back(order.rows[i]);
    }
    const std::optional<StoredRows> stored = parts[id]->store().stored(rows);
    if (!stored) continue;
    for (std::size_t i = 0; i < places.size(); ++i) {
      is_linked[places[i]] = stored->at[i].segment != 0;
    }
    LinkedRows linked =
        linked_rows(order, places, *stored, parts[id]->spec().row_parts().row_bytes());
    if (!linked.places.empty()) split.linked.push_back(std::move(linked));
  }
  if (split.linked.empty()) {
    split.rest = std::move(order);
    return split;
  }
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!is_linked[i]) rest.push_back(i);
  }
  split.rest = chosen(order, rest);
  return split;
}

}  // namespace hugectr
