// SPDX-License-Identifier: Apache-2.0
// Samples per second of the Norm reader, from file to device batches, in the shape of the Criteo
// data: 1 label, 13 dense features, 26 one-hot slots. Prints one JSON object.
//   norm_reader_bench [--samples n] [--batch n] [--workers n] [--devices n] [--epochs n]
//                     [--hot n] [--i64] [--folder path]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/make_source.hpp"

namespace {

using hugectr::Check;

struct Options {
  std::size_t samples = 400000, batch = 16384, workers = 12, devices = 1, epochs = 5, hot = 1;
  bool i64 = false;
  std::string folder = (std::filesystem::temp_directory_path() / "hugectr_bench").string();
};

constexpr std::size_t kDense = 13, kSlots = 26;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_record(std::string& out, const std::string& payload, Check check) {
  if (check == Check::Sum) append(out, static_cast<std::int32_t>(payload.size()));
  out += payload;
  if (check == Check::None) return;
  std::uint8_t sum = 0;
  for (const char c : payload) sum = static_cast<std::uint8_t>(sum + static_cast<std::uint8_t>(c));
  append(out, sum);
}

/// Writes the data file and its list unless they are there; returns the list's path.
std::string prepare(const Options& options, Check check) {
  const std::string stem =
      hugectr::concat(options.folder, "/criteo_", check == Check::Sum ? "sum" : "none", "_",
                      options.samples, "x", options.hot, options.i64 ? "_i64" : "_u32");
  if (std::filesystem::exists(stem + ".txt")) return stem + ".txt";
  std::filesystem::create_directories(options.folder);
  std::ofstream file(stem + ".data", std::ios::binary);
  std::string out, payload;
  const std::int64_t header[8] = {
      check == Check::Sum, static_cast<std::int64_t>(options.samples), 1, kDense, kSlots, 0, 0, 0};
  for (const std::int64_t field : header) append(payload, field);
  append_record(out, payload, check);
  for (std::size_t i = 0; i < options.samples; ++i) {
    payload.clear();
    for (std::size_t k = 0; k < 1 + kDense; ++k) {
      append(payload, hugectr::unit_float(hugectr::philox4x32(1, i, k).x[0]));
    }
    for (std::size_t s = 0; s < kSlots; ++s) {
      append(payload, static_cast<std::int32_t>(options.hot));
      for (std::size_t k = 0; k < options.hot; ++k) {
        const std::uint32_t key = hugectr::philox4x32(2, i, s * options.hot + k).x[0];
        options.i64 ? append(payload, static_cast<std::int64_t>(key)) : append(payload, key);
      }
    }
    append_record(out, payload, check);
    if (out.size() > (1 << 20) || i + 1 == options.samples) {
      file.write(out.data(), static_cast<std::streamsize>(out.size()));
      out.clear();
    }
  }
  file.close();
  std::ofstream(stem + ".txt") << "1\n" << stem << ".data\n";
  return stem + ".txt";
}

/// Reads all epochs once; prints the members of one JSON object.
void measure(const Options& options, Check check) {
  const std::string list = prepare(options, check);
  hugectr::InputLayout layout{1, kDense, options.i64, {}};
  layout.sparse.push_back(
      {"data", std::vector<int>(kSlots, static_cast<int>(options.hot)), false, kSlots});
  std::vector<int> ids;
  for (std::size_t i = 0; i < options.devices; ++i) ids.push_back(static_cast<int>(i));
  const auto reader = hugectr::make_data_reader(
      hugectr::make_source({.source = list, .check = check}, layout, true, true), layout,
      options.batch, options.workers, hugectr::ResourceManager::create({ids}, 1));
  const auto read = [&](std::size_t batches) {
    for (std::size_t i = 0; i < batches; ++i) {
      hugectr::Batch* batch = reader->acquire();
      for (hugectr::DeviceBatch& device : batch->devices) device.ready->synchronize();
      reader->release(batch);
    }
  };
  const std::size_t batches = options.samples / options.batch + 1;
  read(batches + options.workers);  // buffers have grown, the file is in the page cache
  double best = 0, total = 0;
  reader->metrics();
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    read(batches);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(batches * options.batch) / spent.count());
    total += spent.count();
  }
  const hugectr::ReaderMetrics metrics = reader->metrics();
  const double file_bytes =
      static_cast<double>(std::filesystem::file_size(list.substr(0, list.size() - 3) + "data"));
  const double mean = static_cast<double>(options.epochs * batches * options.batch) / total;
  const double record_bytes = file_bytes / static_cast<double>(options.samples);
  const double parsed = static_cast<double>(metrics.batches * options.batch);
  std::cout << "\"" << (check == Check::Sum ? "sum" : "none")
            << "\": {\"samples_per_second\": " << mean << ", \"best_epoch\": " << best
            << ", \"megabytes_per_second\": " << mean * record_bytes / 1e6
            << ", \"parse_nanoseconds_per_sample\": " << 1e9 * metrics.parse_seconds / parsed
            << "}";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--i64") {
      options.i64 = true;
      continue;
    }
    if (i + 1 == argc) {
      std::cerr << "unknown option or missing value: " << name << "\n";
      return 2;
    }
    const char* value = argv[++i];
    const auto number = static_cast<std::size_t>(std::strtoull(value, nullptr, 10));
    if (name == "--samples")
      options.samples = number;
    else if (name == "--batch")
      options.batch = number;
    else if (name == "--workers")
      options.workers = number;
    else if (name == "--devices")
      options.devices = number;
    else if (name == "--epochs")
      options.epochs = number;
    else if (name == "--hot")
      options.hot = number;
    else if (name == "--folder")
      options.folder = value;
    else {
      std::cerr << "unknown option " << name << "\n";
      return 2;
    }
  }
  try {
    std::cout << "{\"batch\": " << options.batch << ", \"workers\": " << options.workers
              << ", \"devices\": " << options.devices << ", ";
    measure(options, Check::Sum);
    std::cout << ", ";
    measure(options, Check::None);
    std::cout << "}" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
