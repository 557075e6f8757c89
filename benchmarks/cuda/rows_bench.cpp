// SPDX-License-Identifier: Apache-2.0
// Time of the ops on the rows of an embedding table, on one GPU.
//
//   rows_bench [lookup|received|gradient|update|sweep|all] [d ...]      default: all 128 16
//
// A batch of 65,536 samples and 26 slots; a table of 26 x 1 M rows, in random order; keys all
// different, or of a power law (alpha 1.2) in each slot, 1 or 10 a slot. Prints a JSON line a case:
// milliseconds a call (median of several rounds of many calls, over several batches), the bytes
// that must move (each row and its states once in and once out, each vector of the batch once, the
// index arrays once), and their rate as a fraction of what a device-to-device copy reaches in the
// same run. Updates are timed with the sort that finds the runs, and without. `received` looks up
// in a block of the batch's unique rows in the type of the output, as other devices send them;
// `gradient` sums what goes back, in the type of the gradient.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/base/half.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/embedding_update.hpp"
#include "core/cpp/ops/lookup_sort.hpp"

using namespace hugectr;  // NOLINT

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kSamples = 65536, kSlots = 26, kRowsPerSlot = 1000000;
constexpr std::size_t kRows = kSlots * kRowsPerSlot, kBuckets = kSamples * kSlots;
constexpr std::size_t kSets = 3;
constexpr int kRounds = 7;

/// The i-th of kRows numbers in random order: a Feistel network on 26 bits, repeated until the
/// number is one of them.
std::uint32_t shuffled(std::uint32_t i) {
  do {
    std::uint32_t left = i >> 13, right = i & 0x1FFF;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const std::uint32_t mixed = (right * 0x9E3779B1u + round * 0x85EBCA6Bu) ^ (right << 7);
      const std::uint32_t next = left ^ ((mixed * 0xC2B2AE35u) >> 19);
      left = right;
      right = next & 0x1FFF;
    }
    i = left << 13 | right;
  } while (i >= kRows);
  return i;
}

struct Keys {
  const char* name;
  std::size_t hotness;
  bool power_law;
};

/// Rows of the keys of a batch, bucket by bucket.
std::vector<std::uint32_t> rows_of(const Keys& keys, std::size_t set, ThreadPool& pool) {
  std::vector<std::uint32_t> rows(kBuckets * keys.hotness);
  const double alpha = 1.2, top = std::pow(static_cast<double>(kRowsPerSlot), 1 - alpha) - 1;
  parallel_for(pool, rows.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
    std::mt19937_64 random(begin * kSets + set);
    std::uniform_real_distribution<double> uniform;
    for (std::size_t i = begin; i < end; ++i) {
      if (!keys.power_law) {
        rows[i] = shuffled(static_cast<std::uint32_t>(i + set * kBuckets));
        continue;
      }
      const double rank = std::pow(1 + uniform(random) * top, 1 / (1 - alpha));
      const auto key = std::min(static_cast<std::size_t>(rank) - 1, kRowsPerSlot - 1);
      const std::size_t slot = i / keys.hotness % kSlots;
      rows[i] = shuffled(static_cast<std::uint32_t>(slot * kRowsPerSlot + key));
    }
  });
  return rows;
}

