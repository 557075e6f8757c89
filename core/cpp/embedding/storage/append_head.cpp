// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/append_head.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/log.hpp"
#include "core/cpp/embedding/storage/no_room.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

}  // namespace

AppendHead::AppendHead(const SegmentKind& kind, std::string folder, std::uint64_t owner,
                       SegmentLedger& ledger, bool for_sweeping)
    : kind_(kind),
      folder_(std::move(folder)),
      owner_(owner),
      ledger_(ledger),
      for_sweeping_(for_sweeping) {}

void AppendHead::prepare() {
  if (file_) return;
  const std::uint32_t number = ledger_.begin_segment(for_sweeping_);
  try {
    file_ = SegmentFile::create(kind_, folder_, number, owner_);
    ledger_.add({.file = file_});
  } catch (...) {
    ledger_.cancel_segment();
    throw;
  }
  used_ = 0;
}

void AppendHead::seal() {
  if (!file_) return;
  const std::shared_ptr<SegmentFile> file = std::exchange(file_, nullptr);
  try {
    file->cut_to(used_);
  } catch (const Error& error) {  // it only holds room that it does not need
    log(LogLevel::Warning, error.what());
  }
  ledger_.seal(file->number(), used_, file->was_cut() ? file->offset(used_) : kind_.bytes);
}

std::size_t AppendHead::append(std::span<const std::uint32_t> rows, const RowSource& source,
                               std::span<RowLocation> at) {
  if (file_ && used_ == kind_.groups()) seal();
  prepare();
  const GroupShape& shape = kind_.shape;
  const std::size_t most = std::max<std::size_t>(kWriteBytes / shape.bytes(), 1);
  const std::size_t wanted = (rows.size() + shape.capacity() - 1) / shape.capacity();
  const std::size_t groups = std::min({most, wanted, kind_.groups() - used_});
  std::byte* buffer = buffer_.with(groups * shape.bytes());
  std::size_t done = 0;
  bool finite = true;
  for (std::size_t g = 0; g < groups; ++g) {
    std::byte* group = buffer + g * shape.bytes();
    const std::size_t count = std::min(shape.capacity(), rows.size() - done);
    for (std::size_t p = 0; p < count; ++p, ++done) {
      source(done, shape.row(group, p));
      if (kind_.is_finite) finite = finite && kind_.is_finite(shape.row(group, p));
      shape.set_number(group, p, rows[done]);
      at[done] = {file_->number(), static_cast<std::uint16_t>(used_ + g),
                  static_cast<std::uint16_t>(p)};
    }
    shape.seal(group, count, file_->number(), used_ + g);
  }
  if (!finite) file_->has_nonfinite();
  try {
    file_->write(used_, groups, buffer);
  } catch (const NoRoom&) {
    throw;  // the same place is written when there is room
  } catch (...) {
    seal();  // a broken place is not tried again
    throw;
  }
  used_ += groups;
  written_ += groups;
  return done;
}

}  // namespace hugectr
