// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/disk_rows.hpp"

#include <algorithm>
#include <utility>

namespace hugectr {
namespace {

std::size_t bytes_of(std::span<const RowColumn> columns) {
  std::size_t bytes = 0;
  for (const RowColumn& column : columns) bytes += column.bytes;
  return bytes;
}

}  // namespace

DiskRows::DiskRows(std::vector<RowColumn> columns, std::size_t places, std::size_t max_rows,
                   std::unique_ptr<SegmentStore> store)
    : columns_(std::move(columns)),
      store_(std::move(store)),
      places_(places),
      lists_(places),
      place_of_(max_rows, store_->table() + " places of disk rows"),
      thread_([this] {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
        work_.notify_all();
        progress_.notify_all();
      }) {
  HCTR_CHECK(places > 0 && places < UINT32_MAX, "table '", store_->table(), "': ", places,
             " places in memory for rows on disk; 1 to 4294967294 are possible");
  HCTR_CHECK(bytes_of(columns_) == store_->shape().row_bytes(), "table '", store_->table(),
             "': rows of ", bytes_of(columns_), " bytes over a store of rows of ",
             store_->shape().row_bytes());
  for (std::uint32_t place = 0; place < places; ++place) lists_.push_newest(kFree, place);
  thread_.start("write rows", [this] { write_behind(); });
}

DiskRows::~DiskRows() = default;

DiskRows::List DiskRows::list_of(const Place& place) const {
  if (!place.mapped) return kFree;
  return place.changed ? kDirty : kClean;
}

void DiskRows::hold(std::uint32_t at) {
  Place& place = places_[at];
  if (listed(place)) lists_.take_out(list_of(place), at);
  if (place.pins++ == 0) ++pinned_;
}

void DiskRows::let_go(std::uint32_t at) {
  Place& place = places_[at];
  if (--place.pins == 0) --pinned_;
  if (listed(place)) lists_.push_newest(list_of(place), at);
}

std::uint32_t DiskRows::take_place() {
  const List list = lists_.size(kFree) > 0 ? kFree : kClean;
  const std::uint32_t at = lists_.oldest(list);
  hold(at);
  Place& place = places_[at];
  if (place.mapped) place_of_[place.row] = 0;
  place.mapped = false;
  return at;
}

void DiskRows::give_back(std::uint32_t at) {
  places_[at].mapped = places_[at].changed = false;
  let_go(at);
}

bool DiskRows::has_room(std::size_t missing) const {
  return lists_.size(kFree) + lists_.size(kClean) >= missing;
}

void DiskRows::wait_for_room(Lock& lock, std::size_t missing) {
  if (missing > places_.size() - pinned_) {
    throw OutOfMemory(concat(
        "table '", store_->table(), "' needs ", pinned_ + missing, " rows in host memory at once (",
        pinned_, " are in use) and has places for ", places_.size(),
        ": Memory(host=) must be at least ", (pinned_ + missing) * store_->shape().row_bytes(),
        " bytes, or use a smaller batch"));
  }
  wanted_ += missing;
  work_.notify_all();
  progress_.wait(lock);
  wanted_ -= missing;
  raise_failure();
  HCTR_CHECK(!stop_, "table '", store_->table(), "' is being closed");
}

void DiskRows::pin(std::span<const std::uint32_t> rows, Want want,
                   std::span<std::uint32_t> places) {
  if (rows.empty()) return;
  Lock lock(mutex_);
  place_of_.grow_to(std::size_t{*std::max_element(rows.begin(), rows.end())} + 1);
  std::fill(places.begin(), places.end(), Lists::kNone);
  std::vector<std::uint32_t> missing_rows, missing_places;
  const auto let_all_go = [&] {
    for (const std::uint32_t place : places) {
      if (place != Lists::kNone) let_go(place);
    }
    for (const std::uint32_t place : missing_places) give_back(place);
  };
  try {
    for (;;) {
      missing_rows.clear();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (places[i] != Lists::kNone) continue;
        places[i] = find(rows[i]);  // another thread may have brought it while this one waited
        if (places[i] != Lists::kNone) {
          hold(places[i]);
        } else {
          missing_rows.push_back(rows[i]);
        }
      }
      const bool room = has_room(missing_rows.size());
      // With an error that nobody has heard nothing is written behind, and no place becomes free.
      if (failure_ && (!room || (want != Want::Nothing && !missing_rows.empty()))) {
        raise_failure_or_retry(lock);
        continue;  // the lock was let go of
      }
      if (room) break;
      wait_for_room(lock, missing_rows.size());
    }
    missing_places.reserve(missing_rows.size());
    for (std::size_t k = 0; k < missing_rows.size(); ++k) missing_places.push_back(take_place());
    if (want != Want::Nothing) bring(missing_rows, missing_places);
  } catch (...) {
    let_all_go();
    throw;
  }
  for (std::size_t i = 0, k = 0; i < rows.size(); ++i) {
    if (places[i] != Lists::kNone) continue;
    places[i] = missing_places[k++];
    Place& place = places_[places[i]];
    place.row = rows[i];
    place.mapped = true;
    place_of_[rows[i]] = places[i] + 1;
  }
  if (want == Want::Content) {
    misses_ += missing_rows.size();
    hits_ += rows.size() - missing_rows.size();
  }
  if (wants_cleaning()) work_.notify_all();
}

