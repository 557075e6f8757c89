// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/data/norm_data.hpp"

#include <stdexcept>

#include "core/cpp/data/block_source.hpp"

namespace hugectr::testing {

std::unique_ptr<IBatchSource> norm_source(const std::string& list, const InputLayout& layout,
                                          Check check, bool repeat, OnBadData policy,
                                          std::uint64_t range_bytes) {
  BlockReading reading;
  reading.repeat = repeat;
  reading.on_bad_data = policy;
  return make_block_source(make_norm_format(list, layout, check, policy, nullptr, range_bytes),
                           layout, reading);
}

HostBatch copy_batch(const Batch& batch) {
  HostBatch result;
  result.samples = batch.samples;
  result.weight_sum = batch.weight_sum;
  for (const DeviceBatch& device : batch.devices) {
    device.ready->synchronize();
    const auto copy = [](std::vector<float>& to, const TensorRef& from) {
      to.insert(to.end(), from.ptr<float>(), from.ptr<float>() + from.size());
    };
    copy(result.label, device.label);
    copy(result.dense, device.dense);
    copy(result.weight, device.sample_weight);
    std::vector<std::vector<std::int64_t>> keys;
    std::vector<std::vector<std::uint32_t>> row_offsets;
    for (const SparseTensor& sparse : device.sparse) {
      keys.emplace_back();
      for (std::size_t k = 0; k < sparse.nnz; ++k) {
        keys.back().push_back(sparse.keys.dtype == TensorScalarType::Int64
                                  ? sparse.keys.ptr<std::int64_t>()[k]
                                  : sparse.keys.ptr<std::uint32_t>()[k]);
      }
      const auto* rows = sparse.row_offsets.ptr<std::uint32_t>();
      row_offsets.emplace_back(rows, rows + sparse.row_offsets.size());
    }
    if (&device == &batch.devices.front()) {
      result.keys = keys;
      result.row_offsets = row_offsets;
    } else if (result.keys != keys || result.row_offsets != row_offsets) {
      throw std::runtime_error("devices received different keys");
    }
  }
  return result;
}

bool next_batch(IDataReader& reader, HostBatch* batch) {
  Batch* acquired = reader.acquire();
  if (!acquired) return false;
  *batch = copy_batch(*acquired);
  reader.release(acquired);
  return true;
}

}  // namespace hugectr::testing