/// The GPU, memory on it, and the clock.
class Bench {
 public:
  Bench()
      : backend_(DeviceBackend::get(DeviceType::Cuda)),
        memory_(backend_.memory_resource(device_)),
        stream_(backend_.create_stream(device_, "bench")),
        pool_(0) {
    context_ = {.stream = stream_.get(), .pool = &pool_, .device = device_};
  }
  ~Bench() {
    stream_->synchronize();
    free_all();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  TensorRef tensor(TensorScalarType type, const Shape& shape) {
    TensorRef ref;
    ref.dtype = type;
    ref.device = device_;
    ref.shape = shape;
    ref.row_stride = ref.row_size();
    ref.data = memory_->allocate(ref.size_in_bytes(), "bench");
    held_.emplace_back(ref.data, ref.size_in_bytes());
    return ref;
  }
  template <class T>
  TensorRef tensor(const std::vector<T>& values, const Shape& shape) {
    const TensorRef ref = tensor(ScalarTypeOf<T>::value, shape);
    stream_->copy(ref.data, values.data(), ref.size_in_bytes());
    stream_->synchronize();
    return ref;
  }
  /// Random numbers of any type, one megabyte of them again and again.
  TensorRef vectors(TensorScalarType type, const Shape& shape) {
    const TensorRef ref = tensor(type, shape);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<char> piece(1 << 20);
    const std::size_t size = size_of(type);
    for (std::size_t at = 0; at < piece.size(); at += size) {
      const float value = 1e-3f * normal(random);
      const BFloat16 narrow = to_bfloat16(value);
      std::copy_n(size == 4 ? reinterpret_cast<const char*>(&value)
                            : reinterpret_cast<const char*>(&narrow),
                  size, piece.data() + at);
    }
    for (std::size_t at = 0; at < ref.size_in_bytes(); at += piece.size()) {
      stream_->copy(static_cast<char*>(ref.data) + at, piece.data(),
                    std::min(piece.size(), ref.size_in_bytes() - at));
    }
    stream_->synchronize();
    return ref;
  }
  TensorRef zeros(const Shape& shape) {
    const TensorRef ref = tensor(TensorScalarType::Float32, shape);
    stream_->fill_zero(ref.data, ref.size_in_bytes());
    return ref;
  }
  /// The first `count` elements.
  template <class T>
  std::vector<T> read(const TensorRef& ref, std::size_t count) {
    std::vector<T> values(count);
    stream_->copy(values.data(), ref.data, count * sizeof(T));
    stream_->synchronize();
    return values;
  }
  void free_all() {
    for (const auto& [data, bytes] : held_) memory_->deallocate(data, bytes);
    held_.clear();
  }

  template <class Op>
  void operator()(Op op) {
    run(context_, std::move(op));
  }
  void copy(const TensorRef& to, const TensorRef& from) {
    stream_->copy(to.data, from.data, from.size_in_bytes());
  }

  ThreadPool& pool() { return pool_; }
  /// Milliseconds of body(set), enough calls a round that the start of the queue does not count.
  double time(const std::function<void(std::size_t)>& body) {
    const auto round = [&](std::size_t calls) {
      stream_->synchronize();
      const auto begin = Clock::now();
      for (std::size_t i = 0; i < calls; ++i) body(i % kSets);
      stream_->synchronize();
      return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() /
             static_cast<double>(calls);
    };
    round(kSets);
    const double estimate = round(2 * kSets);
    const auto calls = std::clamp<std::size_t>(static_cast<std::size_t>(20 / estimate), 6, 300);
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) times.push_back(round(calls));
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    return times[kRounds / 2];
  }

 private:
  DeviceId device_{DeviceType::Cuda, 0};
  DeviceBackend& backend_;
  std::shared_ptr<MemoryResource> memory_;
  std::unique_ptr<Stream> stream_;
  ThreadPool pool_;
  OpContext context_;
  std::vector<std::pair<void*, std::size_t>> held_;
};

/// A batch as the ops see it.
struct Batch {
  TensorRef rows, buckets, sorted_buckets, unique_rows, run_offsets, run_count;
  std::size_t runs = 0;
};

struct Case {
  Bench& bench;
  double copy_gb_s;
  std::size_t d;
  Keys keys;
  TensorRef row_offsets, scratch;
  std::vector<Batch> batches;

  LookupSort sort(const Batch& b) const {
    return {.rows = b.rows,
            .buckets = b.buckets,
            .sorted_buckets = b.sorted_buckets,
            .unique_rows = b.unique_rows,
            .run_offsets = b.run_offsets,
            .run_count = b.run_count,
            .scratch = scratch,
            .row_count = kRows};
  }