void DiskRows::reserve(std::size_t rows) {
  Lock lock(mutex_);
  raise_failure_or_retry(lock);
  while (!has_room(rows)) wait_for_room(lock, rows);
}

void DiskRows::bring(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> places) {
  std::vector<std::uint8_t> found(rows.size(), 0);
  store_->read(rows, [&](std::size_t i, const std::byte* record) {
    scatter_row(columns_, places[i], record);
    found[i] = 1;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!found[i]) clear_row(columns_, places[i]);
  }
}

void DiskRows::unpin(std::span<const std::uint32_t> places, bool changed) {
  const Lock lock(mutex_);
  for (const std::uint32_t at : places) {
    places_[at].changed |= changed;
    let_go(at);
  }
  if (wants_cleaning()) work_.notify_all();
  progress_.notify_all();
}

void DiskRows::read(std::span<const std::uint32_t> rows, std::span<const RowColumn> to) {
  const Lock lock(mutex_);
  raise_failure_of_disk();
  std::vector<std::uint32_t> missing;
  std::vector<std::size_t> indices;
  std::vector<std::byte> record(store_->shape().row_bytes());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kPassedOver) continue;
    const std::uint32_t place = find(rows[i]);
    if (place == Lists::kNone) {
      clear_row(to, i);
      missing.push_back(rows[i]);
      indices.push_back(i);
      continue;
    }
    gather_row(columns_, place, record.data());
    scatter_row(to, i, record.data());
  }
  store_->read(missing,
               [&](std::size_t k, const std::byte* row) { scatter_row(to, indices[k], row); });
}

void DiskRows::write(std::span<const std::uint32_t> rows, std::span<const RowColumn> from) {
  if (rows.empty()) return;
  Lock lock(mutex_);
  raise_failure_or_retry(lock);
  std::vector<std::uint32_t> missing;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kPassedOver || find(rows[i]) != Lists::kNone) continue;
    missing.push_back(rows[i]);
    indices.push_back(i);
  }
  store_->write(missing, [&](std::size_t k, std::byte* row) { gather_row(from, indices[k], row); });
  // After what can fail.
  std::vector<std::byte> record(store_->shape().row_bytes());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t at = rows[i] == kPassedOver ? Lists::kNone : find(rows[i]);
    if (at == Lists::kNone) continue;
    gather_row(from, i, record.data());
    hold(at);
    scatter_row(columns_, at, record.data());
    places_[at].changed = true;
    let_go(at);
  }
  if (wants_cleaning()) work_.notify_all();
}

void DiskRows::forget(std::span<const std::uint32_t> rows) {
  Lock lock(mutex_);
  for (const std::uint32_t row : rows) {
    for (;;) {
      const std::uint32_t at = find(row);
      if (at == Lists::kNone) break;
      if (places_[at].writing) {  // it would be there again when the write is done
        progress_.wait(lock);
        continue;
      }
      HCTR_CHECK(places_[at].pins == 0, "table '", store_->table(), "': row ", row,
                 " is in use and can not be erased");
      hold(at);
      place_of_[row] = 0;
      give_back(at);
    }
  }
  store_->forget(rows);
}

void DiskRows::clear() {
  Lock lock(mutex_);
  while (writing_ > 0 && !stop_) progress_.wait(lock);
  lists_ = Lists(places_.size());
  for (std::uint32_t at = 0; at < places_.size(); ++at) {
    if (places_[at].mapped) place_of_[places_[at].row] = 0;
    places_[at] = {};
    lists_.push_newest(kFree, at);
  }
  pinned_ = 0;
  failure_ = nullptr;
  store_->clear();
  progress_.notify_all();
}

StoredRows DiskRows::stored(std::span<const std::uint32_t> rows) {
  Lock lock(mutex_);
  while (writing_ > 0 && !stop_) progress_.wait(lock);
  StoredRows found = store_->stored(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t at = find(rows[i]);
    if (at != Lists::kNone && places_[at].changed) found.at[i] = {};
  }
  return found;
}

DiskRowCounts DiskRows::counts() const {
  const Lock lock(mutex_);
  return {.hits = hits_, .misses = misses_, .store = store_->counts()};
}

std::size_t DiskRows::bytes_beside_rows() const {
  const Lock lock(mutex_);
  return places_.size() * (sizeof(Place) + 8) + place_of_.bytes() + store_->counts().index_bytes;
}

}  // namespace hugectr
