// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

using testing::Sample;
using testing::TempFolder;

/// What one reading of a damaged file came to.
struct Outcome {
  bool error = false;
  std::uint64_t bad_samples = 0;
  std::vector<testing::HostBatch> batches;
};

/// Places of a Norm file, by what is stored there.
struct Place {
  std::string kind;
  std::size_t begin, size;
};

class DamagedNorm : public ::testing::TestWithParam<Check> {
 protected:
  InputLayout layout_ = testing::make_layout(1, 2, false, {{2, 3}, {1}});
  // Fresh in every run; a failure names it.
  std::random_device::result_type seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  TempFolder folder_;
  std::vector<Sample> samples_ = testing::make_samples(layout_, 40, 0, random_);
  std::string bytes_ = testing::norm_bytes(samples_, layout_, GetParam());
  std::shared_ptr<ResourceManager> devices_ = ResourceManager::create({{0}}, 1);

  bool framed() const { return GetParam() == Check::Sum; }

  std::vector<Place> places() const {
    std::vector<Place> result;
    std::size_t at = 0;
    const auto add = [&](const char* kind, std::size_t size) {
      result.push_back({kind, at, size});
      at += size;
    };
    if (framed()) add("header length", 4);
    for (const char* field :
         {"error_check", "number_of_records", "label_dim", "dense_dim", "slot_num"}) {
      add(field, 8);
    }
    add("reserved", 24);
    if (framed()) add("header sum", 1);
    for (const Sample& sample : samples_) {
      if (framed()) add("length", 4);
      add("label", 4);
      add("dense", 8);
      for (const auto& keys : sample.keys) {
        add("nnz", 4);
        if (!keys.empty()) add("key", 4 * keys.size());
      }
      if (framed()) add("sum", 1);
    }
    EXPECT_EQ(at, bytes_.size());
    return result;
  }

  Outcome read(const std::string& bytes, OnBadData policy, std::size_t workers) {
    // A good file on each side: what is damaged must not spoil its neighbours.
    testing::write_bytes(folder_ / "good", bytes_);
    testing::write_bytes(folder_ / "damaged", bytes);
    const std::string list =
        testing::write_list(folder_, {folder_ / "good", folder_ / "damaged", folder_ / "good"});
    const auto reader = make_data_reader(
        testing::norm_source(list, layout_, GetParam(), false, policy,
                             testing::kRangeBytes[random_() % std::size(testing::kRangeBytes)]),
        layout_, 16, workers, devices_);
    Outcome outcome;
    try {
      testing::HostBatch batch;
      while (testing::next_batch(*reader, &batch)) outcome.batches.push_back(batch);
    } catch (const DataError& error) {
      outcome.error = true;
      const std::string text = error.what();
      EXPECT_NE(text.find("damaged'"), std::string::npos) << text;
      EXPECT_NE(text.find("byte offset"), std::string::npos) << text;
    }
    outcome.bad_samples = reader->metrics().bad_samples;
    return outcome;
  }

  /// Reads under both policies with 1 and 3 workers. `detectable`: the format can show the damage.
  void expect_handled(const std::string& bytes, bool detectable, const std::string& what) {
    SCOPED_TRACE(concat("seed ", seed_));
    const Outcome error = read(bytes, OnBadData::Error, 3);
    const Outcome skip = read(bytes, OnBadData::Skip, 3);
    const Outcome skip1 = read(bytes, OnBadData::Skip, 1);
    EXPECT_FALSE(skip.error) << what;
    EXPECT_TRUE(skip.batches == skip1.batches) << what;
    EXPECT_EQ(skip.bad_samples, skip1.bad_samples) << what;
    EXPECT_EQ(error.error, skip.bad_samples > 0) << what;
    EXPECT_TRUE(error.error || !detectable) << what;
    std::map<float, int> seen;  // every sample of both good files is there, whatever the damage
    for (const testing::HostBatch& batch : skip.batches) {
      for (std::size_t i = 0; i < batch.samples; ++i) {
        if (batch.weight[i] > 0) ++seen[batch.label[i]];
      }
    }
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      EXPECT_GE(seen[static_cast<float>(i)], 2) << what << ", sample " << i;
    }
  }
};

TEST_P(DamagedNorm, FlippedBitsOfEveryKind) {
  ::setenv("HUGECTR_LOG_LEVEL", "4", 1);
  std::map<std::string, std::vector<Place>> kinds;
  for (const Place& place : places()) kinds[place.kind].push_back(place);
  std::size_t files = 0;
  for (const auto& [kind, of_kind] : kinds) {
    for (int i = 0; i < 12; ++i, ++files) {
      const Place& place = of_kind[random_() % of_kind.size()];
      std::string bytes = bytes_;
      const std::size_t at = place.begin + random_() % place.size;
      const int bit = static_cast<int>(random_() % 8);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      // A length or nnz that shrinks to another legal value and, without checksums, values
      // themselves can not be told from good ones.
      const bool detectable =
          framed() || (kind != "label" && kind != "dense" && kind != "key" && kind != "reserved");
      expect_handled(bytes, detectable && (framed() || kind != "nnz"),
                     concat(kind, ": byte ", at, ", bit ", bit));
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(files, 100u);
}

TEST_P(DamagedNorm, TruncatedAnywhere) {
  ::setenv("HUGECTR_LOG_LEVEL", "4", 1);
  for (int i = 0; i < 60; ++i) {
    const std::size_t size = i == 0 ? 0 : i == 1 ? bytes_.size() - 1 : random_() % bytes_.size();
    expect_handled(bytes_.substr(0, size), true, concat("truncated to ", size));
    if (HasFailure()) return;
  }
}

TEST_P(DamagedNorm, PiecesLostDoubledOrOverwritten) {
  ::setenv("HUGECTR_LOG_LEVEL", "4", 1);
  const std::size_t header = framed() ? 69 : 64;
  for (int i = 0; i < 40; ++i) {
    const std::size_t at = header + random_() % (bytes_.size() - header);
    const std::size_t size = std::min<std::size_t>(1 + random_() % 300, bytes_.size() - at);
    std::string lost = bytes_, doubled = bytes_, noise = bytes_;
    lost.erase(at, size);
    doubled.insert(at, bytes_.substr(at, size));
    for (std::size_t k = 0; k < size; ++k) noise[at + k] = static_cast<char>(random_());
    expect_handled(lost, true, concat(size, " bytes lost at ", at));
    expect_handled(doubled, true, concat(size, " bytes doubled at ", at));
    expect_handled(noise, false, concat(size, " bytes of noise at ", at));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Checks, DamagedNorm, ::testing::Values(Check::Sum, Check::None),
                         [](const auto& info) {
                           return info.param == Check::Sum ? std::string("Sum")
                                                           : std::string("None");
                         });

}  // namespace
}  // namespace hugectr
