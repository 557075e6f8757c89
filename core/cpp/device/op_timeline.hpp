// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// One op as a stream ran it.
struct OpTime {
  std::string stream;    ///< name of the timeline
  std::string layer;     ///< of the schedule's record; "" for ops outside it
  std::string op;        ///< kName
  double begin = 0.0;    ///< seconds since the timeline's origin
  double seconds = 0.0;  ///< from the end of the work before it to its own end
};

/// Times every op of a stream by itself, for profiling runs: Stream::set_timeline. While a stream
/// has one, nothing of it is captured. Not for several submitting threads at once.
class HCTR_API OpTimeline {
 public:
  /// `origin` is a stamped mark of the same device; all timelines of a profile share it.
  OpTimeline(std::string name, std::shared_ptr<TimeMark> origin);
  ~OpTimeline();

  /// What the next op belongs to.
  void set_layer(const std::string& layer) { layer_ = layer; }
  void begin(Stream& stream, const char* op);
  void end(Stream& stream);
  /// The ops since the last call, in the order of the stream; waits for them.
  std::vector<OpTime> take();

 private:
  struct Entry {
    std::string layer;
    const char* op;
    std::unique_ptr<TimeMark> begin, end;
  };
  std::string name_, layer_;
  std::shared_ptr<TimeMark> origin_;
  std::vector<Entry> entries_;
};

}  // namespace hugectr
