// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// The processes of a job, connected by an existing engine (MPI, sockets) that the core calls back:
/// the core links none. One thread at a time may be inside a group; what shall not wait for the
/// others' turn has a duplicate of its own. All calls but abort() are collective: every process
/// makes them in the same order.
class HCTR_API IProcessGroup {
 public:
  virtual ~IProcessGroup();
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  /// Process p gets send_bytes[p] bytes, taken from `in` one after the other; what process p sent,
  /// receive_bytes[p] bytes, lies after what the processes before it sent in `out`. Returns when
  /// `out` is there and `in` may change. Throws CommError naming the process and the cause when one
  /// has died, does not come within `limit_seconds` (0: the job's limit), or has aborted.
  virtual void all_to_all(const void* in, const std::vector<std::size_t>& send_bytes, void* out,
                          const std::vector<std::size_t>& receive_bytes,
                          double limit_seconds = 0.0) = 0;
  /// Seconds that a process waits for another one before the job counts as broken.
  virtual double limit_seconds() const = 0;
  /// The same processes again, with an order of calls of their own. Several may have one name.
  virtual std::shared_ptr<IProcessGroup> duplicate(const std::string& name) = 0;
  /// Makes pending and later calls of all processes and all duplicates throw CommError(reason).
  virtual void abort(const std::string& reason) noexcept = 0;
  /// abort() for what happened in this process, which the others are told beside the cause.
  void abort_from_here(const std::string& cause) noexcept;

  /// `out` becomes the `bytes` bytes of every process, by rank.
  void all_gather(const void* in, std::size_t bytes, void* out, double limit_seconds = 0.0);
  /// Data of any length of every process, by rank.
  std::vector<std::vector<char>> all_gather_any(const std::vector<char>& data);
};

/// What an engine brings. The functions report failure by throwing CommError; abort may not throw.
/// No two duplicates of a group are asked for under the same name.
struct ProcessGroupCallbacks {
  std::size_t rank = 0, size = 1;
  double limit_seconds = 60.0;
  std::function<void(const void* in, const std::vector<std::size_t>& send_bytes, void* out,
                     const std::vector<std::size_t>& receive_bytes, double limit_seconds)>
      all_to_all;
  std::function<ProcessGroupCallbacks(const std::string& name)> duplicate;
  std::function<void(const std::string& reason)> abort;
};

/// Throws InvalidArgument when a function is missing or the rank does not fit.
HCTR_API std::shared_ptr<IProcessGroup> make_process_group(ProcessGroupCallbacks callbacks);

}  // namespace hugectr
