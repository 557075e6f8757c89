// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/saved_model.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/cpp/base/error.hpp"
#include "core/cpp/checkpoints/links.hpp"
#include "core/cpp/serving/predictor.hpp"

namespace hugectr {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = HUGECTR_FIXTURES "/be4a3b8";

/// Three samples of the model of the fixtures (tests/py/oracle/checkpoint_net.py).
MemoryData samples() {
  MemoryData data;
  data.samples = 3;
  data.dense = {0.5f, -1.0f, 0.25f, 0.0f, 1.0f, 0.125f, -0.5f, 0.75f, 0.0f};
  data.sparse = {{.keys = {10, 114, 15, 102, 1, 109}, .row_offsets = {0, 1, 2, 3, 4, 5, 6}},
                 {.keys = {3, 4, 9, 6, 8, 5, 12}, .row_offsets = {0, 1, 2, 3, 4, 5, 6, 7, 7, 7}}};
  return data;
}

/// A copy of a fixture that may be damaged.
class Copied {
 public:
  explicit Copied(const std::string& name)
      : root_(fs::path(testing::TempDir()) /  // tests run beside each other
              ("saved_model_" + name + "_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::copy(kFixtures / name, root_, fs::copy_options::recursive);
  }
  ~Copied() { fs::remove_all(root_); }
  std::string path() const { return root_.string(); }
  fs::path newest() const { return checkpoint_at(path()); }

 private:
  fs::path root_;
};

void flip_a_byte(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  char byte = 0;
  stream.seekg(5).get(byte);
  stream.seekp(5).put(static_cast<char>(byte ^ 4));
}

template <class Wanted>
std::string refusal(const std::string& path) {
  try {
    SavedModel model(path);
    return "nothing";
  } catch (const Wanted& error) {
    return error.what();
  }
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(SavedModel, EveryFixtureLoadsAndPredicts) {
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    if (!entry.is_directory()) continue;
    SavedModel model(entry.path().string());
    const auto manifest = links_of(checkpoint_at(entry.path().string())).back();
    EXPECT_EQ(model.step(), manifest.step);
    EXPECT_EQ(model.input().dense_dim, 3U);
    ASSERT_EQ(model.session().num_tables(), 2U);
    if (manifest.chain.empty()) {
      const auto rows = [&](std::size_t table) {
        return model.session().table(table).stats().rows;
      };
      std::uint64_t wanted = 0;
      for (const std::uint64_t shard : manifest.tables[0].shard_rows) wanted += shard;
      EXPECT_EQ(rows(0), wanted);
    }
    const auto values = Predictor(model.session()).predict(samples());
    ASSERT_EQ(values.size(), 3U);
    EXPECT_GT(*std::min_element(values.begin(), values.end()), 0.0f);
    EXPECT_NE(values[0], values[1]);
  }
}

TEST(SavedModel, ADeltaIsWhatItsChainSays) {
  const auto links = links_of(checkpoint_at((kFixtures / "deltas").string()));
  ASSERT_EQ(links.size(), 3U);
  SavedModel first(links[0].path), last(links[2].path);
  EXPECT_LT(first.step(), last.step());
  EXPECT_NE(Predictor(first.session()).predict(samples()),
            Predictor(last.session()).predict(samples()));
  Copied copy("deltas");
  fs::remove_all(fs::path(copy.path()) / fs::path(links[1].path).filename());
  EXPECT_TRUE(says(refusal<DataError>(copy.path()), "is a delta and needs"));
}

TEST(SavedModel, DamageIsNamed) {
  for (const char* const name : {"dense.weights", "table0.key.1-of-1", "table1.slot.1-of-1",
                                 "table1.vector.1-of-1", "statistics0.mean"}) {
    Copied copy("adam_local");
    flip_a_byte(copy.newest() / name);
    EXPECT_TRUE(says(refusal<DataError>(copy.path()), concat(name, " is damaged in bytes 0 to")));
    fs::resize_file(copy.newest() / name, 8);
    EXPECT_TRUE(says(refusal<DataError>(copy.path()), concat(name, " has 8 bytes, the manifest")));
    fs::remove(copy.newest() / name);
    EXPECT_TRUE(says(refusal<DataError>(copy.path()), concat(name, " is missing")));
    fs::create_directory(copy.newest() / name);
    EXPECT_TRUE(says(refusal<DataError>(copy.path()), concat(name, " is no regular file")));
  }
  Copied copy("adam_local");
  flip_a_byte(copy.newest() / "table0.state0.1-of-1");  // of training
  EXPECT_NO_THROW(SavedModel{copy.path()});
  flip_a_byte(copy.newest() / "manifest.json");
  EXPECT_TRUE(says(refusal<DataError>(copy.path()), "manifest.json can not be read"));
}

TEST(SavedModel, WhatIsNoCheckpoint) {
  EXPECT_TRUE(says(refusal<InvalidArgument>("/nowhere"), "there is no such folder"));
  EXPECT_TRUE(says(refusal<InvalidArgument>(kFixtures.string()), "has none in it"));
  const std::string old = HUGECTR_FIXTURES "/b17f4bf/sgd";
  EXPECT_TRUE(says(refusal<InvalidArgument>(old), "does not describe its model"));
}

TEST(SavedModel, IsDescribedWithoutItsWeights) {
  const SavedDescription found = read_description((kFixtures / "deltas").string());
  EXPECT_TRUE(found.path.ends_with("step-0000000007"));
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.schema, "null");
  EXPECT_FALSE(parse_json(found.model).at("tables", "model").list("tables").empty());
  std::vector<std::size_t> rows(2);
  for (const Manifest& link : links_of(found.path)) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const std::uint64_t some : link.tables[i].shard_rows) rows[i] += some;
    }
  }
  EXPECT_EQ(found.table_rows, rows);
  EXPECT_GT(rows[0], 20u);  // more than the last link has
  EXPECT_EQ(read_description(HUGECTR_FIXTURES "/b17f4bf/sgd").model, "");
  Copied copy("adam_local");
  flip_a_byte(copy.newest() / "dense.weights");  // not read
  EXPECT_NO_THROW(read_description(copy.path()));
  fs::remove(copy.newest() / "dense.weights");
  EXPECT_THROW(read_description(copy.path()), DataError);
}

TEST(SavedModel, OtherModelsWeightsAreRefused) {
  SavedModel model((kFixtures / "sgd").string());
  EXPECT_NO_THROW(load_weights(model.session(), HUGECTR_FIXTURES "/b17f4bf/sgd"));
  const auto normed = (kFixtures / "adam_local").string();
  EXPECT_THROW(load_weights(model.session(), normed), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
