// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/comm/rendezvous.hpp"

namespace hugectr {

/// What the CPU ranks of one process share. Inside the process they look into each other's buffers;
/// what ranks of other processes send is exchanged by one of them into memory of the group, and
/// looks the same to the one who reads it.
class HostGroup {
 public:
  explicit HostGroup(JobRanks job);

  /// One rank's view of a collective under way.
  struct View {
    HostGroup& group;
    std::size_t rank;
    const CollectiveCall& own() const { return group.calls_[rank]; }
    /// First element of what `source` sends to this rank (its whole input where all get the same).
    const char* from(std::size_t source) const { return group.piece_of(source, rank); }
    std::size_t size() const { return group.calls_.size(); }
    /// Ranks of this process, whose buffers may be written.
    const std::vector<std::size_t>& local_ranks() const { return group.local_ranks(); }
    const CollectiveCall& local_call(std::size_t r) const { return group.calls_[r]; }
  };

  /// The collective of one rank, in its stream: waits for the others, checks that all mean the
  /// same, and runs `work` while all buffers are there. Throws CommError.
  void run(std::size_t rank, const CollectiveCall& call,
           const std::function<void(const View&)>& work);
  /// For all ranks of the job.
  void abort(const std::string& reason) noexcept;
  /// For the ranks of this process only.
  void leave(const std::string& reason) noexcept { rendezvous_.abort(reason); }
  void renew();

  std::size_t size() const { return job_.process_of_rank.size(); }
  const std::vector<std::size_t>& local_ranks() const { return ranks_of_[process_]; }

 private:
  /// Elements [offset, offset + count) of a rank's input.
  struct Piece {
    std::size_t offset = 0, count = 0;
  };
  static JobRanks checked(JobRanks job);
  bool spans_processes() const { return ranks_of_.size() > 1; }
  Piece piece(std::size_t source, std::size_t target) const;
  bool same_for_all() const;
  const char* piece_of(std::size_t source, std::size_t target) const;
  void exchange();
  void exchange_calls();
  void exchange_data();

  JobRanks job_;
  std::size_t process_;
  std::vector<std::vector<std::size_t>> ranks_of_;  ///< [process]
  Rendezvous rendezvous_;
  std::vector<CollectiveCall> calls_;  ///< [rank], of the collective under way
  // Written by one rank while the others wait.
  std::exception_ptr error_;
  std::vector<char> sent_, received_;
  std::vector<std::vector<std::size_t>> place_;  ///< [source][target]: offset in received_
};

}  // namespace hugectr
