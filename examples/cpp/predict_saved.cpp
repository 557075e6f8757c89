// SPDX-License-Identifier: Apache-2.0
// Loads what Model.save (Python) wrote and predicts the samples of a text file or of the standard
// input, without Python:
//   predict_saved MODEL_FOLDER [SAMPLES.txt]
// A line is a sample: its dense numbers, then a | and the keys of a slot for each slot:
//   0.25 -1.5 | 7 | 12 13 14 |
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <hugectr/hugectr.hpp>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

/// Adds the numbers of a part of a line, which has nothing else.
template <typename Number>
void add_numbers(const std::string& part, std::vector<Number>& numbers) {
  std::istringstream words(part);
  for (std::string word; words >> word;) {
    Number number{};
    const char* end = word.data() + word.size();
    const auto [read_to, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || read_to != end)
      throw std::runtime_error("'" + word + "' is no number that is taken here");
    numbers.push_back(number);
  }
}

/// Of one sample: adds its dense numbers and keys to the others'.
void add_sample(const std::string& line, const hugectr::InputSpec& input,
                hugectr::MemoryData& samples) {
  std::size_t slots = 0;
  for (const auto& sparse : input.sparse) slots += sparse.slot_num;
  if (static_cast<std::size_t>(std::count(line.begin(), line.end(), '|')) != slots)
    throw std::runtime_error("needs a | before the keys of each of " + std::to_string(slots) +
                             " slots, and no other");
  std::istringstream parts(line);
  std::string part;
  std::getline(parts, part, '|');
  const std::size_t wanted = samples.dense.size() + input.dense_dim;
  add_numbers(part, samples.dense);
  if (samples.dense.size() != wanted)
    throw std::runtime_error("needs " + std::to_string(input.dense_dim) + " dense numbers");
  for (std::size_t i = 0; i < input.sparse.size(); ++i) {
    auto& [keys, row_offsets] = samples.sparse[i];
    for (std::size_t slot = 0; slot < input.sparse[i].slot_num; ++slot) {
      if (!std::getline(parts, part, '|')) part.clear();  // a last slot without keys
      add_numbers(part, keys);
      row_offsets.push_back(keys.size());
    }
  }
  ++samples.samples;
}

hugectr::MemoryData read_samples(std::istream& lines, const hugectr::InputSpec& input) {
  hugectr::MemoryData samples;
  samples.sparse.resize(input.sparse.size());
  for (auto& sparse : samples.sparse) sparse.row_offsets = {0};
  for (std::string line; std::getline(lines, line);) {
    try {
      add_sample(line, input, samples);
    } catch (const std::exception& error) {
      throw std::runtime_error("line " + std::to_string(samples.samples + 1) + ": " + error.what());
    }
  }
  if (lines.bad() || !lines.eof()) throw std::runtime_error("the samples can not be read");
  return samples;
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) throw std::runtime_error("usage: predict_saved MODEL_FOLDER [SAMPLES.txt]");
  hugectr::SavedModel model(words[1]);
  std::ifstream file;
  if (count > 2) file.open(words[2]);
  if (count > 2 && !file) throw std::runtime_error(std::string("can not open ") + words[2]);
  const auto samples = read_samples(count > 2 ? file : std::cin, model.input());
  const hugectr::Predictor predictor(model.session());  // for any number of threads
  for (const float probability : predictor.predict(samples)) std::printf("%.9g\n", probability);
} catch (const std::exception& error) {
  std::fprintf(stderr, "predict_saved: %s\n", error.what());
  return 1;
}
