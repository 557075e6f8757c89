// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/read_through.hpp"

#include <chrono>

#include "core/cpp/model/build.hpp"
#include "core/cpp/model/model_check.hpp"

namespace hugectr {
namespace {

std::uint64_t bytes_of(const Batch& batch) {
  std::uint64_t bytes = 0;
  for (const DeviceBatch& device : batch.devices) {
    bytes += device.label.size_in_bytes() + device.dense.size_in_bytes();
    for (const SparseTensor& sparse : device.sparse) {
      bytes += sparse.keys.size_in_bytes() + sparse.row_offsets.size_in_bytes();
    }
  }
  return bytes;
}

}  // namespace

ReadThrough read_through(const SolverSpec& solver, const ReaderSpec& reader, const InputSpec& input,
                         std::size_t batches) {
  check_solver(solver);
  const auto resources = make_devices(solver, nullptr);
  const InputLayout layout = input_layout(solver, input);
  const auto data = make_data_reader(
      make_source(reader, layout, solver.repeat_dataset, true, resources->processes()), layout,
      solver.batchsize, reader.num_workers, resources, reader.max_bad_share);
  ReadThrough result;
  std::chrono::steady_clock::time_point begin;
  for (std::size_t i = 0; i <= batches; ++i) {
    Batch* batch = data->acquire();
    if (!batch) break;
    for (DeviceBatch& device : batch->devices) device.ready->synchronize();
    if (i == 0) {
      begin = std::chrono::steady_clock::now();  // threads are up, buffers have their size
      data->metrics();
    } else {
      result.samples += batch->samples;
      result.bytes += bytes_of(*batch);
    }
    data->release(batch);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.metrics = data->metrics();
  return result;
}

}  // namespace hugectr
