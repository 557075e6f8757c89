// SPDX-License-Identifier: Apache-2.0
// Rates of the index of a hash table on one GPU, beside the rate of random reads.
//
//   hash_bench [log2 of the places: 26] [log2 of the keys of a call: 22]
//
// Prints a JSON line a case: 10^9 keys a second (64 batches in turn, all different), and that as a
// fraction of the random reads of 64 bytes that a plain kernel does in the same run over a table of
// the same size. Loads above three quarters are beyond what HashTable lets its index come to; the
// ops are timed there directly. `table` cases go through HashTable and count its waiting too.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/cuda/device_arrays.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/embedding/table/hash_table.hpp"
#include "core/cpp/ops/hash_index.hpp"

using namespace hugectr;         // NOLINT
using namespace hugectr::bench;  // NOLINT

namespace {

constexpr std::size_t kBatches = 64;
constexpr unsigned kBlocks = 1056, kThreads = 256;

__device__ std::uint64_t mixed(std::uint64_t h) { return hash_key(h, 0x51ED270Bu); }

// The number-th of the keys that a benchmark inserts: distinct, in no order.
template <class Key>
__device__ Key nth_key(std::uint64_t number) {
  if constexpr (sizeof(Key) == 4) {
    return static_cast<Key>(number * 0x9E3779B1u + 1);
  } else {
    return static_cast<Key>(mixed(number) >> 1);
  }
}

template <class Key>
__global__ void distinct_keys(Key* keys, std::size_t n, std::uint64_t first) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    keys[i] = nth_key<Key>(first + i);
  }
}

template <class Key>
__global__ void known_keys(Key* keys, std::size_t n, std::uint64_t rows, std::uint64_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    keys[i] = nth_key<Key>(mixed(i + (seed << 32)) % rows);
  }
}

template <class Key>
__global__ void count_wrong(const Key* keys, const std::uint32_t* rows, const Key* row_keys,
                            std::size_t n, unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (rows[i] == kNoRow || row_keys[rows[i]] != keys[i]) atomicAdd(wrong, 1ull);
  }
}