  void make_batches() {
    const std::size_t n = kBuckets * keys.hotness;
    std::vector<std::uint32_t> offsets(kBuckets + 1), buckets(n);
    for (std::size_t b = 0; b <= kBuckets; ++b) {
      offsets[b] = static_cast<std::uint32_t>(b * keys.hotness);
    }
    for (std::size_t i = 0; i < n; ++i) {
      buckets[i] = static_cast<std::uint32_t>(i / keys.hotness);
    }
    constexpr auto kU32 = TensorScalarType::UInt32;
    row_offsets = bench.tensor(offsets, {kBuckets + 1});
    scratch = bench.tensor(TensorScalarType::UInt64, {2 * n});
    const TensorRef bucket_ref = bench.tensor(buckets, {n});
    for (std::size_t set = 0; set < kSets; ++set) {
      Batch b{bench.tensor(rows_of(keys, set, bench.pool()), {n}),
              bucket_ref,
              bench.tensor(kU32, {n}),
              bench.tensor(kU32, {n}),
              bench.tensor(kU32, {n + 1}),
              bench.tensor(TensorScalarType::Int64, {1})};
      bench(sort(b));
      b.runs = static_cast<std::size_t>(bench.read<std::int64_t>(b.run_count, 1)[0]);
      batches.push_back(b);
    }
  }
  std::size_t occurrences() const { return kBuckets * keys.hotness; }
  double mean_runs() const {
    double sum = 0;
    for (const Batch& b : batches) sum += static_cast<double>(b.runs);
    return sum / static_cast<double>(batches.size());
  }
  std::size_t most_runs() const {
    std::size_t most = 0;
    for (const Batch& b : batches) most = std::max(most, b.runs);
    return most;
  }
  double fraction(double bytes, double ms) const { return bytes / 1e6 / ms / copy_gb_s; }

  void lookup(const TensorRef& weights, TensorScalarType type) {
    const TensorRef out = bench.tensor(type, {kSamples, kSlots, d});
    const double ms = bench.time([&](std::size_t set) {
      bench(EmbeddingLookup{
          .rows = batches[set].rows, .row_offsets = row_offsets, .weights = weights, .out = out});
    });
    const auto n = static_cast<double>(occurrences());
    const double around = 4 * n + 4 * kBuckets + static_cast<double>(out.size_in_bytes());
    const double bytes = around + mean_runs() * static_cast<double>(4 * d);
    const double gathered = around + n * static_cast<double>(4 * d);
    std::printf(
        "{\"case\": \"lookup\", \"d\": %zu, \"out\": \"%s\", \"keys\": \"%s\", \"rows\": %.0f, "
        "\"ms\": %.4f, \"must_gb\": %.3f, \"of_copy\": %.3f, \"gathered_gb_s\": %.0f}\n",
        d, to_string(type), keys.name, mean_runs(), ms, bytes / 1e9, fraction(bytes, ms),
        gathered / 1e6 / ms);
  }

