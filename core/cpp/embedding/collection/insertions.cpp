// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/insertions.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {
namespace {

/// Plans without an update after which settle() does not wait to be asked.
constexpr std::size_t kMostDone = 64;

}  // namespace

void Insertions::add(std::uint64_t plan, std::vector<PlannedRows> tables) {
  entries_.push_back({.plan = plan, .tables = std::move(tables)});
}

bool Insertions::others_before(std::uint64_t plan) const {
  // What is visible has had its update, or is a stray: the plan of the last step is, while its
  // batch is alive.
  const auto may_go_without = [&](const Entry& entry) {
    return entry.plan < plan && !entry.visible && !entry.awaits_update;
  };
  return has_strays() || std::ranges::any_of(entries_, may_go_without);
}

void Insertions::await_update(std::uint64_t plan) {
  for (Entry& entry : entries_) {
    if (entry.plan == plan) entry.awaits_update = true;
  }
}

void Insertions::end(std::uint64_t plan) {
  for (Entry& entry : entries_) {
    if (entry.plan == plan) entry.used = false;
  }
  const auto done = std::count_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return entry.done(); });
  if (static_cast<std::size_t>(done) > kMostDone || stray_plans_ > kMostDone) relieve();
}

void Insertions::show(const RowsOfTable& updated) {
  const auto last = std::find_if(entries_.rbegin(), entries_.rend(),
                                 [](const Entry& entry) { return entry.awaits_update; });
  std::vector<std::set<std::uint32_t>> shown(group_.size());
  for (auto entry = last; entry != entries_.rend(); ++entry) {
    const bool was_visible = std::exchange(entry->visible, true);
    if (!std::exchange(entry->awaits_update, false)) {
      if (was_visible) continue;
      list_rows(*entry, shown);
      ++stray_plans_;
      continue;
    }
    for (std::size_t t = 0; t < entry->tables.size(); ++t) {
      group_.table(t).part(gpu_.get_local_id()).show(entry->tables[t].extent);
      entry->tables[t].pin.reset();
    }
  }
  note_strays(std::move(shown), updated);
}

void Insertions::note_strays(std::vector<std::set<std::uint32_t>> shown,
                             const RowsOfTable& updated) {
  for (std::size_t t = 0; t < strays_.size(); ++t) {
    if (strays_[t].empty() && shown[t].empty()) continue;
    Table& table = group_.table(t).part(gpu_.get_local_id());
    std::vector<std::uint32_t> trained;
    for (const std::uint32_t row : updated(t)) {
      if (strays_[t].erase(row) > 0) trained.push_back(row);
      shown[t].erase(row);
    }
    if (!trained.empty()) table.reveal(trained);
    if (shown[t].empty()) continue;
    table.hide({shown[t].begin(), shown[t].end()});
    strays_[t].merge(shown[t]);
  }
}

void Insertions::list_rows(const Entry& entry, std::vector<std::set<std::uint32_t>>& rows) const {
  for (std::size_t t = 0; t < entry.tables.size(); ++t) {
    const PlannedRows& plan = entry.tables[t];
    for (std::size_t row = plan.before.rows; row < plan.extent.rows; ++row) {
      rows[t].insert(static_cast<std::uint32_t>(row));
    }
    // Numbers that were free: of those in use since the plan the last, as free ones are used from
    // the end on.
    const std::size_t reused = plan.before.free - (plan.extent.rows - plan.extent.live);
    if (reused == 0) continue;
    const TensorRef since = group_.table(t).part(gpu_.get_local_id()).reused_since(plan.before);
    std::vector<std::uint32_t> numbers(reused);
    Stream& stream = gpu_.plan_stream();
    stream.copy(numbers.data(), since.ptr<std::uint32_t>() + (since.size() - reused),
                reused * sizeof numbers[0]);
    stream.synchronize();
    rows[t].insert(numbers.begin(), numbers.end());
  }
}

void Insertions::withdraw() {
  for (Entry& entry : entries_) entry.awaits_update = false;
  settle();
}

