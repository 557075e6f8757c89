// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/embedding/sharded_table.hpp"
#include "core/cpp/embedding/table/row_erase.hpp"
#include "core/cpp/embedding/table/row_find.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

/// Rows that go, and what marks know of them.
namespace hugectr {
namespace {

/// So many rows may always go without a mark forgetting them.
constexpr std::size_t kFewGone = 1 << 16;

}  // namespace

std::size_t ShardedTable::erase(const std::vector<std::int64_t>& keys,
                                const std::vector<std::uint64_t>& slot_ids) {
  require_no_plan("erase");
  const std::vector<Share> shares = this->shares(keys, slot_ids);
  std::size_t erased = 0;
  for (std::size_t id = 0; id < by_device_.size(); ++id) {
    Table& part = *by_device_[id];
    const FoundRows found = rows_to_erase(part, shares[id].keys, shares[id].slots);
    if (found.rows.empty()) continue;
    forget(part, found.rows, reads_out(id));
    if (reads_out(id)) erased += found.rows.size();
  }
  gone_by_name_ += erased;
  return erased;
}

void ShardedTable::forget(Table& part, const TensorRef& rows, bool noted) {
  if (now_ > 0 && noted) {
    const RowIdentities names = identities_of(part, rows);
    gone_.add(now_, names.keys, names.slots);
    erased_ = now_;
  }
  part.erase(rows);
}

std::size_t ShardedTable::forget(const ChosenRows& chosen) {
  for (std::size_t id = 0; id < chosen.rows.size(); ++id) {
    if (!chosen.rows[id].empty()) forget(*parts_[id], chosen.rows[id], true);
  }
  return chosen.count;
}

void ShardedTable::evict(std::int64_t step) {
  require_no_plan("evict");
  IProcessGroup* const processes = resources_->processes().get();
  const std::int64_t now = params_.life.timed() ? latest_time(spec_, parts_, processes) : step;
  refused_ += forget(stale_candidates(spec_, parts_, now));
  evicted_ += forget(expired_rows(spec_, parts_, now));
  evicted_ += forget(surplus_rows(spec_, parts_, now, processes));
  // More than that a whole checkpoint says as shortly.
  if (gone_.forget_beyond(std::max(kFewGone, stats().rows))) forgotten_ = now_;
}

RowNames ShardedTable::gone(RowMark since) {
  HCTR_CHECK(knows_changes_since(since), "embedding '", params_.name,
             "' did not note which rows went since mark ", since, ": ask for all rows");
  RowNames names = gone_.since(since), gone;
  if (!has_slots()) names.slot_ids.clear();
  std::vector<std::uint8_t> there(names.keys.size(), 0);
  const std::vector<Share> shares = this->shares(names.keys, names.slot_ids);
  for (std::size_t id = 0; id < by_device_.size(); ++id) {
    const auto found = find_rows(*by_device_[id], shares[id].keys, shares[id].slots);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != kNoRow) there[shares[id].places[i]] = 1;
    }
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (there[i]) continue;
    gone.keys.push_back(names.keys[i]);
    if (has_slots()) gone.slot_ids.push_back(names.slot_ids[i]);
  }
  return gone;
}

}  // namespace hugectr
