// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_staging.hpp"

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/several.hpp"

namespace hugectr {

namespace {

/// Moves below it are short beside any step.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

}  // namespace

RowStaging::Mover RowStaging::mover_of(DeviceType type) {
  const char* const text = std::getenv("HUGECTR_MOVE_ROWS");
  const std::string word = text ? text : "";
  // What computes on the CPU are the same threads.
  if (word.empty() && type == DeviceType::Cpu) return Mover::Device;
  if (word == "device") return Mover::Device;
  if (word == "host") return Mover::Host;
  HCTR_CHECK(word.empty() || word == "auto", "HUGECTR_MOVE_ROWS is '", word,
             "': device, host or auto (both are tried, and the faster is kept) are allowed");
  return Mover::Faster;
}

RowStaging::RowStaging(GPUResource& gpu)
    : gpu_(gpu), mover_(mover_of(gpu.device().type)), by_host_(gpu), taken_(gpu.create_event()) {
  for (std::shared_ptr<Event>& event : moved_) event = gpu.create_event();
}

std::vector<StagedRows> RowStaging::stage(std::size_t plan, std::span<const Rows> tables) {
  const OpContext context = gpu_.plan_context();
  StagingOps ops;
  bool wait = false;
  for (const Rows& table : tables) {
    wait |= table.store->prepare(context, plan, table.numbers, ops);
  }
  run_several(context, std::move(ops.releases));
  run_several(context, std::move(ops.finds));
  run_several(context, std::move(ops.ranks));
  if (wait) context.stream->synchronize();
  for (const Rows& table : tables) table.store->take(context, plan, table.numbers, ops);
  run_several(context, std::move(ops.takes));
  move(ops, plan, tables);
  std::vector<StagedRows> staged;
  staged.reserve(tables.size());
  for (const Rows& table : tables) {
    staged.push_back(table.store->stage(plan, table.size, table.numbers, ops));
  }
  run_several(context, std::move(ops.places));
  return staged;
}

bool RowStaging::is_for_host(std::span<const MoveRows> moves, bool train) {
  if (mover_ == Mover::Device) return false;
  if (mover_ == Mover::Faster) {
    if (!train || bytes_of(moves) < kLeastBytes) {
      host_is_faster_.interrupt();
      return false;
    }
    if (!host_is_faster_.second(FasterWay::Clock::now())) return false;
  }
  if (!MovesByHost::takes(moves)) return false;
  try {
    by_host_.make_room(moves);
  } catch (const OutOfMemory&) {  // what the device needs it has
    mover_ = Mover::Device;
    return false;
  }
  return true;
}

void RowStaging::move(StagingOps& ops, std::size_t plan, std::span<const Rows> tables) {
  if (ops.moves.empty() && ops.host_moves.empty()) return;
  const bool by_host = is_for_host(ops.moves, tables.front().numbers.train);
  // On a stream of its own: the next plan looks for its rows while these are on their way. Who
  // used the places that are given has been waited for by the plan stream.
  gpu_.plan_stream().record(*taken_);
  const OpContext moving = gpu_.move_context();
  moving.stream->wait(*taken_);
  // The maps of all tables say by now that the rows are where they are going: a move that fails
  // keeps no other from being made.
  std::exception_ptr failed;
  if (by_host) {
    by_host_.move(moving, ops.moves);
  } else {
    run_several(moving, std::move(ops.moves));
  }
  for (const auto& host_move : ops.host_moves) {
    try {
      host_move(moving);
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  last_moved_ = 1 - last_moved_;
  moving.stream->record(*moved_[last_moved_]);
  for (const Rows& table : tables) table.store->moving(plan, moved_[last_moved_]);
  if (failed) std::rethrow_exception(failed);
}

}  // namespace hugectr
