// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/cpp/base/task_thread.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/embedding/collection/shared_communicator.hpp"
#include "core/cpp/embedding/collection/table_sharing.hpp"

namespace hugectr {

/// Has what the processes of a TableSharing send each other travel between their devices, and a
/// thread submit that together with what makes it and what is made of it, while the caller goes on:
///
///   give        rows that others asked for -> their vectors go out, and those asked for come
///   accumulate  sums of gradients by row   -> go out, and what comes is kept for the next update;
///               and the keys of a batch ahead go to their owners, who begin its plan
///
/// All processes make the same calls in the same order. One call at a time: from then until
/// settle() nobody calls the sharing or its tables but for ask() and count() of other batches, and
/// all memory of the call stays. TableSharing::check() and make_room() come before, so that all can
/// be told when one of them has no batch or no memory: what fails once others count on it ends the
/// communicator, and they get a CommError. `stream` as in TableSharing.
class HCTR_API TableExchange {
 public:
  /// Of each group of the sharing, (rows, d): what goes out, and what comes.
  struct Messages {
    std::vector<TensorRef> out, came;
  };

  /// A batch ahead, answered (TableSharing::answer), whose keys travel along with another call.
  struct KeysAhead {
    SharedBatch* batch = nullptr;  ///< null: there is none
    TensorRef out;   ///< int64 as TableSharing::ask() and copy_to_all() left them, on `stream`
    TensorRef came;  ///< (sum of batch.given) int64, kept until the batch is released
    std::uintptr_t stream = 0;
  };

  /// communicator: of the sharing's processes and device; other exchanges may use it too.
  TableExchange(TableSharing& sharing, SharedCommunicator& communicator);
  ~TableExchange();

  /// Messages are float32, float16 or bfloat16; the batch has been checked (TableSharing::check).
  void give(const SharedBatch& batch, Messages messages, std::uintptr_t stream);
  /// messages.out: of TableSharing::sum_gradients(), which the caller submits, for it reads what
  /// may be others' once that has returned. float32 or bfloat16. What is wrong with the plan of the
  /// batch ahead is that batch's failure (SharedBatch).
  void accumulate(const SharedBatch& batch, Messages messages, std::uintptr_t stream,
                  KeysAhead ahead);
  /// Until the call before has been submitted, if there is one; the stream's later work comes after
  /// it. Throws what went wrong, once.
  void settle(std::uintptr_t stream);

 private:
  using Place = SharedCommunicator::Place;

  /// Has the thread do it, behind what the caller's stream holds.
  void begin(std::uintptr_t stream, std::function<void(std::uintptr_t own, Place&)> work);
  /// `more`: what else travels.
  void carry(const Messages& messages, const ProcessRows& sent, const ProcessRows& taken,
             std::vector<CollectiveCall> more, Place& place);

  /// Begins the plan of keys that came by the compute stream.
  void plan(SharedBatch& batch, const TensorRef& came);

  TableSharing& sharing_;
  Stream& compute_;
  SharedCommunicator& communicator_;
  bool begun_ = false;
  TaskThread thread_;
};

}  // namespace hugectr
