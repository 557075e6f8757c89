// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/comm/process_group.hpp"

/// An error of one process as all of them throw it.
namespace hugectr {

/// Damage in one of several places that are read at the same time: of the errors of all processes
/// the one of the lowest place is thrown, as if one process had read them in order.
class HCTR_API PlacedDataError : public DataError {
 public:
  PlacedDataError(const std::string& text, std::uint64_t at) : DataError(text), place(at) {}
  PlacedDataError(const PlacedDataError&) = default;
  PlacedDataError& operator=(const PlacedDataError&) = default;
  ~PlacedDataError() override;

  std::uint64_t place;
};

/// An exception that can be sent: which of the core's types, where, and its text.
struct SentError {
  enum Kind : std::uint64_t {
    kNone,
    kInvalidArgument,
    kOutOfMemory,
    kDevice,
    kData,
    kComm,
    kOther
  };
  Kind kind = kNone;
  std::uint64_t place = 0;
  std::string text;

  static SentError of(const std::exception_ptr& error);
  std::exception_ptr pointer() const;
};

/// Collective. Null when no process failed; else the same error for all: that of the lowest place
/// and rank, with "process <rank>: " before its text unless all failed with the same one.
HCTR_API std::exception_ptr agree(IProcessGroup& processes, const std::exception_ptr& mine);

/// Runs f on all processes (null: there is one); when it throws on any, all throw. What f does
/// together with the other processes it does completely or not at all.
template <class F>
HCTR_MAY_BE_UNWOUND void together(IProcessGroup* processes, const F& f) {
  if (!processes) return f();
  std::exception_ptr error;
  try {
    f();
  }
  HCTR_CATCH_FORCED_UNWIND()
  catch (...) {
    error = std::current_exception();
  }
  error = agree(*processes, error);
  if (error) std::rethrow_exception(error);
}

}  // namespace hugectr
