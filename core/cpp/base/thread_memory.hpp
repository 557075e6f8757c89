// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Whether this thread gets so much memory now; it is given back at once. Asked before what ends
/// the process where it gets none. Throws nothing.
HCTR_API bool thread_gets(std::size_t bytes) noexcept;

/// Makes the variables that libstdc++ keeps for a thread which throws, if there is memory for them.
/// They are made when they are first used otherwise, that is with the first exception of the
/// thread, and a lack of memory then ends the process: "cannot allocate memory for thread-local
/// data". False where there is none: the thread may not throw, so it should not begin.
HCTR_API bool thread_may_throw() noexcept;

}  // namespace hugectr
