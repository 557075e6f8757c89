// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_source.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/file_list.hpp"
#include "core/cpp/data/norm_boundary.hpp"
#include "core/cpp/data/norm_decoder.hpp"
#include "core/cpp/data/norm_file.hpp"

namespace hugectr {
namespace {

/// Bytes of one pread: big enough for the disk, small enough that the hop over the records that
/// follows finds them in the cache.
constexpr std::size_t kSourceReadBytes = 1 << 19;

/// Claims walk the records from boundary to boundary in file order; checksums and contents are left
/// to the decoder, which works on many batches at once.
class NormSource final : public IBatchSource {
 public:
  NormSource(const std::string& file_list, const InputLayout& layout, Check check, bool repeat,
             OnBadData on_bad_data)
      : layout_(layout),
        shape_(layout_, check == Check::Sum, layout.i64_keys ? 8 : 4),
        repeat_(repeat),
        on_bad_data_(on_bad_data),
        decoder_(layout_, shape_, on_bad_data, damage_) {
    layout_.check();
    HCTR_CHECK(shape_.min_payload > 0, "Norm data: the model's Input has no label, dense or slot");
    set_source(file_list);
  }

  std::unique_ptr<RawBatch> make_raw_batch() const override {
    return std::make_unique<NormRawBatch>();
  }

  bool claim(RawBatch& raw, std::size_t batch) override {
    auto& mine = static_cast<NormRawBatch&>(raw);
    mine.clear();
    while (mine.samples < batch && (file_ || open_next())) read_run(mine, batch);
    mine.next = {.epoch = epoch_, .sample = pass_samples_, .file = next_file_};
    if (file_) {
      mine.next.record = record_;
      mine.next.byte = position_;
    }
    mine.lost = std::exchange(lost_, 0);
    mine.damage = std::exchange(damage_text_, {});
    return mine.samples > 0;
  }

  void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const override {
    rows_decoded_ += raw.samples;
    decoder_.decode(static_cast<const NormRawBatch&>(raw), batch, chunk);
  }

  void set_source(const std::string& source) override {
    if (!source.empty()) {
      auto paths = read_file_list(source);
      file_list_ = source;
      paths_.clear();
      for (std::string& path : paths) {
        paths_.push_back(std::make_shared<const std::string>(std::move(path)));
      }
    }
    HCTR_CHECK(!paths_.empty(), "Norm data: no source is set; pass the path of a file list");
    start_at({});
  }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(position.file <= paths_.size() && (position.byte == 0 || position.file > 0) &&
                   (position.epoch == 0 || repeat_),
               "file list '", file_list_, "': its ", paths_.size(), " files have no place ",
               position.file, " in epoch ", position.epoch,
               ": is this the data that was trained on?");
    HCTR_CHECK(position.byte > 0 || position.record == 0, "file list '", file_list_,
               "': a place at record ", position.record, " of file ", position.file,
               " without its byte offset can not be reached");
    start_at(position);
    if (position.byte == 0) return;
    file_ = std::make_unique<NormFile>(paths_[next_file_ - 1], shape_, layout_);
    record_ = position.record;
    position_ = position.byte;
    if (record_ >= file_->records() || position_ >= file_->size()) {
      file_.reset();
      throw InvalidArgument(norm_message(*paths_[next_file_ - 1], position.byte,
                                         concat("the file has no record ", position.record,
                                                " there: is this the data that was trained on?")));
    }
  }

  std::uint64_t rows_decoded() const override { return rows_decoded_; }
  std::uint64_t bad_samples() const override { return damage_.samples(); }

 private:
  void start_at(const ReadPosition& position) {
    file_.reset();
    next_file_ = position.file;
    epoch_ = position.epoch;
    pass_samples_ = position.sample;
    ended_ = false;
    first_damage_.clear();
    lost_ = 0;
    damage_text_.clear();
  }

  /// Opens the next file with records in it. False at the end of the data.
  bool open_next() {
    while (!file_ && !ended_) {
      if (next_file_ == paths_.size() && !start_next_pass()) return false;
      const auto& path = paths_[next_file_++];
      try {
        file_ = std::make_unique<NormFile>(path, shape_, layout_);
      } catch (const DataError& error) {
        if (on_bad_data_ == OnBadData::Error) throw;
        // How many samples are lost nobody can say when the header is.
        note_damage(*path, error.what(), 1);
        continue;
      }
      record_ = 0;
      position_ = file_->first_record();
      close_if_done();
    }
    return file_ != nullptr;
  }

  bool start_next_pass() {
    if (pass_samples_ == 0) {
      throw DataError(no_norm_samples(file_list_, paths_.size(), first_damage_));
    }
    if (!repeat_) {
      ended_ = true;
      return false;
    }
    next_file_ = 0;
    pass_samples_ = 0;
    ++epoch_;
    return true;
  }

