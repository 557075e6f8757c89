// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_store.hpp"

#include <algorithm>
#include <random>
#include <unordered_set>
#include <utility>

#include "core/cpp/base/log.hpp"
#include "core/cpp/embedding/storage/no_room.hpp"
#include "core/cpp/embedding/storage/open_files.hpp"
#include "core/cpp/embedding/storage/storage_error.hpp"

namespace hugectr {
namespace {

/// Groups next to each other are read in one call up to this many bytes: what lies together was
/// written together, and is often asked for together.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

std::uint64_t drawn_owner() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::size_t most_segments(const StoreSettings& settings) {
  const std::size_t most = settings.max_bytes / settings.segment_bytes;
  constexpr std::size_t kLeast = SegmentStore::kLeastSegments;
  HCTR_CHECK(most >= kLeast, "table '", settings.table, "': ", settings.max_bytes,
             " bytes of disk are too few; with segments of ", settings.segment_bytes,
             " the least is ", kLeast * settings.segment_bytes,
             " for each table and device (a solver's memory= is dealt over them)");
  return most;
}

}  // namespace

SegmentStore::SegmentStore(StoreSettings settings)
    : settings_(std::move(settings)),
      kind_{settings_.table, GroupShape(settings_.row_bytes), settings_.segment_bytes,
            settings_.files, settings_.is_finite},
      owner_(drawn_owner()),
      beside_(settings_.folder),
      lock_(settings_.folder, settings_.table),
      ledger_(kind_, settings_.max_rows, most_segments(settings_)),
      head_(kind_, settings_.folder, owner_, ledger_, false),
      sweep_(kind_, settings_.folder, owner_, ledger_) {
  static_cast<void>(kind_.groups());  // throws if there would be none
  allow_many_open_files();
  if (const std::size_t removed = remove_leftovers(settings_.folder)) {
    log(LogLevel::Info, concat("table '", settings_.table, "': removed ", removed,
                               " segments that a process had left in '", settings_.folder, "'"));
  }
  if (!beside_.is_first()) return;
  if (const std::size_t removed = remove_leftovers_beside(settings_.folder)) {
    log(LogLevel::Info,
        concat("table '", settings_.table, "': removed ", removed, " segments beside '",
               settings_.folder, "' that a process had left of tables or devices"));
  }
}

SegmentStore::~SegmentStore() {
  if (!made_in_.this_process()) return;  // they are the parent's
  sweep_.end();
  for (const auto& [number, segment] : ledger_.segments()) segment.file->remove();
}

void SegmentStore::write(std::span<const std::uint32_t> rows, const RowSource& source) {
  const std::scoped_lock lock(writing_);
  sweep_.raise_failure();
  if (!rows.empty()) {
    const std::uint32_t most = *std::max_element(rows.begin(), rows.end());
    HCTR_CHECK(most < settings_.max_rows, "table '", kind_.table, "': row ", most, " is not below ",
               settings_.max_rows);
  }
  for (std::size_t done = 0; done < rows.size();) {
    const auto left = rows.subspan(done);
    locations_.resize(left.size());
    std::size_t n = 0;
    const std::uint64_t swept_before = sweep_.swept_segments();
    try {
      n = head_.append(
          left, [&](std::size_t i, std::byte* row) { source(done + i, row); }, locations_);
    } catch (const NoRoom&) {
      // Holes may make room: each time there are fewer groups or fewer files, so this ends.
      if (!sweep_.make_room(swept_before)) throw;
      continue;
    }
    // The sweep gets its own segment while there is room.
    if (!std::exchange(has_written_, true)) sweep_.nudge();
    ledger_.place(left.first(n), std::span(locations_).first(n), head_.groups());
    done += n;
  }
  if (ledger_.any_due()) sweep_.nudge();
}

void SegmentStore::read(std::span<const std::uint32_t> rows, const RowTarget& target) {
  sweep_.raise_failure();
  const std::size_t most_groups = std::max<std::size_t>(kReadBytes / kind_.shape.bytes(), 1);
  std::vector<RowRequest> requests;
  const std::vector<GroupRun> runs = ledger_.find(rows, most_groups, requests);
  settings_.threads->run(runs.size(), [&](std::size_t r, AlignedBuffer& buffer) {
    groups_read_ += read_run(runs[r], rows, requests, buffer, target);
  });
}

std::size_t SegmentStore::read_run(const GroupRun& run, std::span<const std::uint32_t> rows,
                                   std::span<const RowRequest> requests, AlignedBuffer& buffer,
                                   const RowTarget& target) const {
  const GroupShape& shape = kind_.shape;
  std::byte* data = buffer.with(run.groups * shape.bytes());
  run.file->read(run.first, run.groups, data);
  std::size_t checked = 0;  // groups of the run
  for (std::size_t k = run.begin; k < run.end; ++k) {
    const RowLocation at = requests[k].at;
    const std::size_t g = at.group - run.first;
    const std::byte* group = data + g * shape.bytes();
    if (k == run.begin || requests[k - 1].at.group != at.group) {
      run.file->check(at.group, group);
      ++checked;
    }
    const std::uint32_t row = rows[requests[k].i];
    if (at.position >= shape.rows(group) || shape.number(group, at.position) != row) {
      run.file->raise_damage(concat("table '", kind_.table, "': row ", row,
                                    " is not in its group in '", run.file->path(), "', byte ",
                                    run.file->offset(at.group),
                                    ": an index of another time; go on from another checkpoint"));
    }
    target(requests[k].i, shape.row(group, at.position));
  }
  return checked;
}

void SegmentStore::forget(std::span<const std::uint32_t> rows) {
  const std::scoped_lock lock(writing_);
  ledger_.forget(rows);
  if (ledger_.any_due()) sweep_.nudge();
}

void SegmentStore::clear() {
  const std::scoped_lock lock(writing_);
  {
    const SegmentSweep::Pause pause(sweep_);
    ledger_.clear();
    head_.seal();  // what is written next may not follow damage
  }
  sweep_.begin_anew();
}

void SegmentStore::sync() {
  const std::scoped_lock lock(writing_);
  const SegmentSweep::Pause pause(sweep_);
  for (const auto& [number, segment] : ledger_.segments()) segment.file->sync();
  sweep_.raise_failure();
}

void SegmentStore::check_undamaged() {
  const std::scoped_lock lock(writing_);
  const auto segments = ledger_.segments();
  if (std::ranges::any_of(segments,
                          [](const auto& s) { return !s.second.file->unread().empty(); })) {
    const SegmentSweep::Pause pause(sweep_);
    read_again();
  }
  refuse_damaged();
}

void SegmentStore::read_again() {
  for (const auto& [number, segment] : ledger_.segments()) {
    if (segment.alive == 0 || segment.file->unread().empty()) continue;
    try {
      segment.file->verify(true);
      // What somebody has found wrong with it stays wrong.
      if (segment.file->damage().empty()) ledger_.mark_read(number);
    } catch (const StorageError&) {  // the file knows
    }
  }
}

void SegmentStore::refuse_damaged() const {
  for (const auto& [number, segment] : ledger_.segments()) {
    if (segment.alive == 0) continue;  // what it had is elsewhere, or was erased
    if (const std::string found = segment.file->damage(); !found.empty()) {
      throw StorageError(
          concat("nothing is saved of a table that has lost rows: ", found,
                 "; resume the model from there, or build the model again and resume that"));
    }
    if (const std::string refused = segment.file->unread(); !refused.empty()) {
      throw StorageError(concat("nothing is saved of a table whose rows can not be read: ", refused,
                                ". Once they can, it is saved as ever"));
    }
  }
}

StoredRows SegmentStore::stored(std::span<const std::uint32_t> rows) {
  const std::scoped_lock lock(writing_);
  StoredRows found = in_sealed_segments(rows);
  if (has_written_) sweep_.nudge();  // it gets a segment of its own again while there is room
  return found;
}

StoredRows SegmentStore::in_sealed_segments(std::span<const std::uint32_t> rows) {
  const SegmentSweep::Pause pause(sweep_);
  read_again();
  refuse_damaged();
  head_.seal();
  std::unordered_set<std::uint32_t> worth;
  const auto segments = ledger_.segments();
  for (const auto& [number, segment] : segments) {
    const bool half = 2 * segment.alive >= segment.groups * kind_.shape.capacity();
    const bool whole = segment.file->was_cut() && !segment.damaged;
    if (half && whole && segment.file->all_finite()) worth.insert(number);
  }
  const std::vector<RowLocation> locations = ledger_.locations();
  StoredRows found;
  found.at.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= locations.size()) continue;
    const RowLocation at = locations[rows[i]];
    if (!worth.contains(at.segment)) continue;
    found.at[i] = at;
    std::shared_ptr<SegmentHold>& hold = found.segments[at.segment];
    if (!hold) hold = std::make_shared<SegmentHold>(segments.at(at.segment).file);
  }
  return found;
}

StoreCounts SegmentStore::counts() const {
  const std::uint64_t group = kind_.shape.bytes();
  const auto segments = ledger_.segments();
  std::uint64_t groups = 0;
  for (const auto& [number, segment] : segments) groups += segment.groups;
  return {.rows = ledger_.rows_alive(),
          .segments = segments.size(),
          .index_bytes = ledger_.index_bytes(),
          .segment_bytes = groups * group,
          .groups_written = head_.written_groups(),
          .groups_read = groups_read_,
          .segments_swept = sweep_.swept_segments(),
          .rows_moved = sweep_.moved_rows(),
          .bytes_written = (head_.written_groups() + sweep_.written_groups()) * group,
          .bytes_read = (groups_read_ + sweep_.read_groups()) * group};
}

}  // namespace hugectr
