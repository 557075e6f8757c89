// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// Seconds one device spends in each stage of its steps, from time stamps put into its stream.
class StageClock {
 public:
  enum Stage { kInput, kEmbeddingForward, kDense, kExchangeUpdate, kEmbeddingUpdate, kStages };

  /// Stamps the stream: what follows belongs to the next stage.
  void begin(Stream& stream) {
    stream.submit([state = state_] {
      const std::lock_guard lock(state->mutex);
      state->last = Clock::now();
    });
  }
  /// Stamps the stream: what was submitted since the last stamp was `stage`.
  void end(Stage stage, Stream& stream) {
    stream.submit([state = state_, stage] {
      const std::lock_guard lock(state->mutex);
      const auto now = Clock::now();
      state->seconds[stage] += std::chrono::duration<double>(now - state->last).count();
      state->last = now;
    });
  }
  /// Names and seconds since the last call.
  std::vector<std::pair<std::string, double>> take() {
    static constexpr const char* kNames[kStages] = {"input", "embedding_forward", "dense",
                                                    "exchange_update", "embedding_update"};
    const std::lock_guard lock(state_->mutex);
    std::vector<std::pair<std::string, double>> result;
    for (int i = 0; i < kStages; ++i) result.emplace_back(kNames[i], state_->seconds[i]);
    state_->seconds = {};
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::mutex mutex;
    Clock::time_point last = Clock::now();
    std::array<double, kStages> seconds{};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace hugectr
