// SPDX-License-Identifier: Apache-2.0
// Rows between places on a GPU and host memory, in every shape a kernel can move them.
//
//   link_rows_bench [tables: 10] [rows of a table: 2000000] [bytes of a row: 512]
//                   [rows that miss, a table and step: 15860]
//
// Needs nothing of the library. Each table has its rows in pinned memory of the host and places for
// a tenth of them on the device; a step sends `miss` of each home and fetches as many others, 8
// steps in turn, lists ascending. A JSON line a shape: median milliseconds of a step, GB/s each
// way.
//   by_table  a kernel a table, else one for all
//   tickets   warps take the next rows from a counter, else each has its own share
//   blocks, threads, units   of the grid; 16-byte units that a thread asks for at once
//   ahead, page   a read of one byte of the page (log2 of its bytes) that comes so many rows later
//   way       both, to the device, from it, or swap: a row goes home where the other came from
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kSteps = 8, kRepeats = 5, kMostTables = 26;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

struct Table {
  uint4 *cache, *home;
  const std::uint32_t *places, *leaving, *coming;
};
struct Tables {
  Table of[kMostTables];
};
struct Shape {
  bool by_table = false, tickets = true;
  unsigned blocks = 132, threads = 256;
  int units = 2;
  unsigned ahead = 0, page = 21;
  std::string way = "both";
};

__device__ void touch(const uint4* p) {
  [[maybe_unused]] unsigned ignored;
  asm volatile("ld.volatile.global.u8 %0, [%1];" : "=r"(ignored) : "l"(p));
}
__device__ void touch_page(const std::uint32_t* list, std::size_t i, const uint4* home,
                           unsigned width, unsigned page) {
  const uint4* const at = home + std::size_t{list[i]} * width;
  const auto page_of = [=](const uint4* p) { return reinterpret_cast<std::uintptr_t>(p) >> page; };
  if (i == 0 || page_of(home + std::size_t{list[i - 1]} * width) != page_of(at)) touch(at);
}

template <int kUnits>
__global__ void move(const __grid_constant__ Tables tables, std::size_t rows, unsigned width,
                     std::size_t count, unsigned long long* taken, unsigned ahead, unsigned page,
                     bool in, bool out) {
  const unsigned lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  for (unsigned long long turn = 0;; ++turn) {
    unsigned long long begin = (turn * warps + warp) * (32 * kUnits);
    if (taken != nullptr) {
      if (lane == 0) begin = atomicAdd(taken, 32ull * kUnits);
      begin = __shfl_sync(0xffffffffu, begin, 0);
    }
    if (begin >= count) return;
    uint4 next[kUnits]{};
    uint4 *place[kUnits]{}, *home[kUnits]{};
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      const std::size_t t = begin + 32 * k + lane;
      if (t >= count) continue;
      const std::size_t row = t / width;
      const Table& table = tables.of[row / rows];
      const std::size_t i = row % rows, unit = t % width;
      place[k] = table.cache + std::size_t{table.places[i]} * width + unit;
      if (out) home[k] = table.home + std::size_t{table.leaving[i]} * width + unit;
      if (in) next[k] = table.home[std::size_t{table.coming[i]} * width + unit];
      if (ahead > 0 && unit == 0 && (row + ahead) * width < count) {
        const Table& later = tables.of[(row + ahead) / rows];
        const std::size_t j = (row + ahead) % rows;
        if (in) touch_page(later.coming, j, later.home, width, page);
        if (out) touch_page(later.leaving, j, later.home, width, page);
      }
    }
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      if (home[k]) *home[k] = *place[k];
      if (place[k] && in) *place[k] = next[k];
    }
  }
}

struct Work {
  int tables;
  std::size_t rows, missed, bytes;
  std::vector<Tables> steps, swapped;
  unsigned long long* taken;
};

