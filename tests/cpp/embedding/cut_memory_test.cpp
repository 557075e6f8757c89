// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/cut_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(CutMemory, TablesHaveTheKeysOfTheirFeatures) {
  std::vector<std::int64_t> keys(9);
  std::vector<std::uint32_t> bags(3 * 3);
  const TensorRef all = make_ref(keys.data(), {9}), offsets = make_ref(bags.data(), {3, 3});
  const std::vector<SparseTensor> tables = pieces_of(all, {0, 4, 4, 9}, offsets, {2, 0, 1});
  ASSERT_EQ(tables.size(), 3u);
  const std::size_t begins[] = {4, 0, 4}, sizes[] = {5, 4, 0}, rows[] = {2, 0, 1};
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(tables[t].nnz, sizes[t]);
    EXPECT_EQ(tables[t].keys.ptr<std::int64_t>(), keys.data() + begins[t]);
    EXPECT_EQ(tables[t].keys.shape, (Shape{sizes[t]}));
    EXPECT_EQ(tables[t].row_offsets.ptr<std::uint32_t>(), bags.data() + 3 * rows[t]);
    EXPECT_EQ(tables[t].row_offsets.shape, (Shape{3}));
  }
}

TEST(CutMemory, KeysThatAreNotThereAreRefused) {
  std::vector<std::int64_t> keys(9);
  std::vector<std::uint32_t> bags(2 * 3);
  const TensorRef all = make_ref(keys.data(), {9}), offsets = make_ref(bags.data(), {2, 3});
  EXPECT_THROW(pieces_of(all, {0, 4}, offsets, {0}), InvalidArgument);
  EXPECT_THROW(pieces_of(all, {0, 4, 10}, offsets, {0, 1}), InvalidArgument);
  EXPECT_THROW(pieces_of(all, {5, 4, 9}, offsets, {0, 1}), InvalidArgument);
  EXPECT_THROW(pieces_of(all, {0, 4, 9}, offsets, {2}), InvalidArgument);
}

TEST(CutMemory, VectorsAreColumns) {
  std::vector<float> vectors(4 * 20);
  TensorRef whole = make_ref(vectors.data(), {4, 1, 18});
  whole.row_stride = 20;
  const std::vector<TensorRef> columns = columns_of(whole, {2, 16});
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[1].ptr<float>(), vectors.data() + 2);
  EXPECT_EQ(columns[0].shape, (Shape{4, 1, 2}));
  EXPECT_EQ(columns[1].shape, (Shape{4, 1, 16}));
  EXPECT_EQ(columns[1].row_stride, 20u);
  EXPECT_THROW(columns_of(whole, {2, 15}), InvalidArgument);
  EXPECT_THROW(columns_of(whole, {2, 17}), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
