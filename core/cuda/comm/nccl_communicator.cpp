// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/nccl_communicator.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/message_plan.hpp"
#include "core/cpp/device/work_counts.hpp"
#include "core/cuda/comm/call_agreement.hpp"
#include "core/cuda/comm/collective_watch.hpp"
#include "core/cuda/comm/nccl.hpp"
#include "core/cuda/comm/nccl_calls.hpp"
#include "core/cuda/device/copy_pieces.hpp"
#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {
namespace {

/// One local device's part of the group.
struct Rank {
  Rank() = default;
  ~Rank() { HCTR_TRY_NOTHROW(cudaFree(barrier)); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int device = 0;
  std::size_t global = 0;  ///< rank in the job
  ncclComm_t comm = nullptr;
  void* barrier = nullptr;  ///< one int32, what a barrier sums
  std::timed_mutex mutex;   ///< held during a call on comm
};

/// The ranks of this process, numbered in the job.
std::vector<std::size_t> local_ranks(const JobRanks& job) {
  const std::size_t process = job.processes ? job.processes->rank() : 0;
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < job.process_of_rank.size(); ++r) {
    if (job.process_of_rank[r] == process) ranks.push_back(r);
  }
  return ranks;
}

struct Group {
  Group(const std::vector<int>& devices, const JobRanks& job_ranks)
      : ranks(devices.size()), job(job_ranks), agreement(local_ranks(job_ranks)) {
    std::size_t local = 0;
    for (const std::size_t global : local_ranks(job)) ranks.at(local++).global = global;
    for (std::size_t r = 0; r < devices.size(); ++r) {
      const DeviceGuard guard(devices[r]);
      ranks[r].device = devices[r];
      HCTR_TRY(cudaMalloc(&ranks[r].barrier, sizeof(int)));
      HCTR_TRY(cudaMemset(ranks[r].barrier, 0, sizeof(int)));
    }
    make_comms();
    if (job.processes) watch_processes();
  }
  ~Group() {
    if (watch) watch->stop();
    // Where all ranks are done an abort is not needed: it takes a quarter of a second a rank, four
    // times what this takes. Other processes may still wait for the last of what this one sends.
    if ((job.processes || at_rest) && !failure->failed()) {
      for (Rank& rank : ranks)
        HCTR_TRY_NOTHROW(nccl().CommDestroy(std::exchange(rank.comm, nullptr)));
    }
    wait_for_end();
    end_comms();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::size_t size() const { return job.process_of_rank.size(); }

  void abort(const std::string& reason) noexcept {
    if (job.processes) job.processes->abort_from_here(reason);
    leave(reason);
  }

  void leave(const std::string& reason) noexcept {
    const std::lock_guard lock(ending);
    if (failure->set(reason)) start_end();
  }

  void wait_until_left() noexcept {
    const std::lock_guard lock(ending);
    wait_for_end();
  }

  void rest() noexcept {
    at_rest = true;
    if (watch) watch->stop();
  }

  void renew() {
    if (job.processes) {
      throw CommError(
          "a job of several processes can not go on after a failed collective: start it again from "
          "its last checkpoint");
    }
    const std::lock_guard lock(ending);
    failure->set("the group was renewed");
    wait_for_end();
    end_comms();
    agreement.reset();
    make_comms();
    failure = std::make_shared<StreamFailure>();  // streams that watch the old one report it, once
  }

  std::vector<Rank> ranks;  ///< of this process
  JobRanks job;
  CallAgreement agreement;
  std::shared_ptr<StreamFailure> failure = std::make_shared<StreamFailure>();
  std::unique_ptr<CollectiveWatch> watch;  ///< null when there is one process
  std::atomic<bool> at_rest = false;       ///< nobody will wait in a collective any more

 private:
  std::mutex ending;       ///< aborts and renewals take turns
  ThreadGroup end{[] {}};  ///< calls end_comms() after an abort

  /// Who waits for a process that hangs finds out by asking all: those that wait too answer, about
  /// half of the job's limit after the last collective ended.
  void watch_processes() {
    const auto asking = std::shared_ptr<IProcessGroup>(job.processes->duplicate("watch"));
    const double limit = job.processes->limit_seconds();
    const auto overdue = [this, asking, limit](const std::string& what) {
      std::string reason;
      try {
        const char here = 1;
        std::vector<char> all(asking->size());
        asking->all_gather(&here, 1, all.data(), 0.4 * limit);
        reason = concat("the GPUs of all processes wait in ", what, " of one another for ",
                        limit / 2, " s: a GPU or the link between them hangs");
      } catch (const CommError& error) {
        reason = concat(what, " of the GPUs has waited for ", limit / 2, " s: ", error.what());
      } catch (const std::exception& error) {
        reason = concat(what, " of the GPUs does not end: ", error.what());
      }
      abort(reason);
    };
    watch = std::make_unique<CollectiveWatch>(ranks.size(), limit / 2, overdue);
  }

  void make_comms() {
    if (job.processes) return make_comms_of_job();
    std::vector<ncclComm_t> comms(ranks.size());
    std::vector<int> devices;
    for (const Rank& rank : ranks) devices.push_back(rank.device);
    HCTR_TRY(nccl().CommInitAll(comms.data(), static_cast<int>(comms.size()), devices.data()));
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].comm = comms[r];
  }

