// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_pass.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Of a block, however small the batch is that asks for it.
constexpr std::uint64_t kLeastBytes = 1 << 16;

}  // namespace

NormPass::NormPass(NormReading& reading, const NormFiles& files, const ReadPosition& from)
    : reading_(reading), files_(files), next_file_(from.file), any_samples_(from.sample > 0) {
  HCTR_CHECK(from.file <= files.paths.size() && (from.byte == 0 || from.file > 0), "file list '",
             files.list, "': its ", files.paths.size(), " files have no place ", from.file,
             ": is this the data that was trained on?");
  HCTR_CHECK(from.byte > 0 || from.record == 0, "file list '", files.list, "': a place at record ",
             from.record, " of file ", from.file, " without its byte offset can not be reached");
  if (from.byte > 0) open_at(from);
}

void NormPass::open_at(const ReadPosition& from) {
  const auto path = std::make_shared<const std::string>(files_.paths[next_file_ - 1]);
  file_ = std::make_unique<NormFileWalk>(path, reading_.shape, reading_.layout);
  const NormFile& file = file_->file();
  HCTR_CHECK(from.record < file.records() && from.byte < file.size(),
             norm_message(*path, from.byte,
                          concat("the file has no record ", from.record,
                                 " there: is this the data that was trained on?")));
  file_->seek(from.record, from.byte);
}

IBlockWalk::Found NormPass::next(std::uint64_t rows) {
  if (!error_.empty()) throw DataError(error_);
  Found found;
  while (true) {
    if (!file_) {
      if (next_file_ == files_.paths.size()) break;
      open_next(found);
    }
    if (file_ && take_range(found, rows)) return found;
  }
  if (any_samples_) return found;
  throw DataError(no_norm_samples(files_.list, files_.paths.size(), first_damage_));
}

void NormPass::open_next(Found& found) {
  const std::string& path = files_.paths[next_file_++];
  try {
    file_ = std::make_unique<NormFileWalk>(std::make_shared<const std::string>(path),
                                           reading_.shape, reading_.layout);
  } catch (const DataError& error) {
    if (reading_.on_bad_data == OnBadData::Error) throw;
    // How many samples are lost nobody can say when the header is.
    lose(path, error.what(), 1, found.before);
  }
}

/// Closes the file behind its last range. False when there is none.
bool NormPass::take_range(Found& found, std::uint64_t rows) {
  const std::uint64_t first = file_->record();
  // The bytes of a small batch are still in the cache when they are decoded.
  const std::uint64_t bytes = std::max(rows * file_->file().record_bytes(), kLeastBytes);
  std::shared_ptr<NormRange> range = reading_.ranges->take();
  bool any = file_->next(*range, std::min(bytes, reading_.range_bytes));
  const bool ends = !any || file_->at_end();
  const std::optional<NormLoss> loss = ends ? file_->loss() : std::nullopt;
  if (loss && reading_.on_bad_data == OnBadData::Error) {
    error_ = loss->message + kNormWayOut;
    // Surplus bytes are found behind the last record: the batch with it is the one that fails.
    if (any) range->begins.pop_back();
    any = any && range->rows() > 0;
    if (!any) throw DataError(error_);
  } else if (loss) {
    lose(*range->path, loss->message, loss->samples, any ? found.behind : found.before);
  }
  if (any) {
    any_samples_ = true;
    found.file = next_file_ - 1;
    found.first_record = first;
    found.rows = range->rows();
    found.ends_file = ends && error_.empty();
    found.block = std::make_shared<NormBlock>(reading_, std::move(range));
  }
  if (ends) file_.reset();
  return any;
}

void NormPass::lose(const std::string& path, const std::string& message, std::uint64_t samples,
                    Lost& lost) {
  if (first_damage_.empty()) first_damage_ = message;
  if (lost.damage.empty()) lost.damage = message;
  lost.samples += samples;
  reading_.damage.add(path, message, 0);
}

}  // namespace hugectr
