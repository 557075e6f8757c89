// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/raw_format.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/file_bytes.hpp"
#include "core/cpp/data/sample_screen.hpp"
#include "core/cpp/data/text_table.hpp"

namespace hugectr {
namespace {

/// Samples that are turned at a time: their floats and keys stay in the cache for the screen.
constexpr std::size_t kRawTile = 256;

/// Blocks of one file at most, whatever its size: the description of a block takes memory too.
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 20;

/// A range of samples of one file, read either in whole or piece by piece.
class RawBlock final : public IBlock {
 public:
  RawBlock(std::shared_ptr<const RawSampleLayout> sample,
           std::shared_ptr<const RandomAccessFile> file, std::uint64_t first_sample,
           OnBadData on_bad_data, DamageLog& damage)
      : kept_sample_(std::move(sample)),
        sample_(*kept_sample_),
        file_(std::move(file)),
        first_sample_(first_sample),
        on_bad_data_(on_bad_data),
        damage_(damage) {}

  void read_whole(std::uint64_t rows) {
    file_->read(first_sample_ * sample_.sample_bytes(), rows * sample_.sample_bytes(), whole_);
  }

  std::size_t key_count(std::size_t input, std::size_t, std::size_t count) const override {
    return count * sample_.inputs[input].keys;
  }

  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override {
    // Small enough for the second cache level, where the conversion finds the bytes.
    constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
    thread_local FileBytes piece;
    const std::size_t bytes = sample_.sample_bytes();
    const std::size_t most = std::max<std::size_t>(1, kPieceBytes / bytes);
    std::size_t bad = 0;
    for (std::size_t done = 0; done < count;) {
      const bool whole = whole_.size() > 0;
      const std::size_t n = whole ? count - done : std::min(most, count - done);
      if (!whole) file_->read((first_sample_ + first + done) * bytes, n * bytes, piece);
      const std::uint8_t* from = whole ? whole_.data() + (first + done) * bytes : piece.data();
      bad += write_tiles(first + done, from, n, at + done, chunk);
      done += n;
    }
    return bad;
  }

 private:
  /// Returns the number of samples that were skipped.
  std::size_t write_tiles(std::size_t first, const std::uint8_t* from, std::size_t count,
                          std::size_t at, CSRChunk& chunk) const {
    std::size_t bad = 0;
    for (std::size_t done = 0; done < count; done += kRawTile) {
      const std::size_t n = std::min(kRawTile, count - done), row = first + done,
                        sample = at + done;
      const std::uint8_t* bytes = from + done * sample_.sample_bytes();
      const std::size_t good = write_raw_samples(sample_, bytes, n, sample, chunk);
      if (good < n) bad += skip_without_log(row, bytes, n, good, sample, chunk);
      bad += screen_samples(sample_.layout, on_bad_data_, sample, n, chunk,
                            [&](std::size_t i, const BadValue& value) {
                              refuse(row + (i - sample), word_of(value), value.text(sample_.layout),
                                     chunk);
                            });
    }
    return bad;
  }

  /// Samples with a dense value that has no logarithm: weight 0, zeros, no keys.
  std::size_t skip_without_log(std::size_t first, const std::uint8_t* from, std::size_t count,
                               std::size_t first_bad, std::size_t at, CSRChunk& chunk) const {
    const InputLayout& layout = sample_.layout;
    std::size_t bad = 0;
    for (std::size_t i = first_bad; i < count; ++i) {
      const auto* words = from + i * sample_.sample_bytes() + 4 * layout.label_dim;
      for (std::size_t k = 0; k < layout.dense_dim; ++k) {
        std::int32_t value = 0;
        std::copy_n(words + 4 * k, 4, reinterpret_cast<std::uint8_t*>(&value));
        if (value >= 0) continue;
        refuse(first + i, layout.label_dim + k,
               concat("dense value ", k, " is ", value,
                      ", which has no log(x + 1): set float_label_dense if the file holds float32"),
               chunk);
        std::fill_n(chunk.label.as<float>() + (at + i) * layout.label_dim, layout.label_dim, 0.0f);
        std::fill_n(chunk.dense.as<float>() + (at + i) * layout.dense_dim, layout.dense_dim, 0.0f);
        chunk.weight.as<float>()[at + i] = 0.0f;
        ++bad;
        break;
      }
    }
    take_keys_out(layout, at, count, chunk);
    return bad;
  }

