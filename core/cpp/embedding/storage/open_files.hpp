// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hugectr {

/// Lets this process open as many files as its hard limit says, up to 2^20: a store has one open
/// for each of its segments, and the soft limit of most systems is 1,024, 64 GiB of disk. What is
/// refused stays as it is.
void allow_many_open_files();

}  // namespace hugectr
