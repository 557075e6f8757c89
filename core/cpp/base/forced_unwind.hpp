// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cxxabi.h>

/// pthread_exit() and pthread_cancel() unwind a thread like an exception that must not be stopped:
/// a `catch (...)` that ends it aborts the program. An interpreter that ends does that to threads
/// which ask for its lock (CPython up to 3.13), and any library called back may. A `catch (...)`
/// that does not rethrow has this clause before it, and tells those who wait for the thread.
#define HCTR_CATCH_FORCED_UNWIND(...)   \
  catch (const abi::__forced_unwind&) { \
    __VA_ARGS__;                        \
    throw;                              \
  }

/// For functions that have the clause. What unwinds is no C++ object, so the reference to it, which
/// nobody looks at, is null: UBSan would take that for a mistake.
#define HCTR_MAY_BE_UNWOUND __attribute__((no_sanitize("null"), noinline))

namespace hugectr {

/// What those who wait for it hear.
inline constexpr const char* kThreadWasEnded =
    "a thread was ended from outside (pthread_exit or pthread_cancel)";

}  // namespace hugectr