  /// All processes at the same time.
  void make_comms_of_job() {
    ncclUniqueId id{};
    if (job.processes->rank() == 0) HCTR_TRY(nccl().GetUniqueId(&id));
    std::vector<ncclUniqueId> ids(job.processes->size());
    job.processes->all_gather(&id, sizeof(id), ids.data());
    HCTR_TRY(nccl().GroupStart());
    ncclResult_t status = ncclSuccess;
    for (Rank& rank : ranks) {
      const DeviceGuard guard(rank.device);
      const ncclResult_t result = nccl().CommInitRank(&rank.comm, static_cast<int>(size()), ids[0],
                                                      static_cast<int>(rank.global));
      if (status == ncclSuccess) status = result;
    }
    const ncclResult_t ended = nccl().GroupEnd();  // also after an error
    check_status(status == ncclSuccess ? ended : status, "ncclCommInitRank", __FILE__, __LINE__);
  }

  /// Ends what runs and frees the handles that are left. Destroying them would wait for ranks that
  /// may never come.
  void end_comms() noexcept {
    for (Rank& rank : ranks) {
      // A call that does not return waits for a rank that will not come; NCCL lets it be aborted.
      const bool locked = rank.mutex.try_lock_for(std::chrono::seconds(1));
      if (ncclComm_t comm = std::exchange(rank.comm, nullptr)) {
        HCTR_TRY_NOTHROW(nccl().CommAbort(comm));
      }
      if (locked) rank.mutex.unlock();
    }
  }

  /// The same on a thread of its own. Aborted collectives end at once, but then NCCL frees memory,
  /// and CUDA lets that wait until the device is idle. It is not while collectives of other groups
  /// wait for the same rank: whoever has those to abort too must not wait here.
  void start_end() noexcept {
    try {
      end.start("hctr-nccl-end", [this] { end_comms(); });
    } catch (...) {  // no thread to be had
      end_comms();
    }
  }
  void wait_for_end() noexcept { end.join(); }
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::size_t local, std::shared_ptr<Group> group)
      : local_(local), group_(std::move(group)) {}

  std::size_t rank() const override { return group_->ranks[local_].global; }
  std::size_t size() const override { return group_->size(); }

  void all_reduce(TensorRef data, Stream& stream) override {
    check_all_reduce(data);
    run(stream, {.collective = "all_reduce", .in = data}, [&](ncclComm_t comm, cudaStream_t to) {
      HCTR_TRY(nccl().AllReduce(data.data, data.data, data.size(), nccl_type(data.dtype), ncclSum,
                                comm, to));
    });
  }

