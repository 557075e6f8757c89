// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// A point in a stream's work that other streams and threads can wait for.
class HCTR_API Event {
 public:
  virtual ~Event();
  /// Blocks the calling thread until the work before the last record() is done.
  /// An event never recorded counts as done.
  virtual void synchronize() = 0;
};

/// Work of a stream recorded once, to be submitted again as a whole with one call.
class HCTR_API CapturedWork {
 public:
  virtual ~CapturedWork();
  /// Submits the work to the stream it was captured from, with the addresses and attributes it had
  /// then.
  virtual void replay() = 0;
};

/// A moment in a stream's work, for measuring.
class HCTR_API TimeMark {
 public:
  virtual ~TimeMark();
  /// Seconds of the device's clock (the host's on the CPU) from the last stamp of `earlier`, a mark
  /// of the same device, to the last stamp of this one. Waits until the work has come to both.
  virtual double seconds_since(TimeMark& earlier) = 0;
};

class OpTimeline;

/// Whose work a device takes up first when several streams wait for room on it.
enum class StreamPriority { Normal, High };

/// In-order queue of work of one device. On CUDA a cudaStream_t; on a virtual CPU device a real
/// queue with a thread of its own, so that a missing event shows there too.
/// HUGECTR_STREAM_DELAY_US=n puts a random pause of up to n microseconds before every CPU entry.
class HCTR_API Stream {
 public:
  virtual ~Stream();
  virtual DeviceId device() const = 0;

  /// Runs `task` in stream order. On CPU it is queued and runs on the stream's thread; on CUDA it
  /// runs at once in the calling thread and is expected to launch its work on the native stream.
  /// An exception of a queued task makes every later one a no-op until synchronize() rethrows it.
  virtual void submit(std::function<void()> task) = 0;

  /// Like submit(), but when the task becomes a no-op because an earlier one failed, `skipped` is
  /// called in its place with the text of that error: how a collective tells the other ranks that
  /// this one will never come. Streams that run tasks at once never skip one.
  virtual void submit_or_else(std::function<void()> task,
                              std::function<void(const std::string&)> skipped);

  /// In-order copy between any two places this device can address.
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  /// Copies `bytes` (at most 256) from host memory that may change as soon as the call returns.
  virtual void copy_scalars(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void fill_zero(void* dst, std::size_t bytes) = 0;

  /// Records what `submit` puts into this stream instead of running it; everything must come from
  /// the calling thread. nullptr, without having called `submit`, where a stream can not. Throws
  /// what `submit` throws, and DeviceError for work that can not be captured; nothing has run then.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& submit);

  virtual std::unique_ptr<TimeMark> create_time_mark();
  virtual void stamp(TimeMark& mark);

  virtual void record(Event& event) = 0;
  /// Later work of this stream waits for the last record() of `event`.
  virtual void wait(Event& event) = 0;
  /// Blocks until all work is done; rethrows the first error of a queued task, once.
  virtual void synchronize() = 0;
  /// Whether synchronize() would throw what is already known; waits for nothing.
  virtual bool has_failed() const { return false; }
  /// Native handle (cudaStream_t) or nullptr.
  virtual void* native() { return nullptr; }

  /// Where the ops of this stream are timed one by one; nullptr: nowhere, as in a normal run. Set
  /// it while nothing is submitted.
  void set_timeline(std::shared_ptr<OpTimeline> timeline) { timeline_ = std::move(timeline); }
  OpTimeline* timeline() const { return timeline_.get(); }

 private:
  std::shared_ptr<OpTimeline> timeline_;
};

}  // namespace hugectr