  /// The word of a sample that holds a value.
  std::size_t word_of(const BadValue& value) const {
    const InputLayout& layout = sample_.layout;
    if (value.part == BadValue::Part::Label) return value.index;
    if (value.part == BadValue::Part::Dense) return layout.label_dim + value.index;
    std::size_t word = layout.label_dim + layout.dense_dim + value.nth;
    for (std::size_t i = 0; i < value.index; ++i) word += sample_.inputs[i].keys;
    return word;
  }

  /// Throws, or notes the first sample of a chunk.
  void refuse(std::size_t row, std::size_t word, const std::string& what, CSRChunk& chunk) const {
    if (on_bad_data_ == OnBadData::Skip && !chunk.first_damage.empty()) return;
    const std::uint64_t sample = first_sample_ + row;
    const std::string message =
        concat("data file '", file_->path(), "', byte ", sample * sample_.sample_bytes() + 4 * word,
               " (sample ", sample, "): ", what);
    if (on_bad_data_ == OnBadData::Error) {
      throw DataError(message + "; restore the file, or read with on_bad_data=\"skip\"");
    }
    chunk.first_damage = message;
    damage_.add(file_->path(), message, 0);
  }

  const std::shared_ptr<const RawSampleLayout> kept_sample_;
  const RawSampleLayout& sample_;
  std::shared_ptr<const RandomAccessFile> file_;
  const std::uint64_t first_sample_;
  const OnBadData on_bad_data_;
  DamageLog& damage_;
  FileBytes whole_;
};

class RawFormat final : public IBlockFormat {
 public:
  RawFormat(const std::string& source, const InputLayout& layout, const RawReading& reading)
      : layout_(layout), reading_(reading), one_key_(sample_of(true)), all_keys_(sample_of(false)) {
    // A slot with nnz_per_slot 0 has a key in the one and none in the other.
    HCTR_CHECK(one_key_->words > 0 && all_keys_->words > 0,
               "Raw data: the model's Input has no label, dense or key");
    set_source(source);
  }

