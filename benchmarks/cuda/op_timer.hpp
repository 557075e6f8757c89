// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/device/thread_pool.hpp"

/// What programs that time ops on GPU 0 share: random tensors, the clock, the copy bandwidth.
namespace hugectr {

class OpTimer {
 public:
  OpTimer() : backend_(DeviceBackend::get(DeviceType::Cuda)) {
    backend_.check_device(0);
    memory_ = backend_.memory_resource(device_);
    stream_ = backend_.create_stream(device_, "bench");
    context_ = {.stream = stream_.get(), .pool = &pool_, .device = device_};
    copy_gb_per_s_ = measure_copy();
  }

  double copy_gb_per_s() const { return copy_gb_per_s_; }
  std::string device_name() const { return backend_.device_name(0); }
  OpContext& context() { return context_; }

  /// A contiguous tensor of random numbers in [-1, 1); its memory lives until reset().
  TensorRef random(TensorScalarType dtype, Shape shape) {
    TensorRef ref;
    ref.dtype = dtype;
    ref.device = device_;
    ref.shape = std::move(shape);
    ref.row_stride = ref.row_size();
    const std::size_t bytes = ref.size_in_bytes();
    ref.data = allocate(bytes);
    const auto& block = random_block(dtype);
    for (std::size_t at = 0; at < bytes; at += block.size()) {
      stream_->copy(static_cast<char*>(ref.data) + at, block.data(),
                    std::min(block.size(), bytes - at));
    }
    stream_->synchronize();
    return ref;
  }
  /// These numbers, float32; its memory lives until reset().
  TensorRef of(const std::vector<float>& values) {
    TensorRef ref = make_ref(static_cast<float*>(nullptr), {values.size()}, device_);
    ref.data = allocate(ref.size_in_bytes());
    stream_->copy(ref.data, values.data(), ref.size_in_bytes());
    stream_->synchronize();
    return ref;
  }
  void reset() {
    for (const auto& [data, bytes] : owned_) memory_->deallocate(data, bytes);
    owned_.clear();
  }

  /// Milliseconds of one run. `sets` are the same op on different memory, used in turn: together
  /// larger than the L2 cache.
  double time(std::vector<AnyOp> sets) {
    for (AnyOp& op : sets) op.prepare(context_);
    const auto run = [&](std::size_t repeats) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < repeats; ++i) sets[i % sets.size()].run_prepared(context_);
      stream_->synchronize();
      const std::chrono::duration<double, std::milli> passed =
          std::chrono::steady_clock::now() - start;
      return passed.count() / static_cast<double>(repeats);
    };
    const double estimate = run(sets.size() + 4);
    const auto repeats = static_cast<std::size_t>(std::clamp(40.0 / estimate, 10.0, 1000.0));
    std::vector<double> times{run(repeats), run(repeats), run(repeats)};
    std::sort(times.begin(), times.end());
    return times[1];
  }

  /// Sets that a working set of `bytes` needs so that they do not fit the L2 cache together.
  static std::size_t sets_for(std::size_t bytes) {
    constexpr std::size_t kBeyondCache = std::size_t{256} << 20;
    return (kBeyondCache + bytes - 1) / bytes;
  }

  /// One JSON line; `bytes` that a run must move at least. of_copy: the rate beside that of a copy
  /// of a GiB; of_same_copy: the time beside that of a copy that moves as many bytes, which goes
  /// through as many sets of memory in turn as time() should.
  void print(const std::string& fields, double bytes, double ms) {
    const double rate = bytes / ms * 1e-6;
    const double same = copy_ms(static_cast<std::size_t>(bytes / 2.0));
    std::printf(
        "{%s, \"ms\": %.4f, \"gb_per_s\": %.0f, \"of_copy\": %.3f, \"of_same_copy\": %.3f}\n",
        fields.c_str(), ms, rate, rate / copy_gb_per_s_, same / ms);
    std::fflush(stdout);
  }

 private:
  void* allocate(std::size_t bytes) {
    void* const data = memory_->allocate(bytes, "bench");
    owned_.emplace_back(data, bytes);
    return data;
  }

  const std::vector<char>& random_block(TensorScalarType dtype) {
    constexpr std::size_t kBytes = std::size_t{32} << 20;
    auto& block = blocks_[static_cast<std::size_t>(dtype)];
    if (!block.empty()) return block;
    block.resize(kBytes);
    std::mt19937 random(1);
    const auto fill = [&](auto convert) {
      using T = decltype(convert(0.0f));
      auto* to = reinterpret_cast<T*>(block.data());
      for (std::size_t i = 0; i < kBytes / sizeof(T); ++i) {
        to[i] = convert(static_cast<float>(random()) * 0x1p-31f - 1.0f);
      }
    };
    if (dtype == TensorScalarType::Float16) {
      fill([](float x) { return to_float16(x); });
    } else if (dtype == TensorScalarType::BFloat16) {
      fill([](float x) { return to_bfloat16(x); });
    } else {
      fill([](float x) { return x; });
    }
    return block;
  }

  /// Milliseconds of a copy of so many bytes, which reads and writes them; measured once a size.
  double copy_ms(std::size_t bytes) {
    double& known = copies_[bytes];
    if (known != 0.0) return known;
    const std::size_t sets = sets_for(2 * bytes);
    std::vector<void*> memory(2 * sets);
    for (void*& data : memory) data = memory_->allocate(bytes, "bench");
    const auto copies =
        static_cast<std::size_t>(std::clamp(3e10 / static_cast<double>(bytes), 10.0, 1000.0));
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t k = 0; k < copies; ++k) {
        const std::size_t set = k % sets;
        stream_->copy(memory[2 * set], memory[2 * set + 1], bytes);
      }
      stream_->synchronize();
      const std::chrono::duration<double, std::milli> passed =
          std::chrono::steady_clock::now() - start;
      const double ms = passed.count() / static_cast<double>(copies);
      known = known == 0.0 ? ms : std::min(known, ms);
    }
    for (void* data : memory) memory_->deallocate(data, bytes);
    return known;
  }

  double measure_copy() {
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    return 2e-6 * static_cast<double>(kBytes) / copy_ms(kBytes);
  }

  DeviceBackend& backend_;
  DeviceId device_{DeviceType::Cuda, 0};
  std::shared_ptr<MemoryResource> memory_;
  std::unique_ptr<Stream> stream_;
  ThreadPool pool_{1};
  OpContext context_;
  std::vector<std::pair<void*, std::size_t>> owned_;
  std::vector<char> blocks_[32];
  std::map<std::size_t, double> copies_;
  double copy_gb_per_s_ = 0.0;
};

}  // namespace hugectr
