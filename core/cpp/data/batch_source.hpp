// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/csr_chunk.hpp"
#include "core/cpp/data/read_position.hpp"

namespace hugectr {

/// What is done with damaged data: stop with a DataError, or count it, log the first ones and go
/// on.
enum class OnBadData { Error, Skip };

/// The part of the data that one batch covers, still unparsed. Each kind of source derives its own.
struct RawBatch {
  virtual ~RawBatch() = default;
  std::size_t samples = 0;
  std::uint64_t lost = 0;  ///< samples that damage took out of the data on the way to this batch
  std::string damage;      ///< what took the first of them
  ReadPosition next;       ///< behind the batch: where reading goes on after it has trained
};

/// A format. claim() hands out batches one after the other in the linear order of the data; only
/// one thread at a time is inside it. parse() is called from many threads at once.
class HCTR_API IBatchSource {
 public:
  virtual ~IBatchSource() = default;
  virtual std::unique_ptr<RawBatch> make_raw_batch() const = 0;
  /// Takes the next `batch` samples (fewer at the end of an epoch). False when none are left: in
  /// repeat mode that never happens, the data starts over inside the batch.
  virtual bool claim(RawBatch& raw, std::size_t batch) = 0;
  /// Fills label, dense, weight and CSRs of the chunk for `batch` samples, padding included; of a
  /// source that shares the decoding, this process's samples only, without padding, and runs.
  virtual void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const = 0;
  /// Processes that share the decoding: their claims are the same, each parses its own samples.
  virtual std::size_t sharing_processes() const { return 1; }
  /// Starts over from the first sample, possibly of another file list ("" = the same).
  virtual void set_source(const std::string& source) = 0;
  /// Goes on from a place that a RawBatch of the same source and settings ended at. Throws
  /// InvalidArgument when the data has no such place.
  virtual void seek(const ReadPosition& position) = 0;
  /// Samples this process has decoded so far; what is read twice counts twice.
  virtual std::uint64_t rows_decoded() const = 0;
  /// Samples dropped or skipped so far because they were damaged; of the blocks of this process.
  virtual std::uint64_t bad_samples() const = 0;
};

}  // namespace hugectr
