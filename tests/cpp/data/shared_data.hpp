// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/data/block_source.hpp"
#include "tests/cpp/data/norm_data.hpp"
#include "tests/cpp/data/process_job.hpp"

namespace hugectr::testing {

/// A batch of a job as its processes together received it, and what belongs to it.
struct JobBatch {
  HostBatch batch;  ///< label, dense and weight in the order of the global batch
  ReadPosition next;
  bool operator==(const JobBatch&) const = default;
};

/// One process's share of what was read.
struct ProcessRead {
  std::vector<JobBatch> batches;
  std::string error;  ///< the one that ended it
  std::uint64_t rows_decoded = 0, bad_samples = 0;
};

/// Reads until the end, an error, or `most` batches.
ProcessRead read_all(IDataReader& reader, std::size_t most = 1000000);

/// Puts together what the processes read (LocalFirst); throws when they do not fit together.
std::vector<JobBatch> join(const std::vector<ProcessRead>& reads);

/// Samples in memory as blocks of any sizes; some of them damaged.
std::unique_ptr<IBlockFormat> make_table_format(std::shared_ptr<const std::vector<Sample>> samples,
                                                std::vector<std::uint64_t> block_rows,
                                                const InputLayout& layout,
                                                std::vector<std::size_t> damaged = {});

/// Bytes of a Raw file (float label and dense).
std::string raw_bytes(const std::vector<Sample>& samples);

/// The source of one process of a job.
using MakeSource = std::function<std::unique_ptr<IBatchSource>(const JobProcess&)>;

/// What a job reads, by process.
std::vector<ProcessRead> read_job(std::size_t processes, std::size_t devices, std::size_t workers,
                                  std::size_t batch, const InputLayout& layout,
                                  const MakeSource& make, std::size_t most = 1000000);

}  // namespace hugectr::testing
