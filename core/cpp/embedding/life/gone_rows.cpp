// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/life/gone_rows.hpp"

#include <algorithm>
#include <tuple>

namespace hugectr {

void GoneRows::add(RowMark now, const std::vector<std::int64_t>& keys,
                   const std::vector<std::uint32_t>& slots) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rows_.push_back({slots.empty() ? 0 : slots[i], now, keys[i]});
  }
  if (rows_.size() > 2 * joined_ + (1 << 16)) join();
}

void GoneRows::join() {
  std::sort(rows_.begin(), rows_.end(), [](const Gone& a, const Gone& b) {
    return std::tie(a.slot, a.key, b.mark) < std::tie(b.slot, b.key, a.mark);
  });
  const auto last = std::unique(rows_.begin(), rows_.end(), [](const Gone& a, const Gone& b) {
    return a.slot == b.slot && a.key == b.key;
  });
  rows_.erase(last, rows_.end());
  joined_ = rows_.size();
}

RowNames GoneRows::since(RowMark mark) {
  join();
  RowNames names;
  for (const Gone& row : rows_) {
    if (row.mark < mark) continue;
    names.keys.push_back(row.key);
    names.slot_ids.push_back(row.slot);
  }
  return names;
}

bool GoneRows::forget_beyond(std::size_t most) {
  if (rows_.size() <= most) return false;
  join();
  if (rows_.size() <= most) return false;
  clear();
  return true;
}

}  // namespace hugectr