std::uint32_t* on_device(const std::vector<std::uint32_t>& list) {
  std::uint32_t* p = nullptr;
  check(cudaMalloc(&p, list.size() * 4), "cudaMalloc");
  check(cudaMemcpy(p, list.data(), list.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  return p;
}

// n of `of`, ascending, those of `without` left out.
std::vector<std::uint32_t> some(std::mt19937_64& random, std::size_t n, std::size_t of,
                                std::vector<bool>& without) {
  std::vector<std::uint32_t> chosen;
  while (chosen.size() < n) {
    const auto row = static_cast<std::uint32_t>(random() % of);
    if (without[row]) continue;
    without[row] = true;
    chosen.push_back(row);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Work make_work(int tables, std::size_t rows, std::size_t bytes, std::size_t missed) {
  Work work{tables, rows, missed, bytes, {}, {}, nullptr};
  work.steps.resize(kSteps);
  work.swapped.resize(kSteps);
  check(cudaMalloc(&work.taken, 8), "cudaMalloc");
  std::mt19937_64 random(1);
  for (int t = 0; t < tables; ++t) {
    Table table{};
    check(cudaHostAlloc(&table.home, rows * bytes, cudaHostAllocDefault), "cudaHostAlloc");
    std::memset(table.home, t + 1, rows * bytes);
    check(cudaMalloc(&table.cache, rows / 10 * bytes), "cudaMalloc");
    check(cudaMemset(table.cache, 0, rows / 10 * bytes), "cudaMemset");
    for (int s = 0; s < kSteps; ++s) {
      std::vector<bool> used(rows), used_places(rows / 10);
      std::vector<std::uint32_t> places = some(random, missed, rows / 10, used_places);
      std::shuffle(places.begin(), places.end(), random);
      table.places = on_device(places);
      table.leaving = on_device(some(random, missed, rows, used));
      table.coming = on_device(some(random, missed, rows, used));
      work.steps[s].of[t] = work.swapped[s].of[t] = table;
      work.swapped[s].of[t].leaving = table.coming;
    }
  }
  return work;
}

template <int kUnits>
void launch(const Work& work, const Tables& tables, const Shape& shape, int count) {
  const auto width = static_cast<unsigned>(work.bytes / 16);
  const std::size_t units = count * work.missed * width;
  if (shape.tickets) check(cudaMemsetAsync(work.taken, 0, 8), "cudaMemsetAsync");
  move<kUnits><<<shape.blocks, shape.threads>>>(tables, work.missed, width, units,
                                                shape.tickets ? work.taken : nullptr, shape.ahead,
                                                shape.page, shape.way != "from", shape.way != "to");
  check(cudaGetLastError(), "move");
}

void step(const Work& work, const Shape& shape, int s) {
  const Tables& all = shape.way == "swap" ? work.swapped[s] : work.steps[s];
  const auto run = [&](const Tables& tables, int count) {
    shape.units == 1   ? launch<1>(work, tables, shape, count)
    : shape.units == 2 ? launch<2>(work, tables, shape, count)
                       : launch<4>(work, tables, shape, count);
  };
  if (!shape.by_table) return run(all, work.tables);
  for (int t = 0; t < work.tables; ++t) {
    Tables one{};
    one.of[0] = all.of[t];
    run(one, 1);
  }
}

void measure(const Work& work, const Shape& shape) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int r = 0; r <= kRepeats; ++r) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    for (int s = 0; s < kSteps; ++s) step(work, shape, s);
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (r > 0) times.push_back(ms / kSteps);
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  const double mb = static_cast<double>(work.tables * work.missed * work.bytes) / 1e6;
  std::printf(
      "{\"way\": \"%s\", \"by_table\": %d, \"tickets\": %d, \"blocks\": %u, \"threads\": %u, "
      "\"units\": %d, \"ahead\": %u, \"page\": %u, \"ms\": %.3f, \"gb_s_each_way\": %.1f}\n",
      shape.way.c_str(), shape.by_table, shape.tickets, shape.blocks, shape.threads, shape.units,
      shape.ahead, shape.page, ms, mb / ms);
  std::fflush(stdout);
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
}

// Linear copies both ways at once: the link's own rate.
void measure_link(const Work& work) {
  const std::size_t bytes = work.rows / 10 * work.bytes;
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) check(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (int r = 0; r < 2; ++r) {
    cudaEvent_t begin, end, other;
    for (cudaEvent_t* event : {&begin, &end, &other}) check(cudaEventCreate(event), "event");
    check(cudaEventRecord(begin, streams[0]), "cudaEventRecord");
    check(cudaStreamWaitEvent(streams[1], begin), "cudaStreamWaitEvent");
    for (int t = 0; t + 1 < work.tables; t += 2) {
      const Table &a = work.steps[0].of[t], &b = work.steps[0].of[t + 1];
      check(cudaMemcpyAsync(a.cache, a.home, bytes, cudaMemcpyDefault, streams[0]), "copy");
      check(cudaMemcpyAsync(b.home, b.cache, bytes, cudaMemcpyDefault, streams[1]), "copy");
    }
    check(cudaEventRecord(other, streams[1]), "cudaEventRecord");
    check(cudaStreamWaitEvent(streams[0], other), "cudaStreamWaitEvent");
    check(cudaEventRecord(end, streams[0]), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (r > 0) {
      std::printf("{\"way\": \"copies\", \"gb_s_each_way\": %.1f}\n",
                  static_cast<double>(work.tables / 2 * bytes) / 1e6 / ms);
    }
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const char* way : {"both", "swap", "to", "from"}) {
    for (unsigned blocks : {16u, 32u, 66u, 132u}) {
      for (const unsigned ahead : {0u, 128u, 512u, 2048u}) {
        all.push_back({.blocks = blocks, .ahead = ahead, .way = way});
      }
    }
    for (const bool tickets : {false, true}) {
      for (const unsigned ahead : {0u, 512u}) {
        all.push_back({.by_table = true, .tickets = tickets, .ahead = ahead, .way = way});
      }
    }
    all.push_back({.tickets = false, .way = way});
    for (const unsigned page : {12u, 16u, 25u}) {
      all.push_back({.blocks = 66, .ahead = 512, .page = page, .way = way});
      all.push_back({.blocks = 66, .ahead = 128, .page = page, .way = way});
    }
    for (const int units : {1, 4}) {
      for (const unsigned blocks : {16u, 66u, 132u}) {
        all.push_back({.blocks = blocks, .units = units, .way = way});
        all.push_back({.blocks = blocks, .units = units, .ahead = 512, .way = way});
      }
    }
  }
  return all;
}

// Every row of a step lies where it should: all shapes move the same, so one look is enough a
// shape.
void verify(const Work& work, const Shape& shape) {
  const std::size_t words = work.bytes / 4;
  for (int t = 0; t < work.tables; ++t) {
    const Table& table = work.steps[0].of[t];
    std::vector<std::uint32_t> places(work.missed), leaving(work.missed), coming(work.missed);
    for (auto [to, from] : {std::pair{&places, table.places}, std::pair{&leaving, table.leaving},
                            std::pair{&coming, table.coming}}) {
      check(cudaMemcpy(to->data(), from, work.missed * 4, cudaMemcpyDefault), "cudaMemcpy");
    }
    auto* const home = reinterpret_cast<std::uint32_t*>(table.home);
    for (std::size_t i = 0; i < work.missed; ++i) {
      std::fill_n(home + coming[i] * words, words, coming[i] * 8u + static_cast<unsigned>(t));
    }
  }
  step(work, shape, 0);  // rows come
  Work back = work;
  for (int t = 0; t < work.tables; ++t) {
    back.steps[0].of[t].leaving = work.steps[1].of[t].coming;  // and leave for elsewhere
    back.steps[0].of[t].coming = work.steps[1].of[t].leaving;
  }
  step(back, shape, 0);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (int t = 0; t < work.tables; ++t) {
    std::vector<std::uint32_t> from(work.missed), to(work.missed);
    check(cudaMemcpy(from.data(), work.steps[0].of[t].coming, work.missed * 4, cudaMemcpyDefault),
          "cudaMemcpy");
    check(cudaMemcpy(to.data(), work.steps[1].of[t].coming, work.missed * 4, cudaMemcpyDefault),
          "cudaMemcpy");
    const auto* const home = reinterpret_cast<const std::uint32_t*>(work.steps[0].of[t].home);
    for (std::size_t i = 0; i < work.missed; ++i) {
      for (std::size_t w = 0; w < words; ++w) {
        if (home[to[i] * words + w] == from[i] * 8u + static_cast<unsigned>(t)) continue;
        std::fprintf(stderr, "table %d row %u word %zu is not what was moved\n", t, to[i], w);
        std::exit(1);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const auto tables = static_cast<int>(argument(1, 10));
  const std::size_t rows = argument(2, 2'000'000), bytes = argument(3, 512);
  const std::size_t missed = argument(4, 15'860);
  if (tables > kMostTables || bytes % 16 != 0 || missed > rows / 10) {
    std::fprintf(stderr, "at most %d tables, rows of 16 bytes each, a tenth missed\n", kMostTables);
    return 2;
  }
  const Work work = make_work(tables, rows, bytes, missed);
  for (const unsigned ahead : {0u, 512u}) {
    verify(work, {.ahead = ahead});
    verify(work, {.by_table = true, .tickets = false, .ahead = ahead});
  }
  measure_link(work);
  for (const Shape& shape : shapes()) measure(work, shape);
}