  const std::vector<std::string>& files() const override { return paths_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  bool decodes_ahead() const override { return reading_.direct; }

  std::shared_ptr<const IBlock> decode(std::size_t index) override {
    if (keeps_) {
      const std::lock_guard lock(mutex_);
      if (kept_[index]) return kept_[index];
    }
    const BlockInfo& info = blocks_.at(index);
    auto block = std::make_shared<RawBlock>(sample_, opened_.at(info.file), first_samples_[index],
                                            reading_.on_bad_data, damage_);
    if (reading_.direct) block->read_whole(info.rows);
    if (keeps_) {
      const std::lock_guard lock(mutex_);
      kept_[index] = block;
    }
    return block;
  }

  void set_source(const std::string& source) override {
    std::vector<std::string> paths = source.empty() ? paths_ : split(source);
    HCTR_CHECK(!paths.empty(), "Raw data: no source is set; pass the path of a file");
    std::vector<std::shared_ptr<const RandomAccessFile>> opened;
    std::uint64_t bytes = 0;
    for (const std::string& path : paths) {
      opened.push_back(std::make_shared<RandomAccessFile>(path, reading_.direct));
      bytes += opened.back()->size();
      if (begins_as_text_table(*opened.back())) {
        throw DataError(concat("data file '", path, "' is no Raw data, which is numbers in binary",
                               kTextTableHint));
      }
    }
    auto sample = choose_sample(paths, bytes);
    for (const auto& file : opened) check_whole_samples(*sample, *file);
    const std::uint64_t samples = bytes / sample->sample_bytes();
    if (reading_.num_samples > 0 && samples != reading_.num_samples) {
      throw DataError(concat("Raw data ", name_of(paths), " holds ", samples,
                             " samples, num_samples says ", reading_.num_samples,
                             ": correct num_samples, or leave it 0"));
    }
    sample_ = std::move(sample);
    paths_ = std::move(paths);
    opened_ = std::move(opened);
    keeps_ = reading_.direct && bytes <= reading_.keep_bytes;
    cut_blocks();
  }

 private:
  using Sample = std::shared_ptr<const RawSampleLayout>;

  Sample sample_of(bool one_key_a_slot) const {
    return std::make_shared<RawSampleLayout>(layout_, reading_.numbers, one_key_a_slot,
                                             reading_.slot_offsets);
  }

  bool has_two_sizes() const {
    return reading_.keys == RawKeys::BySize && one_key_->keys != all_keys_->keys;
  }

  /// Which sample files of so many bytes hold: the rule of RawKeys.
  Sample choose_sample(const std::vector<std::string>& paths, std::uint64_t bytes) const {
    if (!has_two_sizes()) return all_keys_;
    if (reading_.num_samples == 0) return one_key_;
    const auto fits = [&](const Sample& sample) {
      return bytes % sample->sample_bytes() == 0 &&
             bytes / sample->sample_bytes() == reading_.num_samples;
    };
    if (!fits(one_key_) && !fits(all_keys_)) {
      throw DataError(concat("Raw data ", name_of(paths), " has ", bytes, " bytes; ",
                             reading_.num_samples, " samples (num_samples) are ", two_sizes(),
                             ": correct num_samples, or the model's Input differs from the file"));
    }
    return fits(one_key_) ? one_key_ : all_keys_;
  }

  std::string two_sizes() const {
    return concat("of ", one_key_->sample_bytes(), " bytes each with one key a slot, or of ",
                  all_keys_->sample_bytes(), " bytes with nnz_per_slot keys a slot");
  }

  void check_whole_samples(const RawSampleLayout& sample, const RandomAccessFile& file) const {
    if (file.size() % sample.sample_bytes() == 0) return;
    const std::string hint =
        has_two_sizes() ? concat(" (samples may be ", two_sizes(),
                                 "; num_samples decides, and without it there is one key a slot)")
                        : "";
    throw DataError(concat("data file '", file.path(), "' has ", file.size(),
                           " bytes, which is not a multiple of the ", sample.sample_bytes(),
                           " bytes of a sample (", layout_.label_dim, " label, ", layout_.dense_dim,
                           " dense, ", sample.keys,
                           " keys of 4 bytes): the file is truncated, or the model's Input differs "
                           "from it",
                           hint));
  }

  static std::string name_of(const std::vector<std::string>& paths) {
    return concat("'", paths.front(), "'", paths.size() > 1 ? " and further" : "");
  }

  static std::vector<std::string> split(const std::string& source) {
    std::vector<std::string> paths;
    for (std::size_t begin = 0; begin <= source.size();) {
      const std::size_t end = std::min(source.find('\n', begin), source.size());
      if (end > begin) paths.push_back(source.substr(begin, end - begin));
      begin = end + 1;
    }
    return paths;
  }

  void cut_blocks() {
    blocks_.clear();
    first_samples_.clear();
    for (std::size_t f = 0; f < opened_.size(); ++f) {
      const std::uint64_t samples = opened_[f]->size() / sample_->sample_bytes();
      const std::uint64_t most =
          std::max({std::uint64_t{1}, reading_.block_bytes / sample_->sample_bytes(),
                    (samples + kMostBlocks - 1) / kMostBlocks});
      for (std::uint64_t first = 0; first < samples; first += most) {
        const std::uint64_t rows = std::min(most, samples - first);
        // Blocks that stay count once, by keep_bytes; those read piece by piece hold nothing.
        const bool counts = reading_.direct && !keeps_;
        blocks_.push_back({f, rows, counts ? rows * sample_->sample_bytes() : 0});
        first_samples_.push_back(first);
      }
    }
    kept_.assign(keeps_ ? blocks_.size() : 0, nullptr);
  }

  const InputLayout layout_;
  const RawReading reading_;
  const Sample one_key_, all_keys_;  ///< with one key a slot; with nnz_per_slot of them
  Sample sample_;                    ///< of the source
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const RandomAccessFile>> opened_;
  std::vector<BlockInfo> blocks_;
  std::vector<std::uint64_t> first_samples_;
  DamageLog damage_;
  bool keeps_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const IBlock>> kept_;
};

}  // namespace

std::unique_ptr<IBlockFormat> make_raw_format(const std::string& source, const InputLayout& layout,
                                              const RawReading& reading) {
  return std::make_unique<RawFormat>(source, layout, reading);
}

}  // namespace hugectr