// Four lanes read one line of 64 bytes, four lines a lane under way.
__global__ void random_reads(const uint4* lines, std::uint64_t mask, std::size_t n,
                             std::uint64_t seed, std::uint32_t* sink) {
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  const std::size_t tiles = std::size_t{gridDim.x} * blockDim.x / 4;
  std::uint32_t sum = 0;
  for (std::size_t i = thread / 4 * 4; i < n; i += tiles * 4) {
    uint4 seen[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      seen[k] = __ldg(lines + (mixed(i + k + (seed << 32)) & mask) * 4 + thread % 4);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += seen[k].x ^ seen[k].y ^ seen[k].z ^ seen[k].w;
  }
  if (sum == 1) *sink = sum;
}

class Bench {
 public:
  Bench(std::size_t capacity, std::size_t keys)
      : backend_(DeviceBackend::get(DeviceType::Cuda)),
        memory_(backend_.memory_resource(device_)),
        stream_(backend_.create_stream(device_, "bench")),
        array_(memory_),
        pool_(1),
        context_{.stream = stream_.get(), .pool = &pool_, .device = device_},
        capacity_(capacity),
        n_(keys) {
    check(cudaSetDevice(0));
    std::printf("{\"gpu\": \"%s\", \"places\": %zu, \"keys_per_call\": %zu}\n",
                backend_.device_name(0).c_str(), capacity_, n_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void ceilings() {
    const TensorRef index = array(TensorScalarType::UInt64, {capacity_, 2});
    const TensorRef other = array(TensorScalarType::UInt64, {capacity_, 2});
    stream_->fill_zero(index.data, index.size_in_bytes());
    const double copy = milliseconds(
        [&](std::size_t) { stream_->copy(other.data, index.data, index.size_in_bytes()); });
    const double reads = milliseconds([&](std::size_t i) {
      random_reads<<<kBlocks, kThreads, 0, native()>>>(static_cast<const uint4*>(index.data),
                                                       capacity_ / 4 - 1, n_, i,
                                                       static_cast<std::uint32_t*>(other.data));
    });
    reads_per_second_ = static_cast<double>(n_) / reads / 1e6;
    std::printf("{\"copy_TB_per_s\": %.3f, \"random_64_byte_reads_G_per_s\": %.2f}\n",
                2.0 * static_cast<double>(index.size_in_bytes()) / copy / 1e9, reads_per_second_);
    free_all();
  }

  template <class Key>
  void ops(const char* type) {
    constexpr auto kType = ScalarTypeOf<Key>::value;
    const TensorRef index = array(TensorScalarType::UInt64, {capacity_, 2});
    const TensorRef row_keys = array(kType, {capacity_});
    const TensorRef keys = array(kType, {kBatches * n_});
    const TensorRef rows = array(TensorScalarType::UInt32, {n_});
    const TensorRef counter = array(TensorScalarType::Int64, {1});
    const TensorRef report = array(TensorScalarType::Int64, {kReportSize});
    const TensorRef wrong = array(TensorScalarType::UInt64, {1});
    const auto batch = [&](std::size_t i) { return piece(keys, i % kBatches * n_, n_); };
    const auto get_insert = [&](const TensorRef& of) {
      run(context_, HashGetInsert{.keys = of,
                                  .index = index,
                                  .counter = counter,
                                  .row_keys = row_keys,
                                  .rows = piece(rows, 0, of.size()),
                                  .report = report});
    };
    const auto rebuild = [&](std::size_t to) {
      run(context_, HashClear{.index = index});
      run(context_,
          HashInsert{.row_keys = piece(row_keys, 0, to), .index = index, .report = report});
      const auto rows_there = static_cast<std::int64_t>(to);
      stream_->copy_scalars(counter.data, &rows_there, sizeof rows_there);
    };
    const auto print_all = [&](const char* name, std::size_t percent, std::size_t of, double ms) {
      const double rate = static_cast<double>(of) / ms / 1e6;
      std::printf(
          "{\"keys\": \"%s\", \"case\": \"%s\", \"load\": %zu, \"ms\": %.3f, "
          "\"G_per_s\": %.2f, \"of_random_reads\": %.2f}\n",
          type, name, percent, ms, rate, rate / reads_per_second_);
    };
    for (const std::size_t percent : {10, 25, 50, 75, 90}) {
      const std::size_t load = capacity_ * percent / 100;
      // New keys into an empty index until it has this load.
      distinct_keys<<<kBlocks, kThreads, 0, native()>>>(keys.ptr<Key>(), load, 0);
      std::vector<double> bulk;
      for (int round = 0; round < 3; ++round) {
        rebuild(0);
        bulk.push_back(once([&] {
          for (std::size_t at = 0; at < load; at += n_) {
            get_insert(piece(keys, at, std::min(n_, load - at)));
          }
        }));
      }
      print_all("bulk_insert", percent, load, median(bulk));
      distinct_keys<<<kBlocks, kThreads, 0, native()>>>(row_keys.ptr<Key>(), load, 0);
      // The same with row numbers that are given, as tables of keys and values are filled.
      std::vector<double> given;
      for (int round = 0; round < 3; ++round) {
        run(context_, HashClear{.index = index});
        given.push_back(once([&] {
          for (std::size_t at = 0; at < load; at += n_) {
            run(context_, HashInsert{.row_keys = piece(row_keys, at, std::min(n_, load - at)),
                                     .index = index,
                                     .report = report,
                                     .first = static_cast<std::int64_t>(at)});
          }
        }));
      }
      print_all("bulk_insert_given_rows", percent, load, median(given));
      // New keys: only the last call, which brings the index to this load.
      const std::size_t before = load - n_;
      std::vector<double> times;
      for (int round = 0; round < 5; ++round) {
        rebuild(before);
        distinct_keys<<<kBlocks, kThreads, 0, native()>>>(keys.ptr<Key>(), n_, before);
        times.push_back(once([&] { get_insert(batch(0)); }));
      }
      count(keys.ptr<Key>(), rows, row_keys.ptr<Key>(), wrong);
      print(type, "insert_new", percent, median(times), read<std::uint64_t>(wrong),
            read<std::int64_t>(counter) - static_cast<std::int64_t>(load));
      times.clear();
      for (int round = 0; round < 3; ++round) {
        run(context_, HashClear{.index = index});
        times.push_back(once([&] {
          run(context_,
              HashInsert{.row_keys = piece(row_keys, 0, load), .index = index, .report = report});
        }));
      }
      print_all("rebuild", percent, load, median(times));
      rebuild(load);
      for (std::size_t i = 0; i < kBatches; ++i) {
        known_keys<<<kBlocks, kThreads, 0, native()>>>(batch(i).template ptr<Key>(), n_, load, i);
      }
      const double known = milliseconds([&](std::size_t i) { get_insert(batch(i)); });
      count(batch(kBatches - 1).template ptr<Key>(), rows, row_keys.ptr<Key>(), wrong);
      print(type, "get_insert_known", percent, known, read<std::uint64_t>(wrong),
            read<std::int64_t>(counter) - static_cast<std::int64_t>(load));
      const double get = milliseconds([&](std::size_t i) {
        run(context_, HashGet{.keys = batch(i),
                              .index = index,
                              .rows = rows,
                              .report = report,
                              .row_limit = kNoRow});
      });
      count(batch(kBatches - 1).template ptr<Key>(), rows, row_keys.ptr<Key>(), wrong);
      print(type, "get_known", percent, get, read<std::uint64_t>(wrong), 0);
    }
    free_all();
  }

  /// The same through HashTable at a load of half, with a wait and the report of every call.
  template <class Key>
  void table(const char* type) {
    constexpr auto kType = ScalarTypeOf<Key>::value;
    const std::size_t rows_there = capacity_ / 2;
    HashTable table(memory_, "bench", kType, capacity_, false, backend_.staging_resource(device_));
    const TensorRef keys = array(kType, {kBatches * n_});
    const TensorRef rows = array(TensorScalarType::UInt32, {n_});
    for (std::size_t at = 0; at < rows_there; at += n_) {
      distinct_keys<<<kBlocks, kThreads, 0, native()>>>(keys.ptr<Key>(), n_, at);
      table.insert(context_, piece(keys, 0, n_), {});
      stream_->synchronize();
    }
    for (std::size_t i = 0; i < kBatches; ++i) {
      known_keys<<<kBlocks, kThreads, 0, native()>>>(keys.ptr<Key>() + i * n_, n_, rows_there, i);
    }
    stream_->synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kBatches; ++i) {
      table.get_insert(context_, piece(keys, i * n_, n_), {}, {}, rows);
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count() /
        kBatches;
    std::printf(
        "{\"keys\": \"%s\", \"case\": \"table_get_insert_known\", \"load\": %.0f, "
        "\"ms\": %.4f, \"G_per_s\": %.2f}\n",
        type, 100.0 * static_cast<double>(table.size()) / static_cast<double>(table.capacity()), ms,
        static_cast<double>(n_) / ms / 1e6);
    free_all();
  }

 private:
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  cudaStream_t native() const { return bench::native(*stream_); }
  TensorRef array(TensorScalarType type, const Shape& shape) { return array_(type, shape); }
  void free_all() {
    stream_->synchronize();
    array_.free_all();
  }
  template <class T>
  T read(const TensorRef& ref) {
    T value;
    stream_->copy(&value, ref.data, sizeof value);
    stream_->synchronize();
    return value;
  }
  template <class Key>
  void count(const Key* keys, const TensorRef& rows, const Key* row_keys, const TensorRef& wrong) {
    stream_->fill_zero(wrong.data, sizeof(std::uint64_t));
    count_wrong<<<kBlocks, kThreads, 0, native()>>>(
        keys, rows.ptr<std::uint32_t>(), row_keys, n_,
        reinterpret_cast<unsigned long long*>(wrong.ptr<std::uint64_t>()));
  }
  template <class Body>
  double once(const Body& body) {
    return clock_(*stream_, body);
  }
  /// Milliseconds a call of body(i), all batches in turn, after one call to warm up.
  template <class Body>
  double milliseconds(const Body& body) {
    body(0);
    return once([&] {
             for (std::size_t i = 0; i < kBatches; ++i) body(i);
           }) /
           kBatches;
  }
  void print(const char* type, const char* name, std::size_t percent, double ms,
             std::uint64_t wrong, std::int64_t surplus) const {
    const double rate = static_cast<double>(n_) / ms / 1e6;
    std::printf(
        "{\"keys\": \"%s\", \"case\": \"%s\", \"load\": %zu, \"ms\": %.4f, "
        "\"G_per_s\": %.2f, \"of_random_reads\": %.2f, \"wrong\": %llu, \"surplus\": %lld}\n",
        type, name, percent, ms, rate, rate / reads_per_second_,
        static_cast<unsigned long long>(wrong), static_cast<long long>(surplus));
    std::fflush(stdout);
  }

  DeviceId device_{DeviceType::Cuda, 0};
  DeviceBackend& backend_;
  std::shared_ptr<MemoryResource> memory_;
  std::unique_ptr<Stream> stream_;
  DeviceArrays array_;
  ThreadPool pool_;
  OpContext context_;
  std::size_t capacity_, n_;
  double reads_per_second_ = 1;
  StreamClock clock_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto log2_of = [&](int i, int otherwise) {
    return std::size_t{1} << (argc > i ? std::atoi(argv[i]) : otherwise);
  };
  Bench bench(log2_of(1, 26), log2_of(2, 22));
  bench.ceilings();
  bench.ops<std::int64_t>("int64");
  bench.ops<std::uint32_t>("uint32");
  bench.table<std::int64_t>("int64");
  return 0;
}
