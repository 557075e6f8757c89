// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "core/cpp/comm/process_group.hpp"

/// An error of one process as all of them throw it.
namespace hugectr {

/// An exception that can be sent: which of the core's types, and its text.
struct SentError {
  enum Kind : std::uint64_t { kNone, kInvalidArgument, kOutOfMemory, kDevice, kData, kComm, kOther };
  Kind kind = kNone;
  std::string text;

  static SentError of(const std::exception_ptr& error);
  std::exception_ptr pointer() const;
};

/// Collective. Null when no process failed; else the same error for all: that of the first that
/// did, with "process <rank>: " before its text unless all failed with the same one.
HCTR_API std::exception_ptr agree(IProcessGroup& processes, const std::exception_ptr& mine);

/// Runs f on all processes (null: there is one); when it throws on any, all throw. What f does
/// together with the other processes it does completely or not at all.
template <class F>
void together(IProcessGroup* processes, const F& f) {
  if (!processes) return f();
  std::exception_ptr error;
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  error = agree(*processes, error);
  if (error) std::rethrow_exception(error);
}

}  // namespace hugectr
