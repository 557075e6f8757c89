// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/seeds.hpp"

/// write_seeds TARGET FOLDER: one file a seed.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_seeds norm|raw|list|rows FOLDER\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[2];
    std::filesystem::create_directories(folder);
    namespace fuzzing = hugectr::fuzzing;
    const std::string target = argv[1];
    const auto seeds = target == "rows" ? fuzzing::rows_seeds() : fuzzing::make_seeds(target);
    for (const auto& [name, bytes] : seeds) {
      std::ofstream file(folder / name, std::ios::binary);
      if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
