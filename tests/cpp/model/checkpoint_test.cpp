// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              (std::string("hugectr_checkpoint_") + info->name() + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~Checkpoint() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_;
};

TEST_F(Checkpoint, OldSingleFileOfLocalizedRows) {
  {
    std::ofstream file(path("old"), std::ios::binary);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::uint32_t key = 0xFFFFFFF0u + i;
      const std::uint64_t slot = i;
      const float vector[2] = {static_cast<float>(i), -1.0f};
      file.write(reinterpret_cast<const char*>(&key), 4);
      file.write(reinterpret_cast<const char*>(&slot), 8);
      file.write(reinterpret_cast<const char*>(vector), 8);
    }
  }
  const BufferBag rows = read_sparse_file(path("old"), 2, false, true);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.keys[2], 0xFFFFFFF2ll);  // widened without sign
  EXPECT_EQ(rows.slot_ids[1], 1u);
  EXPECT_EQ(rows.vectors[4], 2.0f);
  EXPECT_THROW(read_sparse_file(path("old"), 3, false, true), DataError);
}

TEST_F(Checkpoint, SizesThatDoNotFitAreNamed) {
  BufferBag rows;
  rows.vec_size = 2;
  rows.keys = {1, 2, 3};
  rows.vectors = {1, 2, 3, 4, 5, 6};
  write_sparse_folder(path("sparse"), rows);
  EXPECT_EQ(read_sparse_folder(path("sparse"), 2, false).keys, rows.keys);
  try {
    read_sparse_folder(path("sparse"), 3, false);
    FAIL();
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("embedding_vec_size"), std::string::npos) << e.what();
  }
  EXPECT_THROW(read_sparse_folder(path("sparse"), 2, true), DataError);  // no slot_id
  EXPECT_THROW(read_sparse_folder(path("nothing"), 2, true), DataError);
  write_floats(path("dense"), {1.0f, 2.0f});
  EXPECT_THROW(read_floats(path("dense"), 3, "dense weights"), DataError);
  EXPECT_THROW(write_floats(path("no/such/folder"), {1.0f}), DataError);
}

TEST_F(Checkpoint, ARunContinuesFromFilesOnAnotherDeviceCount) {
  const ReaderSpec reader{.num_workers = 2, .memory = random_data(24 * 8, 1)};
  const ModelSpec model =
      small_model(EmbeddingType::LocalizedSlotSparseEmbeddingHash, Optimizer::Adam);
  Session one(small_solver(1), reader, model);
  losses(one, 8);
  one.save_params_to_files(path("model"), 8);
  const std::vector<float> expected = losses(one, 4);

  Session three(small_solver(3), reader, model);
  three.load_dense_weights(path("model_dense_8.model"));
  three.load_dense_optimizer_states(path("model_opt_dense_8.model"));
  three.load_sparse_weights(0, path("model0_sparse_8.model"));
  three.load_sparse_optimizer_states(0, path("model0_opt_sparse_8.model"));
  three.set_step(one.step() - 4);
  const std::vector<float> found = losses(three, 4);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(found[i], expected[i], 1e-5f * expected[i]) << i;
}

TEST_F(Checkpoint, LoadingReplacesTheTableOrLeavesItAlone) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24 * 4, 1)};
  const auto model = [](std::size_t max_rows) {
    return small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam,
                       max_rows);
  };
  Session big(small_solver(1), reader, model(0));
  losses(big, 4);
  big.save_params_to_files(path("big"), 0);
  const std::size_t rows_of_big = big.dump_embedding(0, false).size();

  const ReaderSpec few_keys{.num_workers = 1, .memory = random_data(24, 2, 5000)};
  Session other(small_solver(1), few_keys, model(0));
  losses(other, 2);
  other.load_sparse_weights(0, path("big0_sparse_0.model"));
  const auto found = other.dump_embedding(0, false).keys,
             wanted = big.dump_embedding(0, false).keys;
  EXPECT_EQ(found.size(), wanted.size());
  EXPECT_EQ(found, wanted);

  Session small(small_solver(1), few_keys, model(rows_of_big - 1));
  losses(small, 2);
  const BufferBag before = small.dump_embedding(0, true);
  EXPECT_THROW(small.load_sparse_weights(0, path("big0_sparse_0.model")), OutOfMemory);
  const BufferBag after = small.dump_embedding(0, true);
  EXPECT_EQ(after.keys, before.keys);
  EXPECT_EQ(after.vectors, before.vectors);
  EXPECT_EQ(after.states, before.states);
}

}  // namespace
}  // namespace hugectr