  /// Places of a batch's rows among its unique rows.
  TensorRef places(const Batch& b) const {
    const auto unique = bench.read<std::uint32_t>(b.unique_rows, b.runs);
    auto rows = bench.read<std::uint32_t>(b.rows, occurrences());
    parallel_for(bench.pool(), rows.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto at = std::lower_bound(unique.begin(), unique.end(), rows[i]);
        rows[i] = static_cast<std::uint32_t>(at - unique.begin());
      }
    });
    return bench.tensor(rows, {rows.size()});
  }

  void received(const std::vector<TensorRef>& rows, TensorScalarType type) {
    const TensorRef weights = bench.vectors(type, {most_runs(), d});
    const TensorRef out = bench.tensor(type, {kSamples, kSlots, d});
    const double ms = bench.time([&](std::size_t set) {
      bench(EmbeddingLookup{
          .rows = rows[set], .row_offsets = row_offsets, .weights = weights, .out = out});
    });
    const auto n = static_cast<double>(occurrences()), row = static_cast<double>(size_of(type) * d);
    const double around = 4 * n + 4 * kBuckets + static_cast<double>(out.size_in_bytes());
    const double bytes = around + mean_runs() * row;
    std::printf(
        "{\"case\": \"received\", \"d\": %zu, \"weights\": \"%s\", \"keys\": \"%s\", \"rows\": "
        "%.0f, \"ms\": %.4f, \"must_gb\": %.3f, \"of_copy\": %.3f, \"gathered_gb_s\": %.0f}\n",
        d, to_string(type), keys.name, mean_runs(), ms, bytes / 1e9, fraction(bytes, ms),
        (around + n * row) / 1e6 / ms);
  }

  void gradient(TensorScalarType type) {
    const TensorRef gradient = bench.vectors(type, {kSamples, kSlots, d});
    TensorRef sums = bench.tensor(type, {most_runs(), d});
    const double ms = bench.time([&](std::size_t set) {
      const Batch& b = batches[set];
      sums.shape[0] = b.runs;
      bench(EmbeddingGradient{.sorted_buckets = b.sorted_buckets,
                              .run_offsets = b.run_offsets,
                              .gradient = gradient,
                              .sums = sums});
    });
    const auto n = static_cast<double>(occurrences()), row = static_cast<double>(size_of(type) * d);
    const double out = 4 * n + mean_runs() * (4 + row);
    const double bytes = out + static_cast<double>(gradient.size_in_bytes());
    std::printf(
        "{\"case\": \"gradient\", \"d\": %zu, \"gradient\": \"%s\", \"keys\": \"%s\", \"rows\": "
        "%.0f, \"ms\": %.4f, \"must_gb\": %.3f, \"of_copy\": %.3f, \"gathered_gb_s\": %.0f}\n",
        d, to_string(type), keys.name, mean_runs(), ms, bytes / 1e9, fraction(bytes, ms),
        (out + n * row) / 1e6 / ms);
  }

  void update(const TensorRef& weights, const std::vector<TensorRef>& states, Optimizer optimizer,
              TensorScalarType type, double sort_ms) {
    const TensorRef gradient = bench.vectors(type, {kSamples, kSlots, d});
    const TensorRef lr = bench.tensor(std::vector<float>{1e-3f}, {1});
    const TensorRef step = bench.tensor(std::vector<std::int64_t>{9}, {1});
    OptParams params;
    params.optimizer = optimizer;
    params.update_type = Update::Local;
    const auto op = [&](const Batch& b) {
      return EmbeddingUpdate{.sorted_buckets = b.sorted_buckets,
                             .unique_rows = b.unique_rows,
                             .run_offsets = b.run_offsets,
                             .run_count = b.run_count,
                             .gradient = gradient,
                             .weights = weights,
                             .lr = lr,
                             .step = step,
                             .states = states,
                             .params = params};
    };
    const double ms = bench.time([&](std::size_t set) { bench(op(batches[set])); });
    const double all = bench.time([&](std::size_t set) {
      bench(sort(batches[set]));
      bench(op(batches[set]));
    });
    const auto n = static_cast<double>(occurrences());
    const double table = mean_runs() * static_cast<double>(8 + 8 * d * (1 + states.size()));
    const double bytes = 4 * n + static_cast<double>(gradient.size_in_bytes()) + table;
    const double gathered = 4 * n + n * static_cast<double>(size_of(type) * d) + table;
    std::printf(
        "{\"case\": \"update\", \"optimizer\": \"%s\", \"d\": %zu, \"gradient\": \"%s\", \"keys\": "
        "\"%s\", \"rows\": %.0f, \"sort_ms\": %.4f, \"ms\": %.4f, \"with_sort_ms\": %.4f, "
        "\"must_gb\": %.3f, \"of_copy\": %.3f, \"of_copy_with_sort\": %.3f, \"gathered_gb_s\": "
        "%.0f}\n",
        optimizer == Optimizer::SGD ? "sgd" : "adam", d, to_string(type), keys.name, mean_runs(),
        sort_ms, ms, all, bytes / 1e9, fraction(bytes, ms), fraction(bytes, all),
        gathered / 1e6 / ms);
  }

  void sweep(const TensorRef& weights, const std::vector<TensorRef>& states) {
    const TensorRef lr = bench.tensor(std::vector<float>{1e-3f}, {1});
    const TensorRef step = bench.tensor(std::vector<std::int64_t>{9}, {1});
    OptParams params;
    params.optimizer = Optimizer::Adam;
    params.update_type = Update::Global;
    const double ms = bench.time([&](std::size_t set) {
      bench(EmbeddingSweep{.unique_rows = batches[set].unique_rows,
                           .run_count = batches[set].run_count,
                           .weights = weights,
                           .lr = lr,
                           .step = step,
                           .states = states,
                           .params = params});
    });
    const double bytes = (kRows - mean_runs()) * static_cast<double>(24 * d) + 4 * mean_runs();
    std::printf(
        "{\"case\": \"sweep\", \"optimizer\": \"adam\", \"d\": %zu, \"keys\": \"%s\", \"ms\": "
        "%.3f, \"must_gb\": %.3f, \"of_copy\": %.3f}\n",
        d, keys.name, ms, bytes / 1e9, fraction(bytes, ms));
  }
};

