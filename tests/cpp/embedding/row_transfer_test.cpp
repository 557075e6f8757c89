// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_transfer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr::test {
namespace {

// Rows of 1000 floats: a piece of staging memory holds 2097 of them, so that these are three pieces
// and a part.
constexpr std::size_t kWidth = 1000, kTableRows = 9000, kRows = 7000;

struct Case {
  bool staged, placed;
};

class RowTransferOf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::mt19937 rng(17);
    const std::size_t host_rows = GetParam().placed ? kRows + 100 : kRows;
    rows_.resize(kTableRows);
    std::iota(rows_.begin(), rows_.end(), 0u);
    std::shuffle(rows_.begin(), rows_.end(), rng);
    rows_.resize(kRows);
    if (GetParam().placed) {
      places_.resize(host_rows);
      std::iota(places_.begin(), places_.end(), std::size_t{0});
      std::shuffle(places_.begin(), places_.end(), rng);
      places_.resize(kRows);
    }
    std::uniform_real_distribution<float> uniform;
    table_.resize(kTableRows * kWidth);
    host_.resize(host_rows * kWidth);
    for (float& value : table_) value = uniform(rng);
    for (float& value : host_) value = uniform(rng);
    resources_ = ResourceManager::create({{0}}, 1);
    gpu_ = &resources_->get_local_gpu(0);
    arena_ = DeviceBuffer2::create("test", DeviceAllocator(gpu_->memory_resource()));
    arena_->reserve({kTableRows, kWidth}, &device_, "table");
    arena_->allocate();
    std::copy(table_.begin(), table_.end(), device_.get_ptr());
  }
  RowTransfer transfer() {
    return {*gpu_,   gpu_->compute_context(), "test",           rows_,
            places_, kWidth * sizeof(float),  GetParam().staged};
  }
  std::size_t place(std::size_t i) const { return places_.empty() ? i : places_[i]; }

  std::shared_ptr<ResourceManager> resources_;
  GPUResource* gpu_ = nullptr;
  std::shared_ptr<DeviceBuffer2> arena_;
  Tensor2<float> device_;
  std::vector<float> table_, host_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::size_t> places_;
};

TEST_P(RowTransferOf, ReadsWhatTheOrderNames) {
  std::vector<float> expected = host_;
  for (std::size_t i = 0; i < kRows; ++i) {
    std::copy_n(&table_[rows_[i] * kWidth], kWidth, &expected[place(i) * kWidth]);
  }
  RowTransfer moved = transfer();
  for (int turn = 0; turn < 2; ++turn) {  // again through pieces that have been used
    std::vector<float> found = host_;
    moved.read(device_.ref(), found.data());
    EXPECT_EQ(found, expected);
  }
}

TEST_P(RowTransferOf, WritesAndPassesOverRowsThatAreNone) {
  rows_[5] = rows_[kRows - 1] = kNoRow;
  std::vector<float> expected = table_;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (rows_[i] == kNoRow) continue;
    std::copy_n(&host_[place(i) * kWidth], kWidth, &expected[rows_[i] * kWidth]);
  }
  RowTransfer moved = transfer();
  for (int turn = 0; turn < 2; ++turn) {
    std::copy(table_.begin(), table_.end(), device_.get_ptr());
    moved.write(host_.data(), device_.ref());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), device_.get_ptr()));
  }
}

/// A table of bfloat16 that holds `values`, rounded to nearest.
std::vector<BFloat16> stored(const std::vector<float>& values) {
  std::vector<BFloat16> made(values.size());
  std::transform(values.begin(), values.end(), made.begin(), to_bfloat16);
  return made;
}

TEST_P(RowTransferOf, WidensWhatIsBfloat16AndRoundsItToNearest) {
  rows_[7] = kNoRow;
  std::vector<BFloat16> table = stored(table_);
  TensorRef ref = device_.ref();
  ref.data = table.data();
  ref.dtype = TensorScalarType::BFloat16;
  std::vector<BFloat16> written = table;
  const std::vector<BFloat16> of_host = stored(host_);
  for (std::size_t i = 0; i < kRows; ++i) {
    if (rows_[i] == kNoRow) continue;
    std::copy_n(&of_host[place(i) * kWidth], kWidth, &written[rows_[i] * kWidth]);
  }
  RowTransfer into = transfer();
  into.write(host_.data(), ref);
  const auto same = [](BFloat16 a, BFloat16 b) { return a.bits == b.bits; };
  EXPECT_TRUE(std::equal(written.begin(), written.end(), table.begin(), same));

  rows_[7] = rows_[8];
  std::vector<float> expected = host_;
  for (std::size_t i = 0; i < kRows; ++i) {
    std::transform(&table[rows_[i] * kWidth], &table[rows_[i] * kWidth] + kWidth,
                   &expected[place(i) * kWidth], [](BFloat16 value) { return to_float(value); });
  }
  std::vector<float> found = host_;
  RowTransfer out = transfer();
  out.read(ref, found.data());
  EXPECT_EQ(found, expected);
}

TEST_P(RowTransferOf, NoRowsAreNoTrouble) {
  rows_.clear();
  places_.clear();
  RowTransfer moved = transfer();
  moved.read(device_.ref(), nullptr);
  moved.write(nullptr, device_.ref());
  EXPECT_TRUE(std::equal(table_.begin(), table_.end(), device_.get_ptr()));
}

INSTANTIATE_TEST_SUITE_P(All, RowTransferOf,
                         testing::Values(Case{false, false}, Case{false, true}, Case{true, false},
                                         Case{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.staged ? "Staged" : "Direct") +
                                  (info.param.placed ? "ToPlaces" : "InOrder");
                         });

}  // namespace
}  // namespace hugectr::test
