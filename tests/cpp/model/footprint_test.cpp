// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/footprint.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/counting_resource.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr::test {
namespace {

std::size_t bytes_of(const Footprint& footprint, const std::string& device) {
  std::size_t bytes = 0;
  for (const FootprintEntry& entry : footprint.entries) {
    if (entry.device == device) bytes += entry.bytes;
  }
  return bytes;
}

TEST(CountingResource, GivesNothingAndRefusesNothing) {
  const auto memory = make_counting_resource({DeviceType::Cuda, 3});
  EXPECT_EQ(memory->device(), (DeviceId{DeviceType::Cuda, 3}));
  EXPECT_EQ(memory->allocate(std::size_t{1} << 60, "anybody"), nullptr);
  const auto growable = memory->reserve_growable(std::size_t{1} << 60, "anybody");
  growable->grow(5);
  EXPECT_EQ(growable->size(), growth_page(DeviceType::Cuda));
  EXPECT_EQ(growable->data(), nullptr);
}

TEST(FootprintOf, EveryDeviceOfAJobWithoutAnyOfThem) {
  SolverSpec solver;
  solver.batchsize = solver.batchsize_eval = 64;
  solver.device = DeviceType::Cuda;
  solver.vvgpu = {{0, 1}, {0, 1}};
  const ModelSpec model =
      small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam);
  const Footprint found = footprint(solver, std::nullopt, model);
  EXPECT_EQ(bytes_of(found, "cuda:0"), bytes_of(found, "cuda:1"));
  EXPECT_GT(bytes_of(found, "cuda:0"), 0u);
  EXPECT_EQ(found.entries.back().process, 1u);
}

TEST(FootprintOf, RowsCostWhatARowCosts) {
  SolverSpec solver;
  solver.batchsize = solver.batchsize_eval = 64;
  ModelSpec model = small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam);
  model.embeddings[0].max_vocabulary_size_per_gpu = 0;
  model.embeddings[0].workspace_size_per_gpu_in_mb = 0;
  const auto bytes = [&](std::size_t rows) {
    return bytes_of(footprint(solver, std::nullopt, model, {rows}), "cpu:0");
  };
  const Footprint none = footprint(solver, std::nullopt, model);
  EXPECT_EQ(none.tables[0].rows, 0u);
  EXPECT_EQ(none.tables[0].max_rows, 0u);
  const std::size_t million = 1000 * 1000;
  EXPECT_GE(bytes(million) - bytes(0), million * none.tables[0].row_bytes);
  EXPECT_THROW(footprint(solver, std::nullopt, model, {million, million}), InvalidArgument);
}

/// Bytes of vectors on each of four devices of a job.
std::vector<std::size_t> vectors_on_devices(const ModelSpec& model,
                                            std::optional<std::size_t> rows) {
  SolverSpec solver;
  solver.batchsize = solver.batchsize_eval = 64;
  solver.device = DeviceType::Cuda;
  solver.vvgpu = {{0, 1, 2, 3}};
  std::vector<std::size_t> bytes(4);
  const std::vector<std::optional<std::size_t>> given{rows};
  for (const FootprintEntry& entry : footprint(solver, std::nullopt, model, given).entries) {
    if (entry.part == "vectors") bytes.at(entry.device.back() - '0') += entry.bytes;
  }
  return bytes;
}

TEST(FootprintOf, DevicesWithoutSlotsHaveNoRows) {
  ModelSpec model = small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam);
  model.embeddings[0].placement = PlacementKind::OneDevice;
  model.embeddings[0].max_vocabulary_size_per_gpu = 1000 * 1000;
  for (const std::optional<std::size_t> rows : {std::optional<std::size_t>{}, {1000 * 1000}}) {
    std::vector<std::size_t> bytes = vectors_on_devices(model, rows);
    std::ranges::sort(bytes);
    EXPECT_LT(bytes[2], 1000u);
    EXPECT_GE(bytes[3], 1000u * 1000 * sizeof(float));
  }
}

TEST(FootprintOf, FrequentRowsAreOnEveryDeviceAndNotAmongTheRest) {
  ModelSpec model = small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam);
  model.embeddings[0].max_vocabulary_size_per_gpu = 0;
  model.embeddings[0].workspace_size_per_gpu_in_mb = 0;
  const std::size_t many = 1000 * 1000;
  const auto by_key = [&](std::size_t rows) { return vectors_on_devices(model, rows)[0]; };
  const std::size_t row = (by_key(8 * many) - by_key(4 * many)) / many;  // a quarter on each
  ASSERT_GT(row, 0u);
  model.embeddings[0].placement = PlacementKind::Hybrid;
  for (std::size_t key = 0; key < many; ++key) model.embeddings[0].frequent.push_back(key);
  for (const std::size_t bytes : vectors_on_devices(model, 5 * many)) {
    EXPECT_GE(bytes, 2 * many * row);
    EXPECT_LE(bytes, 2 * many * row + 2 * growth_page(DeviceType::Cuda));
  }
}

TEST(FootprintOf, AModelThatDoesNotTrainHasNoStates) {
  SolverSpec solver;
  solver.batchsize = solver.batchsize_eval = 64;
  ModelSpec model = small_model(EmbeddingType::DistributedSlotSparseEmbeddingHash, Optimizer::Adam);
  model.trains = false;
  for (const FootprintEntry& entry : footprint(solver, std::nullopt, model, {1000}).entries) {
    EXPECT_NE(entry.part, "optimizer states");
    EXPECT_NE(entry.part, "training plans");
    EXPECT_NE(entry.part, "dense gradients");
  }
}

}  // namespace
}  // namespace hugectr::test
