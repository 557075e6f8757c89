// SPDX-License-Identifier: Apache-2.0
// Rows that are missed, read from segments, beside plain 4-KiB reads of the same places past the
// page cache, at the same number of requests under way. Prints one JSON object a depth.
//   storage_bench FOLDER [--gib n] [--row-bytes n] [--groups n] [--rounds n]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/embedding/storage/segment_store.hpp"

namespace {

using namespace hugectr;

struct Options {
  std::string folder;
  double gib = 2.0;
  std::size_t row_bytes = 516, groups = 20000, rounds = 5;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

StoreSettings settings_of(const Options& options, std::size_t depth) {
  StoreSettings settings;
  settings.folder = options.folder + "/rows";
  settings.table = "bench";
  settings.row_bytes = options.row_bytes;
  settings.max_rows = std::size_t{1} << 31;
  settings.max_bytes = static_cast<std::uint64_t>(options.gib * 3 * (1 << 30));
  settings.threads = std::make_shared<IoThreads>(depth);
  return settings;
}

/// Row numbers, one of each of some groups; all were written in order.
std::vector<std::uint32_t> one_of_each(std::size_t groups, std::size_t capacity, std::size_t count,
                                       std::mt19937& random) {
  std::vector<std::uint32_t> chosen(groups);
  std::iota(chosen.begin(), chosen.end(), 0U);
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(std::min(count, groups));
  for (std::uint32_t& group : chosen) group = static_cast<std::uint32_t>(group * capacity);
  return chosen;
}

/// Plain reads of blocks drawn from all files, `depth` under way.
double plain_seconds(const std::vector<int>& files, std::size_t blocks_a_file, std::size_t count,
                     IoThreads& threads, std::mt19937& random) {
  std::vector<std::uint64_t> places(count);
  for (std::uint64_t& place : places) {
    place = static_cast<std::uint64_t>(random()) % (files.size() * blocks_a_file);
  }
  std::sort(places.begin(), places.end());  // as a store reads
  return seconds_of([&] {
    threads.run(count, [&](std::size_t i, AlignedBuffer& buffer) {
      const int file = files[places[i] / blocks_a_file];
      const auto offset = static_cast<off_t>((1 + places[i] % blocks_a_file) * kBlockBytes);
      if (::pread(file, buffer.with(kBlockBytes), kBlockBytes, offset) !=
          static_cast<ssize_t>(kBlockBytes)) {
        throw DataError("a plain read failed");
      }
    });
  });
}

/// Rows 0 .. rows - 1, in order; how long it took.
double write_rows(SegmentStore& store, std::size_t rows) {
  return seconds_of([&] {
    constexpr std::size_t kBatch = 100000;
    const GroupShape& shape = store.shape();
    std::vector<std::uint32_t> batch;
    for (std::size_t first = 0; first < rows; first += batch.size()) {
      batch.resize(std::min(kBatch / shape.capacity() * shape.capacity(), rows - first));
      std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(first));
      store.write(batch, [&](std::size_t i, std::byte* row) {
        std::memset(row, static_cast<int>(i), shape.row_bytes());
      });
    }
  });
}

void measure(const Options& options) {
  const GroupShape shape(options.row_bytes);
  const auto groups = static_cast<std::size_t>(options.gib * (1 << 30)) / shape.bytes();
  std::mt19937 random(1);
  for (const std::size_t depth : {1, 4, 8, 16, 32, 64}) {
    const StoreSettings settings = settings_of(options, depth);
    SegmentStore store(settings);
    const double seconds = write_rows(store, groups * shape.capacity());
    static_cast<void>(store.stored({}));  // seals: what is as long as a whole segment is full
    IoThreads threads(depth);
    std::vector<int> files;
    for (const auto& entry : std::filesystem::directory_iterator(settings.folder)) {
      const auto whole = settings.segment_bytes / kBlockBytes * kBlockBytes;
      if (entry.path().extension() == SegmentFile::kSuffix && entry.file_size() >= whole) {
        files.push_back(::open(entry.path().c_str(), O_RDONLY | O_DIRECT));
      }
    }
    const std::size_t blocks = settings.segment_bytes / kBlockBytes - 1;
    std::vector<double> ours, plain;
    for (std::size_t round = 0; round < options.rounds; ++round) {
      const auto wanted = one_of_each(groups, shape.capacity(), options.groups, random);
      ours.push_back(wanted.size() /
                     seconds_of([&] { store.read(wanted, [](std::size_t, const std::byte*) {}); }));
      plain.push_back(wanted.size() / plain_seconds(files, blocks, wanted.size(), threads, random));
    }
    for (const int file : files) ::close(file);
    std::cout << "{\"depth\": " << depth << ", \"groups_per_s\": " << median(ours)
              << ", \"plain_reads_per_s\": " << median(plain)
              << ", \"ratio\": " << median(ours) / median(plain)
              << ", \"write_mib_per_s\": " << options.gib * 1024 / seconds << "}" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc < 2) {
    std::cerr
        << "usage: storage_bench FOLDER [--gib n] [--row-bytes n] [--groups n] [--rounds n]\n";
    return 2;
  }
  options.folder = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--gib") options.gib = std::atof(argv[i + 1]);
    if (name == "--row-bytes") options.row_bytes = std::strtoul(argv[i + 1], nullptr, 10);
    if (name == "--groups") options.groups = std::strtoul(argv[i + 1], nullptr, 10);
    if (name == "--rounds") options.rounds = std::strtoul(argv[i + 1], nullptr, 10);
  }
  try {
    measure(options);
  } catch (const std::exception& error) {
    std::cerr << "storage_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
