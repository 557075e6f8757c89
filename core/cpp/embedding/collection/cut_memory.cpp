// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/cut_memory.hpp"

#include <cstdint>
#include <numeric>

#include "core/cpp/base/error.hpp"

namespace hugectr {

std::vector<SparseTensor> pieces_of(const TensorRef& keys, const std::vector<std::size_t>& starts,
                                    const TensorRef& bags, const std::vector<std::size_t>& order) {
  HCTR_CHECK(bags.shape.size() == 2 && starts.size() == bags.shape[0] + 1, "keys of ",
             starts.size(), " - 1 features, and offsets of shape ", to_string(bags.shape));
  const std::size_t features = bags.shape[0], width = bags.shape[1];
  std::vector<SparseTensor> tables(order.size());
  for (std::size_t t = 0; t < order.size(); ++t) {
    const std::size_t feature = order[t];
    HCTR_CHECK(feature < features, "table ", t, " reads feature ", feature, " of ", features);
    const std::size_t begin = starts[feature], end = starts[feature + 1];
    HCTR_CHECK(begin <= end && end <= keys.size(), "feature ", feature, " has keys ", begin, " to ",
               end, " of ", keys.size());
    SparseTensor& table = tables[t];
    table.nnz = end - begin;
    table.keys = keys;
    table.keys.data = static_cast<char*>(keys.data) + begin * size_of(keys.dtype);
    table.keys.shape = {table.nnz};
    table.keys.row_stride = 1;
    table.row_offsets = bags;
    table.row_offsets.data = static_cast<char*>(bags.data) + feature * width * size_of(bags.dtype);
    table.row_offsets.shape = {width};
    table.row_offsets.row_stride = 1;
  }
  return tables;
}

std::vector<BagOffsets> bags_of(const TensorRef& offsets, const std::vector<std::size_t>& starts,
                                const TensorRef& bags) {
  HCTR_CHECK(bags.shape.size() == 2 && bags.shape[1] > 0 && starts.size() == bags.shape[0] + 1 &&
                 offsets.size() == bags.shape[0] * (bags.shape[1] - 1) + 1,
             "offsets of shape ", to_string(offsets.shape), " for bags of shape ",
             to_string(bags.shape), " and keys of ", starts.size(), " - 1 features");
  const std::size_t features = bags.shape[0], width = bags.shape[1];
  std::vector<BagOffsets> ops(features);
  for (std::size_t f = 0; f < features; ++f) {
    BagOffsets& op = ops[f];
    op.offsets = offsets;
    op.offsets.data = static_cast<char*>(offsets.data) + f * (width - 1) * size_of(offsets.dtype);
    op.offsets.shape = {width};
    op.offsets.row_stride = 1;
    op.bags = bags;
    op.bags.data = static_cast<char*>(bags.data) + f * width * size_of(bags.dtype);
    op.bags.shape = {width};
    op.bags.row_stride = 1;
    op.first = static_cast<std::int64_t>(starts[f]);
    op.last = static_cast<std::int64_t>(starts[f + 1]);
  }
  return ops;
}

std::vector<TensorRef> columns_of(const TensorRef& whole, const std::vector<std::size_t>& dims) {
  const std::size_t sum = std::accumulate(dims.begin(), dims.end(), std::size_t{0});
  HCTR_CHECK(whole.shape.size() == 3 && whole.shape[2] == sum, "vectors of ", sum,
             " numbers side by side in ", to_string(whole.shape));
  std::vector<TensorRef> columns(dims.size(), whole);
  std::size_t first = 0;
  for (std::size_t t = 0; t < dims.size(); ++t) {
    columns[t].data = static_cast<char*>(whole.data) + first * size_of(whole.dtype);
    columns[t].shape[2] = dims[t];
    first += dims[t];
  }
  return columns;
}

}  // namespace hugectr
