// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/cpp/data/batch_source.hpp"

/// What the fuzz targets have in common: the first kCaseBytes bytes of an input choose the model's
/// Input and how the data is read, the others are the data.
namespace hugectr::fuzzing {

constexpr std::size_t kCaseBytes = 16;

/// How an input wants to be read. Sizes are small, so that time goes into the parsers.
struct FuzzCase {
  InputLayout layout;  ///< 0 to 3 labels and dense numbers, 0 to 2 sparse inputs
  OnBadData on_bad_data = OnBadData::Error;
  bool checksums = false;        ///< Norm
  bool repeat = false;           ///< at most kMostBatches batches are read then
  bool repair = false;           ///< Norm: checksums are put right before the parser sees them
  bool jump = false;             ///< seek() to a place made of the data's first bytes first
  bool floats = false;           ///< Raw: float_label_dense
  bool direct = false;           ///< Raw: whole blocks
  bool offsets = false;          ///< Raw: keys are moved by their slot
  bool keep = false;             ///< Raw: blocks stay in memory
  bool shuffle = false;          ///< Raw
  std::size_t threads = 0;       ///< Raw: that decode ahead, 0 to 2
  std::size_t block_bytes = 64;  ///< Raw
  std::size_t batch = 1;         ///< 1 to 16
  std::string data;

  static constexpr std::size_t kMostBatches = 6;
};

/// The case of an input; false when it is shorter than kCaseBytes.
bool parse_case(std::string_view input, FuzzCase* fuzz_case);

/// The opposite, for seeds. Only what the bytes can say survives.
std::string case_bytes(const FuzzCase& fuzz_case);

/// Content under a path that the parsers can open: a file in memory, one a `slot`, whose content
/// the next call for the same slot replaces.
std::string memory_file(std::size_t slot, std::string_view content);

/// Makes a source and reads it through claim() and parse(), checking every chunk; then goes back
/// behind the first batch and reads the second again, which must be the same. Errors of the data
/// (DataError, InvalidArgument) are the good outcome; anything else ends the process.
/// @returns samples that were read
std::uint64_t read_case(const FuzzCase& fuzz_case,
                        const std::function<std::unique_ptr<IBatchSource>()>& make_source);

/// The targets; each returns the samples it read.
std::uint64_t fuzz_norm(std::string_view input);
std::uint64_t fuzz_raw(std::string_view input);
/// The whole input is the text of a file list. @returns paths that it holds
std::uint64_t fuzz_file_list(std::string_view input);
/// The whole input is a manifest of a checkpoint. @returns files that it names
std::uint64_t fuzz_saved(std::string_view input);
/// After 'l' places of rows and the linked segment that they are in, after anything else a group of
/// rows. @returns rows that were read
std::uint64_t fuzz_rows(std::string_view input);

}  // namespace hugectr::fuzzing
