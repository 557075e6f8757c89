// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/batch_parts.hpp"
#include "core/cpp/data/staging_array.hpp"

namespace hugectr {

/// Where the processes of a job that share the reading give each other their parts of the batches:
///
///   blocks of this process -> parse -> chunk with its part -> exchange -> chunk with the whole
///   (workers, any order)                        (one thread, in sequence order)
///
/// Every exchange begins with a word of each process: here is my part, my data has ended, I was
/// told to stop, I failed. When all have a part the letters follow; at the first other word the
/// pass is over for all of them. So a pass ends with the same exchange everywhere, however far each
/// process was ahead, and the next pass finds the group as a new one. A process that stops waits in
/// its last exchange for the others to come there: they stop at the same point of their program.
class BatchExchange {
 public:
  /// `processes` is a group of its own.
  BatchExchange(std::shared_ptr<IProcessGroup> processes, const InputLayout& layout,
                std::size_t batch_size, ResourceManager& resources);

  IProcessGroup& processes() { return *processes_; }
  /// Of every pass, before the thread that exchanges begins.
  /// No copy of a batch may be running.
  void begin_pass();
  /// The whole batch, made from the parts of all processes, until give_back(); kWholes of them may
  /// be out at a time. Throws what the processes agreed on when one of them has no part.
  CSRChunk* exchange(const CSRChunk& part);
  void give_back(CSRChunk* whole) { free_wholes_.push_back(whole); }
  /// Ends the pass without a batch: this process failed, was stopped, or its data has ended. Does
  /// nothing when the pass is over. Returns the error that all processes agreed on, or null.
  std::exception_ptr leave(std::exception_ptr error, bool stopped) noexcept;

  /// One being copied to the devices, one being made.
  static constexpr std::size_t kWholes = 2;

 private:
  enum Word : std::uint64_t { kPart, kEnd, kStop, kFailed };
  /// What is said before the letters; 16 bytes a sparse input follow.
  struct Greeting {
    std::uint64_t word = kPart;
    std::uint64_t batch = 0;  ///< a digest of what this process thinks the batch is
    std::uint64_t skipped = 0;
    std::uint64_t next_byte = 0;  ///< ReadPosition::byte, when this process knows it
  };
  std::vector<Greeting> greet(const Greeting& mine, const BatchParts::Note& note);
  std::exception_ptr conclude(std::uint64_t word, const std::vector<Greeting>& all,
                              const std::exception_ptr& error);
  void send_letters(const CSRChunk& part);

  std::shared_ptr<IProcessGroup> processes_;
  const InputLayout& layout_;
  const std::size_t batch_size_;
  ThreadPool& pool_;
  BatchParts parts_;
  std::vector<BatchParts::Note> notes_;  ///< one a process
  std::vector<const char*> letters_;     ///< to this process, one a process
  StagingArray outgoing_, incoming_;
  std::vector<CSRChunk> wholes_;
  std::vector<CSRChunk*> free_wholes_;
  bool over_ = true;
};

}  // namespace hugectr