  /// Claims records of the open file until the batch is full or the file ends.
  void read_run(NormRawBatch& raw, std::size_t batch) {
    const std::size_t run_begin = raw.used;
    const std::uint64_t run_position = position_;
    raw.runs.push_back({raw.samples, run_begin, run_position, file_->path()});
    const std::size_t record_bytes = file_->record_bytes();
    const std::uint64_t goal =
        std::min<std::uint64_t>(batch - raw.samples, file_->records() - record_);
    raw.bytes.reserve(
        run_begin + std::min<std::uint64_t>(goal * record_bytes, file_->size() - position_), true);
    std::size_t cursor = run_begin, filled = run_begin;
    for (std::uint64_t claimed = 0; claimed < goal;) {
      NormRawBatch::Record record{cursor, 0};
      std::size_t needed = 0;
      std::string what;
      const RecordFit fit = fit_record(shape_, raw.bytes.as<std::uint8_t>() + cursor,
                                       filled - cursor, &record.payload_bytes, &needed, &what);
      if (fit == RecordFit::Whole) {
        raw.records.push_back(record);
        cursor += record.payload_bytes + shape_.frame_bytes();
        ++claimed;
        continue;
      }
      if (fit == RecordFit::NeedsMore) {
        const std::uint64_t wanted = (goal - claimed) * record_bytes;
        const std::size_t missing =
            std::max<std::uint64_t>(std::min<std::uint64_t>(kSourceReadBytes, wanted), needed) -
            (filled - cursor);
        raw.bytes.reserve(filled + missing + NormRawBatch::kSlack, true);
        const std::size_t got = file_->read(run_position + (filled - run_begin),
                                            raw.bytes.as<std::uint8_t>() + filled, missing);
        filled += got;
        if (got > 0) continue;
        what = ends_inside_record(*file_, record_ + claimed);
      }
      finish_run(raw, claimed, cursor, run_begin);
      lose_rest(what);
      return;
    }
    finish_run(raw, goal, cursor, run_begin);
    close_if_done();
  }

  void finish_run(NormRawBatch& raw, std::uint64_t claimed, std::size_t cursor,
                  std::size_t run_begin) {
    raw.used = cursor;
    raw.samples += claimed;
    record_ += claimed;
    pass_samples_ += claimed;
    position_ += cursor - run_begin;
  }

  /// The place of the next record is unknown: an error, or the rest of the file is dropped.
  void lose_rest(const std::string& what) {
    const std::string message =
        norm_message(*file_->path(), position_, what + file_->key_width_hint(layout_));
    if (on_bad_data_ == OnBadData::Error) throw DataError(message + kNormWayOut);
    note_damage(*file_->path(), message, file_->records() - record_);
    file_.reset();
  }

  /// After the last record: nothing may follow it.
  void close_if_done() {
    if (record_ < file_->records()) return;
    if (position_ < file_->size()) {
      const NormSurplus surplus = norm_surplus(*file_, shape_, layout_, position_);
      if (on_bad_data_ == OnBadData::Error) throw DataError(surplus.message + kNormWayOut);
      note_damage(*file_->path(), surplus.message, surplus.samples);
    }
    file_.reset();
  }

  void note_damage(const std::string& path, const std::string& message, std::uint64_t samples) {
    if (first_damage_.empty()) first_damage_ = message;
    if (damage_text_.empty()) damage_text_ = message;
    lost_ += samples;
    damage_.add(path, message, samples);
  }

  const InputLayout layout_;
  const NormRecordShape shape_;
  bool repeat_;
  OnBadData on_bad_data_;
  DamageLog damage_;
  NormDecoder decoder_;

  std::string file_list_;
  std::vector<std::shared_ptr<const std::string>> paths_;
  std::unique_ptr<NormFile> file_;
  std::size_t next_file_ = 0;
  std::uint64_t record_ = 0;        ///< next record of the open file
  std::uint64_t position_ = 0;      ///< its byte offset
  std::uint64_t pass_samples_ = 0;  ///< claimed since the list was last begun
  std::uint64_t epoch_ = 0;
  mutable std::atomic<std::uint64_t> rows_decoded_{0};
  bool ended_ = false;
  std::string first_damage_;  ///< of the list
  std::uint64_t lost_ = 0;    ///< by the claim under way
  std::string damage_text_;   ///< of the same
};

}  // namespace

std::unique_ptr<IBatchSource> make_norm_source(const std::string& file_list,
                                               const InputLayout& layout, Check check, bool repeat,
                                               OnBadData on_bad_data) {
  return std::make_unique<NormSource>(file_list, layout, check, repeat, on_bad_data);
}

}  // namespace hugectr
