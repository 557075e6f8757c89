// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/arrow_format.hpp"
#include "core/cpp/data/bad_data_limit.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_source.hpp"
#include "core/cpp/data/memory_format.hpp"
#include "core/cpp/data/norm_format.hpp"
#include "core/cpp/data/raw_format.hpp"

/// The one place that knows all formats.
namespace hugectr {

enum class DataFormat { Norm, Raw, Arrow };
/// Names of the formats, in the order of DataFormat.
HCTR_API const std::vector<std::string>& data_format_names();

/// Where samples come from. `memory`, when set, wins over the format.
struct ReaderSpec {
  DataFormat format = DataFormat::Norm;
  std::string source;       ///< what the format takes; empty when `memory` is set
  std::string eval_source;  ///< empty: no evaluation
  Check check = Check::None;
  OnBadData on_bad_data = OnBadData::Error;
  double max_bad_share = BadDataLimit::kNone;  ///< of the samples; more of them skipped stop a run
  std::size_t num_workers = 12;
  std::size_t resident_batches = 0;  ///< training batches kept on the devices; 0: read as it goes
  std::shared_ptr<const MemoryData> memory, eval_memory;
  RawReading raw, eval_raw;        ///< DataFormat::Raw
  ArrowDecoder arrow, eval_arrow;  ///< DataFormat::Arrow
  ArrowMapping columns;            ///< DataFormat::Arrow
  ShuffleSpec shuffle;             ///< of the training data; Raw and Arrow
  std::size_t decode_threads = 0;  ///< Raw (direct) and Arrow; 0: as many as num_workers
  /// Every process decodes all of the data, and none sends samples to another. Else a block of the
  /// data is decoded by one process of the job. Data in memory is always replicated: each process
  /// was given all of it.
  bool replicated = false;
  std::uint64_t read_ahead_bytes = BlockReading{}.read_ahead_bytes;  ///< Raw (direct) and Arrow
};

/// Samples from the reader's settings for training (or evaluation). Collective over the processes
/// of the job (null: there is one); throws on all of them when one can not make its source.
HCTR_API std::unique_ptr<IBatchSource> make_source(
    const ReaderSpec& reader, const InputLayout& layout, bool repeat, bool train,
    const std::shared_ptr<IProcessGroup>& processes = nullptr);

}  // namespace hugectr
