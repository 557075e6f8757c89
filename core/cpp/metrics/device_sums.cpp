// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/device_sums.hpp"

namespace hugectr {

TensorRef DeviceSums::of(GPUResource& gpu) {
  Tensor2<double>& sums = of_device_[gpu.get_local_id()];
  if (!sums.allocated()) {
    sums = metric_tensor<double>(gpu, {count_}, "sums");
    gpu.compute_stream().fill_zero(sums.get_ptr(), sums.get_size_in_bytes());
  }
  return sums.ref();
}

std::vector<double> DeviceSums::take(ResourceManager& resources) {
  // Rows by global id: those of this process first, then those of the process each device is of.
  const std::size_t devices = resources.get_global_gpu_count();
  std::vector<double> all(devices * count_);
  for (std::size_t id = 0; id < of_device_.size(); ++id) {
    Tensor2<double>& sums = of_device_[id];
    if (!sums.allocated()) continue;
    GPUResource& gpu = resources.get_local_gpu(id);
    Stream& stream = gpu.compute_stream();
    stream.copy(&all[gpu.get_global_id() * count_], sums.get_ptr(), sums.get_size_in_bytes());
    stream.fill_zero(sums.get_ptr(), sums.get_size_in_bytes());
    stream.synchronize();
  }
  if (const auto& processes = resources.processes()) {
    std::vector<double> of_processes(all.size() * processes->size());
    processes->all_gather(all.data(), all.size() * sizeof(double), of_processes.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t process = resources.get_process_id_from_gpu_global_id(i / count_);
      all[i] = of_processes[process * all.size() + i];
    }
  }
  std::vector<double> total(count_);
  for (std::size_t i = 0; i < all.size(); ++i) total[i % count_] += all[i];
  return total;
}

}  // namespace hugectr