  void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) override {
    check_reduce_scatter(in, out, size());
    run(stream, {.collective = "reduce_scatter", .in = in, .out = out},
        [&](ncclComm_t comm, cudaStream_t to) {
          HCTR_TRY(nccl().ReduceScatter(in.data, out.data, out.size(), nccl_type(in.dtype), ncclSum,
                                        comm, to));
        });
  }

  void all_gather(TensorRef in, TensorRef out, Stream& stream) override {
    check_all_gather(in, out, size());
    run(stream, {.collective = "all_gather", .in = in, .out = out},
        [&](ncclComm_t comm, cudaStream_t to) {
          HCTR_TRY(nccl().AllGather(in.data, out.data, in.size_in_bytes(), ncclUint8, comm, to));
        });
  }

  void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                  const std::vector<std::size_t>& receive_counts, Stream& stream) override {
    check_all_to_all(in, send_counts, out, receive_counts, size());
    run(stream, all_to_all_call(in, send_counts, out, receive_counts),
        [&](ncclComm_t comm, cudaStream_t to) {
          NcclGroup group("all_to_all by ncclSend and ncclRecv");
          group.keep(start_all_to_all(in, send_counts, out, receive_counts, comm, to));
          group.end();
        });
  }

  void together(const std::vector<CollectiveCall>& calls, Stream& stream) override {
    for (const CollectiveCall& call : calls) check_call(call, size());
    if (calls.empty()) return;
    MessagePlan messages(calls, rank(), size());
    const int device = group_->ranks[local_].device;
    const DeviceGuard guard(device);
    const OpContext context{.stream = &stream, .device = {DeviceType::Cuda, device}};
    const Scratch packed(context, messages.bytes());
    messages.place(static_cast<char*>(packed.data()));
    copy_pieces(context, "pack_messages", messages.before());
    run(stream, calls, [&](ncclComm_t comm, cudaStream_t to) {
      NcclGroup group("collectives together");
      for (const CollectiveCall& call : calls) group.keep(start(call, comm, to));
      group.keep(start(messages, comm, to));
      group.end();
    });
    // After the collective is watched: HUGECTR_SYNC=1 waits for each launch.
    copy_pieces(context, "unpack_messages", messages.after());
  }

  void broadcast(TensorRef data, std::size_t root, Stream& stream) override {
    check_broadcast(data, root, size());
    run(stream, {.collective = "broadcast", .in = data, .root = root},
        [&](ncclComm_t comm, cudaStream_t to) {
          HCTR_TRY(nccl().Broadcast(data.data, data.data, data.size_in_bytes(), ncclUint8,
                                    static_cast<int>(root), comm, to));
        });
  }

  void barrier(Stream& stream) override {
    void* const element = group_->ranks[local_].barrier;
    run(stream, {.collective = "barrier"}, [&](ncclComm_t comm, cudaStream_t to) {
      HCTR_TRY(nccl().AllReduce(element, element, 1, ncclInt32, ncclSum, comm, to));
    });
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }
  void leave(const std::string& reason) noexcept override { group_->leave(reason); }
  void rest() noexcept override { group_->rest(); }
  void wait_until_left() noexcept override { group_->wait_until_left(); }
  void renew() override { group_->renew(); }

 private:
  template <class F>
  void run(Stream& stream, CollectiveCall call, F&& launch) {
    run(stream, std::vector{std::move(call)}, std::forward<F>(launch));
  }
  /// One collective, or several together.
  template <class F>
  void run(Stream& stream, std::vector<CollectiveCall> calls, F&& launch) {
    throw_if_failed();
    count_collective();
    CudaStream& to = cuda_stream(stream);
    Rank& rank = group_->ranks[local_];
    const char* const name = calls.front().collective;
    try {
      group_->agreement.enter(local_, std::move(calls));
    } catch (const CommError& error) {
      group_->abort(error.what());
      throw;
    }
    const DeviceGuard guard(rank.device);
    const std::lock_guard lock(rank.mutex);
    throw_if_failed();  // an abort may have taken the handle while this call waited for the lock
    try {
      launch(rank.comm, static_cast<cudaStream_t>(to.native()));
      to.watch(group_->failure);  // a launch that throws has told the failure: once is enough
      if (group_->watch) {
        group_->watch->launched(local_, name, static_cast<cudaStream_t>(to.native()));
      }
    } catch (const CommError&) {
      throw_if_failed();  // the cause says more than NCCL's complaint about the abort
      throw;
    }
  }

  void throw_if_failed() const {
    if (group_->failure->failed()) throw CommError(group_->failure->text());
  }

  std::size_t local_;  ///< among the devices of this process
  std::shared_ptr<Group> group_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<int>& devices,
                                                                   const JobRanks& job) {
  auto group = std::make_shared<Group>(devices, job);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t local = 0; local < devices.size(); ++local) {
    communicators.push_back(std::make_unique<NcclCommunicator>(local, group));
  }
  return communicators;
}

}  // namespace hugectr::cuda
