// SPDX-License-Identifier: Apache-2.0
// Loads what Model.save (Python) wrote and predicts the samples of a text file or of the standard
// input, without Python:
//   predict_saved MODEL_FOLDER [SAMPLES.txt]
// A line is a sample: its dense numbers, then a | and the keys of a slot for each slot:
//   0.25 -1.5 | 7 | 12 13 14 |
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <hugectr/hugectr.hpp>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

/// Of one sample: adds its dense numbers and keys to the others'.
void add_sample(const std::string& line, const hugectr::InputSpec& input,
                hugectr::MemoryData& samples) {
  std::istringstream parts(line);
  std::string part;
  std::getline(parts, part, '|');
  std::istringstream numbers(part);
  const std::size_t wanted = samples.dense.size() + input.dense_dim;
  for (float number = 0; numbers >> number;) samples.dense.push_back(number);
  if (samples.dense.size() != wanted)
    throw std::runtime_error("other dense numbers than the model");
  for (std::size_t i = 0; i < input.sparse.size(); ++i) {
    auto& [keys, row_offsets] = samples.sparse[i];
    for (std::size_t slot = 0; slot < input.sparse[i].slot_num; ++slot) {
      if (!std::getline(parts, part, '|')) part.clear();  // a last slot without keys
      std::istringstream list(part);
      for (std::int64_t key = 0; list >> key;) keys.push_back(key);
      row_offsets.push_back(keys.size());
    }
  }
  ++samples.samples;
}

hugectr::MemoryData read_samples(std::istream& lines, const hugectr::InputSpec& input) {
  hugectr::MemoryData samples;
  samples.sparse.resize(input.sparse.size());
  for (auto& sparse : samples.sparse) sparse.row_offsets = {0};
  for (std::string line; std::getline(lines, line);) add_sample(line, input, samples);
  return samples;
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) throw std::runtime_error("usage: predict_saved MODEL_FOLDER [SAMPLES.txt]");
  hugectr::SavedModel model(words[1]);
  std::ifstream file;
  if (count > 2) file.open(words[2]);
  const auto samples = read_samples(count > 2 ? file : std::cin, model.input());
  const hugectr::Predictor predictor(model.session());  // for any number of threads
  for (const float probability : predictor.predict(samples)) std::printf("%.9g\n", probability);
} catch (const std::exception& error) {
  std::fprintf(stderr, "predict_saved: %s\n", error.what());
  return 1;
}