void Insertions::settle() {
  entries_.remove_if([](const Entry& entry) { return entry.visible && entry.done(); });
  if (!rows_go()) return;
  before_rows_go_();
  take_back();
  if (entries_.empty()) erase_strays();
}

bool Insertions::relieve() {
  const std::size_t before = rows_there();
  settle();
  const auto waits = [](const Entry& entry) { return entry.awaits_update; };
  if (!entries_.empty() && std::none_of(entries_.begin(), entries_.end(), waits)) {
    before_rows_go_();
    hide_planned();
    erase_strays();
  }
  return rows_there() < before;
}

void Insertions::hide_planned() {
  std::vector<std::set<std::uint32_t>> hidden(group_.size());
  for (Entry& entry : entries_) {
    if (std::exchange(entry.visible, true)) continue;
    list_rows(entry, hidden);
    for (std::size_t t = 0; t < entry.tables.size(); ++t) {
      group_.table(t).part(gpu_.get_local_id()).show(entry.tables[t].extent);
    }
  }
  for (std::size_t t = 0; t < hidden.size(); ++t) {
    if (hidden[t].empty()) continue;
    group_.table(t).part(gpu_.get_local_id()).hide({hidden[t].begin(), hidden[t].end()});
    strays_[t].merge(hidden[t]);
  }
  entries_.remove_if([](const Entry& entry) { return entry.done(); });
}

std::size_t Insertions::rows_there() const {
  std::size_t rows = 0;
  for (std::size_t t = 0; t < group_.size(); ++t) {
    const HashTable::State state = group_.table(t).part(gpu_.get_local_id()).state();
    rows += state.rows - state.free;
  }
  return rows;
}

bool Insertions::has_strays() const {
  return std::ranges::any_of(strays_, [](const auto& rows) { return !rows.empty(); });
}

bool Insertions::rows_go() const {
  if (!entries_.empty()) return entries_.back().done();
  return has_strays();
}

void Insertions::take_back() {
  std::vector<PlannedRows> oldest;  // of the plans at the end that are done
  while (!entries_.empty() && entries_.back().done()) {
    oldest = std::move(entries_.back().tables);
    entries_.pop_back();
  }
  for (std::size_t t = 0; t < oldest.size(); ++t) {
    Table& rows = group_.table(t).part(gpu_.get_local_id());
    if (rows.state() == oldest[t].before) continue;
    // What still reads the rows must have done so before their numbers go to others.
    gpu_.compute_stream().synchronize();
    rows.take_back(gpu_.plan_context(), oldest[t].before);
  }
}

void Insertions::erase_strays() {
  stray_plans_ = 0;
  for (std::size_t t = 0; t < strays_.size(); ++t) {
    if (strays_[t].empty()) continue;
    std::set<std::uint32_t> kept;
    if (!entries_.empty()) {
      for (const std::uint32_t row : in_use_(t)) {
        if (strays_[t].erase(row) > 0) kept.insert(row);
      }
    }
    const std::vector<std::uint32_t> rows(strays_[t].begin(), strays_[t].end());
    strays_[t] = std::move(kept);
    if (rows.empty()) continue;
    Tensor2<std::uint32_t> on_device;
    auto arena =
        DeviceBuffer2::create("rows that never trained", DeviceAllocator(gpu_.memory_resource()));
    arena->reserve({rows.size()}, &on_device, "rows");
    arena->allocate();
    gpu_.plan_stream().copy(on_device.get_ptr(), rows.data(), rows.size() * sizeof rows[0]);
    gpu_.plan_stream().synchronize();
    Table& table = group_.table(t).part(gpu_.get_local_id());
    table.reveal(rows);  // visible ones alone are erased
    if (entries_.empty()) {
      table.erase(on_device.ref());
      continue;
    }
    table.erase_unplanned(on_device.ref());
    for (Entry& entry : entries_) entry.tables[t].extent.live -= rows.size();
  }
}

}  // namespace hugectr
