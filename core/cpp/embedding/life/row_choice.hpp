// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/embedding/table/row_order.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

/// Which rows of a table are to go. They are chosen by what is known of rows and by identity, over
/// all devices of the job, so that the same ones go on 1 and on N devices. Called while no plan is
/// made and all streams have been waited for; only rows that have trained are there then.
namespace hugectr {

/// Rows by local device.
struct ChosenRows {
  std::vector<TensorRef> rows;  ///< (n) uint32, on the device, each once; empty: none
  std::vector<std::shared_ptr<DeviceBuffer2>> memory;
  std::size_t count = 0;  ///< on all local devices
};

// `spec`: of a device's part, be it one of another process: this one may have no part of a table.

/// The clock of a table whose rows have times: the latest of them in the whole job, 0 without any.
/// InvalidArgument when the data has a time that is none. Collective.
std::int64_t latest_time(const TableSpec& spec, const TableParts& parts, IProcessGroup* processes);

// `now`: the step, or the clock of a table whose rows have times.

/// Candidates for admission that no step has used for evict_every steps; by time, as expired rows.
ChosenRows stale_candidates(const TableSpec& spec, const TableParts& parts, std::int64_t now);
/// Rows that no step has used for `ttl` steps, or no sample for `ttl` seconds, where rows expire.
/// Those whose time is not known do not.
ChosenRows expired_rows(const TableSpec& spec, const TableParts& parts, std::int64_t now);
/// What is too much when the job has more than max_rows, where rows make room. Collective.
/// `processes`: null, this one is alone.
ChosenRows surplus_rows(const TableSpec& spec, const TableParts& parts, std::int64_t now,
                        IProcessGroup* processes);

}  // namespace hugectr
