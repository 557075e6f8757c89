// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/device_backend.hpp"

namespace hugectr {

/// A test that needs GPUs; skipped with the reason where there are too few.
template <int kDevices = 1>
struct GpuTest : testing::Test {
  void SetUp() override {
    const std::string reason = DeviceBackend::why_not(DeviceType::Cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
    const int count = DeviceBackend::get(DeviceType::Cuda).device_count();
    if (count < kDevices) GTEST_SKIP() << "needs " << kDevices << " GPUs, there are " << count;
  }

  DeviceBackend& backend() { return DeviceBackend::get(DeviceType::Cuda); }
  const DeviceId device{DeviceType::Cuda, 0};
};

/// n elements of device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray(DeviceId device, std::size_t n)
      : memory_(DeviceBackend::get(DeviceType::Cuda).memory_resource(device)),
        device_(device),
        n_(n),
        data_(static_cast<T*>(memory_->allocate(n * sizeof(T), "test array"))) {}
  ~DeviceArray() { memory_->deallocate(data_, n_ * sizeof(T)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  TensorRef ref() const { return make_ref(data_, {n_}, device_); }

  void set(Stream& stream, const std::vector<T>& values) {
    stream.copy(data_, values.data(), values.size() * sizeof(T));
    stream.synchronize();
  }
  std::vector<T> get(Stream& stream) const {
    std::vector<T> values(n_);
    stream.copy(values.data(), data_, n_ * sizeof(T));
    stream.synchronize();
    return values;
  }

 private:
  std::shared_ptr<MemoryResource> memory_;
  DeviceId device_;
  std::size_t n_;
  T* data_;
};

}  // namespace hugectr
