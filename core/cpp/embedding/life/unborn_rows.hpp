// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/table/table.hpp"

/// Free numbers of rows. The next plan gives them to new rows and writes their first content while
/// the step of the plan before it is under way, so that a step must not go over them: a sweep over
/// all rows would move content that is being written.
namespace hugectr {

/// Rows (n, uint32, each once) whose numbers are free, or will be before a plan is made: no step
/// sees them until a plan makes rows of them again. Nothing in a table without gaps. On the plan
/// stream.
void mark_unborn(const OpContext& context, const Table& table, const TensorRef& rows);

}  // namespace hugectr
