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

/// Sums of more bytes stay on the lane: they are worth more beside what backward has left.
inline constexpr std::size_t kMostBehind = std::size_t{32} << 20;

/// Sums the flat gradient `wgrad` over devices in buckets, each as soon as backward has written it:
/// an all_reduce record on the exchange lane follows the last record of the phases up to Backward
/// that writes into the bucket. Buckets are consecutive parameters of at least `bucket_bytes`, cut
/// from the end of the buffer, which backward writes first. `places` are in the order of the buffer
/// and cover it; a gradient that no record writes counts as written from the start. Runs last: on
/// records in their final order.
///
/// `first`: gradients of tables, which travel on the lane as soon as they are there. Sums that come
/// no sooner are the last of Backward, on the step's own stream (GradientSum::Behind): the update
/// of the tables, which others wait for longer, does not stand behind them.
HCTR_API void bucket_wgrad(StepSchedule& schedule, const std::string& wgrad,
                           const std::vector<GradientPlace>& places, std::size_t bucket_bytes,
                           const std::vector<std::string>& first = {});

}  // namespace hugectr