double copy_rate() {
  Bench bench;
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  std::vector<TensorRef> from, to;
  for (std::size_t i = 0; i < kSets; ++i) {
    from.push_back(bench.vectors(TensorScalarType::Float32, {kBytes / 4}));
    to.push_back(bench.tensor(TensorScalarType::Float32, {kBytes / 4}));
  }
  const double ms = bench.time([&](std::size_t set) { bench.copy(to[set], from[set]); });
  return 2 * kBytes / 1e6 / ms;
}

void run_all(const std::string& what, std::size_t d, double rate) {
  const auto wanted = [&](const char* name) { return what == "all" || what == name; };
  constexpr Keys kKeys[] = {
      {"unique", 1, false}, {"power law, 1 a slot", 1, true}, {"power law, 10 a slot", 10, true}};
  constexpr TensorScalarType kTypes[] = {TensorScalarType::Float32, TensorScalarType::BFloat16};
  std::vector<std::uint32_t> keys_of_rows(kRows);
  std::iota(keys_of_rows.begin(), keys_of_rows.end(), 0);
  Bench bench;
  for (const Keys& keys : kKeys) {
    Case c{bench, rate, d, keys, {}, {}, {}};
    c.make_batches();
    const TensorRef weights = bench.zeros({kRows, d});
    bench(EmbeddingInit{.row_keys = bench.tensor(keys_of_rows, {kRows}),
                        .weights = weights,
                        .count = kRows,
                        .seed = 1,
                        .bounds = {0.05}});
    for (const TensorScalarType type : kTypes) {
      if (wanted("lookup")) c.lookup(weights, type);
      if (wanted("gradient")) c.gradient(type);
    }
    if (wanted("received")) {
      std::vector<TensorRef> places;
      for (const Batch& b : c.batches) places.push_back(c.places(b));
      for (const TensorScalarType type : kTypes) c.received(places, type);
    }
    const std::vector<TensorRef> states{bench.zeros({kRows, d}), bench.zeros({kRows, d})};
    if (wanted("update")) {
      const double sort_ms = bench.time([&](std::size_t set) { bench(c.sort(c.batches[set])); });
      for (const TensorScalarType type : kTypes) {
        c.update(weights, {}, Optimizer::SGD, type, sort_ms);
        c.update(weights, states, Optimizer::Adam, type, sort_ms);
      }
    }
    if (wanted("sweep") && keys.hotness == 1 && keys.power_law) c.sweep(weights, states);
    std::fflush(stdout);
    bench.free_all();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "all";
    std::vector<std::size_t> dims{128, 16};
    if (argc > 2) dims.clear();
    for (int i = 2; i < argc; ++i) dims.push_back(std::strtoul(argv[i], nullptr, 10));
    const double rate = copy_rate();
    std::printf("{\"case\": \"copy\", \"gb_s\": %.0f}\n", rate);
    for (const std::size_t d : dims) run_all(what, d, rate);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rows_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
