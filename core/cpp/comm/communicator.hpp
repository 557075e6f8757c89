// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

class MemoryResource;
class NodeMap;
class Stream;
struct CollectiveCall;

/// Collectives between the devices of a job. Every call is in stream order, must be made by all
/// ranks in the same order, and returns before it has run. Sums are taken in rank order, so a run
/// repeats bit for bit. Tensors are contiguous. A tensor that can not work throws InvalidArgument
/// at once; ranks that disagree about a collective, its sizes or dtypes all get a CommError naming
/// two of them. After abort() every pending and later call throws CommError with the cause; where
/// work is queued (CPU) the error appears at the stream's synchronize().
class HCTR_API Communicator {
 public:
  virtual ~Communicator();
  virtual std::size_t rank() const = 0;  ///< global device id
  virtual std::size_t size() const = 0;  ///< devices in the job

  /// data (contiguous; float32, float64, float16, bfloat16, int64, int32 or uint32) becomes the sum
  /// over ranks, on every rank. Integer sums wrap around. Sums of 16-bit numbers are taken in
  /// float32 and rounded at the end (CPU) or where a part of the sum is passed on (NCCL).
  virtual void all_reduce(TensorRef data, Stream& stream) = 0;
  /// in holds size() equal blocks; out becomes the sum over ranks of block rank(). dtypes of
  /// all_reduce. out may be block rank() of in.
  virtual void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) = 0;
  /// out becomes the blocks `in` of all ranks, in rank order. Any dtype. in may be block rank() of
  /// out.
  virtual void all_gather(TensorRef in, TensorRef out, Stream& stream) = 0;
  /// Rank r receives send_counts[r] elements, taken from `in` one after the other; what rank r
  /// sent lies after what the ranks before it sent in `out`. Any dtype.
  virtual void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                          const std::vector<std::size_t>& receive_counts, Stream& stream) = 0;
  /// Several of reduce_scatter, all_gather and all_to_all as one: none may write what another reads
  /// or writes. NCCL has them on their way at the same time. The CPU makes them one after the
  /// other.
  virtual void together(const std::vector<CollectiveCall>& calls, Stream& stream) = 0;
  /// data of rank root, on every rank. Any dtype.
  virtual void broadcast(TensorRef data, std::size_t root, Stream& stream) = 0;
  virtual void barrier(Stream& stream) = 0;

  /// Chooses between ways of doing the same by timing them, where there are several. Collective, on
  /// an idle stream. `found`: what was timed, the same on all ranks; empty: it is timed now.
  virtual void tune(Stream&, std::vector<double>&) {}

  /// The nodes of the job, where what the ranks of a node share goes between them once; else null.
  virtual const NodeMap* nodes() const { return nullptr; }

  /// Makes every rank's pending and later calls throw CommError(reason), in all processes.
  virtual void abort(const std::string& reason) noexcept = 0;
  /// The same for the ranks of this process only: how one goes that owes the others nothing.
  virtual void leave(const std::string& reason) noexcept { abort(reason); }
  /// All that its ranks began has ended on all of them, and nothing comes any more: what then ends
  /// needs no abort.
  virtual void rest() noexcept {}
  /// Waits until what abort() or leave() began has ended. Not before all groups of the device that
  /// may wait for the same rank have been left: one may need the others' end.
  virtual void wait_until_left() noexcept {}
  /// Makes the group work again after abort(): one rank calls it for all, while no rank has a call
  /// pending, queued or to come from before. What the aborted calls left in their tensors is not
  /// defined. Throws CommError when there can be no new group.
  virtual void renew() = 0;
};

/// Which process each rank (device) of a job lives in, and what connects the processes.
struct JobRanks {
  std::vector<std::size_t> process_of_rank;
  std::shared_ptr<IProcessGroup> processes;  ///< null: there is one process
};

/// Makes communicators of the local devices with these numbers, for a job of some ranks.
using MakeCommunicators = std::function<std::vector<std::unique_ptr<Communicator>>(
    const std::vector<std::size_t>& local, const JobRanks& job)>;
/// Communicators of a job whose processes are on several nodes, for all local devices: what ranks
/// of a node share goes between nodes once. node_of_process: from 0. `memory`: of each local
/// device. `processes` is duplicated for each part. Collective.
HCTR_API std::vector<std::unique_ptr<Communicator>> make_node_communicators(
    const JobRanks& job, const std::vector<std::size_t>& node_of_process,
    const std::vector<std::shared_ptr<MemoryResource>>& memory, const MakeCommunicators& make);
/// Which node each process is on, from 0: those that give one name are on one. Collective.
HCTR_API std::vector<std::size_t> nodes_of_processes(IProcessGroup& processes,
                                                     const std::string& name);

/// Communicators of the virtual CPU devices of this process, in the order of their ranks. The
/// process group becomes theirs: give each set of communicators a duplicate.
HCTR_API std::vector<std::unique_ptr<Communicator>> make_host_communicators(JobRanks job);

/// One communicator for each of `count` virtual CPU devices, all of this process.
HCTR_API std::vector<std::unique_ptr<Communicator>> make_in_process_communicators(
    std::size_t count);

}  // namespace hugectr
