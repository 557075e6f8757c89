// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// Bytes from which on a bucket is full: 4 MiB, large enough for the links' full rate and small
/// enough that most of a common network's gradients are summed before backward ends; or
/// HUGECTR_BUCKET_BYTES. Throws InvalidArgument for a variable that is no positive number.
HCTR_API std::size_t bucket_bytes_wanted();

/// One parameter's gradient in the flat buffer of all of them.
struct GradientPlace {
  std::string name;        ///< of the tensor that backward writes
  std::size_t offset = 0;  ///< first element in the flat buffer
};

/// Bytes of gradients that are summed behind backward where tables are updated beside the step: 64
/// MiB, whose sum takes as long as such an update; or HUGECTR_BEHIND_BYTES. Throws InvalidArgument
/// for a variable that is no positive number.
HCTR_API std::size_t behind_bytes_wanted();

/// Sums the flat gradient `wgrad` over devices in buckets, each as soon as backward has written it:
/// an all_reduce record on the exchange lane follows the last record of the phases up to Backward
/// that writes into the bucket. Buckets are consecutive parameters of at least `bucket_bytes`, cut
/// from the end of the buffer, which backward writes first. `places` are in the order of the buffer
/// and cover it; a gradient that no record writes counts as written from the start. Runs last: on
/// records in their final order.
///
/// The parameters that backward writes last, of up to `behind_bytes` in all, are one bucket, which
/// is summed on the step's own stream when the gradients of tables have travelled
/// (GradientSum::Behind). There it runs beside the tables' update, which needs memory and no link;
/// beside backward it would take multiprocessors from products that are cut for all of them.
HCTR_API void bucket_wgrad(StepSchedule& schedule, const std::string& wgrad,
                           const std::vector<GradientPlace>& places, std::size_t bucket_bytes,
                           std::size_t behind_bytes = 0);

}  // namespace hugectr
