// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/norm_format.hpp"

namespace hugectr::testing {

/// A folder of its own that goes with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hugectr_data_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// One sample as a test thinks of it: keys[slot] over all sparse inputs.
struct Sample {
  std::vector<float> label, dense;
  std::vector<std::vector<std::int64_t>> keys;
};

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::string framed(const std::string& payload, Check check) {
  if (check == Check::None) return payload;
  std::string record;
  append(record, static_cast<std::int32_t>(payload.size()));
  record += payload;
  std::uint8_t sum = 0;
  for (const char c : payload) sum = static_cast<std::uint8_t>(sum + static_cast<std::uint8_t>(c));
  append(record, sum);
  return record;
}

inline std::string norm_payload(const Sample& sample, bool i64) {
  std::string payload;
  for (const float x : sample.label) append(payload, x);
  for (const float x : sample.dense) append(payload, x);
  for (const auto& keys : sample.keys) {
    append(payload, static_cast<std::int32_t>(keys.size()));
    for (const std::int64_t key : keys) {
      i64 ? append(payload, key) : append(payload, static_cast<std::uint32_t>(key));
    }
  }
  return payload;
}

/// Content of a Norm file, written byte by byte from the format's description.
inline std::string norm_bytes(const std::vector<Sample>& samples, const InputLayout& layout,
                              Check check) {
  std::string header;
  const std::int64_t fields[8] = {check == Check::Sum,
                                  static_cast<std::int64_t>(samples.size()),
                                  static_cast<std::int64_t>(layout.label_dim),
                                  static_cast<std::int64_t>(layout.dense_dim),
                                  static_cast<std::int64_t>(layout.total_slots()),
                                  0,
                                  0,
                                  0};
  for (const std::int64_t field : fields) append(header, field);
  std::string bytes = framed(header, check);
  for (const Sample& sample : samples) {
    bytes += framed(norm_payload(sample, layout.i64_keys), check);
  }
  return bytes;
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

inline std::string write_list(const TempFolder& folder, const std::vector<std::string>& files,
                              const std::string& name = "list.txt") {
  std::string text = std::to_string(files.size()) + "\n";
  for (const std::string& file : files) text += file + "\n";
  write_bytes(folder / name, text);
  return folder / name;
}

inline InputLayout make_layout(std::size_t label_dim, std::size_t dense_dim, bool i64,
                               std::vector<std::vector<int>> inputs) {
  InputLayout layout{label_dim, dense_dim, i64, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    layout.sparse.push_back({"sparse" + std::to_string(i), inputs[i], false, inputs[i].size()});
  }
  return layout;
}

/// Random samples; sample i's first label is i + first_id, so that each can be told apart.
inline std::vector<Sample> make_samples(const InputLayout& layout, std::size_t count,
                                        std::size_t first_id, std::mt19937& random) {
  std::vector<Sample> samples(count);
  std::uniform_real_distribution<float> unit(0, 1);
  for (std::size_t i = 0; i < count; ++i) {
    Sample& sample = samples[i];
    for (std::size_t k = 0; k < layout.label_dim; ++k) sample.label.push_back(unit(random));
    for (std::size_t k = 0; k < layout.dense_dim; ++k) sample.dense.push_back(unit(random));
    if (layout.label_dim > 0) sample.label[0] = static_cast<float>(first_id + i);
    for (const SparseInput& input : layout.sparse) {
      for (const int most : input.nnz_per_slot) {
        const int least = input.is_fixed_length || most == 1 ? most : 0;
        std::vector<std::int64_t> keys(std::uniform_int_distribution<int>(least, most)(random));
        for (std::int64_t& key : keys) {
          key = layout.i64_keys ? static_cast<std::int64_t>(random()) * 5 - (1ll << 33)
                                : static_cast<std::int64_t>(random());
        }
        sample.keys.push_back(std::move(keys));
      }
    }
  }
  return samples;
}

/// Norm files as one process reads them, in blocks of at most about `range_bytes`.
std::unique_ptr<IBatchSource> norm_source(const std::string& list, const InputLayout& layout,
                                          Check check, bool repeat, OnBadData policy,
                                          std::uint64_t range_bytes = 0);

/// Sizes of blocks that change nothing of what is read: a record, a few, what a batch takes.
inline constexpr std::uint64_t kRangeBytes[] = {1, 200, 0};

/// A batch as every device together received it, copied back for comparison.
struct HostBatch {
  std::size_t samples = 0;
  double weight_sum = 0;
  std::vector<float> label, dense, weight;
  std::vector<std::vector<std::int64_t>> keys;
  std::vector<std::vector<std::uint32_t>> row_offsets;
  bool operator==(const HostBatch&) const = default;
};

/// Copies a batch of a CPU run; throws when the devices were given different CSRs.
HostBatch copy_batch(const Batch& batch);

/// acquire, copy, release. False at the end of the data.
bool next_batch(IDataReader& reader, HostBatch* batch);

}  // namespace hugectr::testing
