// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "tests/cpp/comm/thread_process_groups.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {
namespace {

/// What a job leaves behind.
struct Outcome {
  std::vector<float> losses;
  std::vector<float> dense;
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys;  ///< (slot, key), sorted
};

using Rows = std::vector<std::vector<int>>;

/// Runs f(process, group) in `count` processes that are threads of this one.
void in_processes(std::size_t count,
                  const std::function<void(std::size_t, std::shared_ptr<IProcessGroup>)>& f) {
  const auto groups = ThreadProcessGroup::make(count);
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < count; ++p) processes.emplace_back([&, p] { f(p, groups[p]); });
  for (auto& process : processes) process.join();
}

SolverSpec solver_for(const Rows& vvgpu) {
  SolverSpec solver = small_solver(1);
  solver.vvgpu = vvgpu;
  solver.metrics = {"AUC", "AverageLoss", "LogLoss", "Calibration"};
  solver.repeat_dataset = false;
  return solver;
}

/// The outcome of every process.
std::vector<Outcome> train(const Rows& vvgpu, EmbeddingType type, Optimizer optimizer) {
  const auto data = random_data(24 * 20 - 7, 3), eval_data = random_data(24 * 4 - 5, 4);
  std::vector<Outcome> outcomes(vvgpu.size());
  in_processes(vvgpu.size(), [&](std::size_t p, std::shared_ptr<IProcessGroup> group) {
    ReaderSpec reader;
    reader.memory = data;
    reader.eval_memory = eval_data;
    reader.num_workers = 2;
    Session session(solver_for(vvgpu), reader, small_model(type, optimizer), group);
    Outcome& outcome = outcomes[p];
    while (session.train()) outcome.losses.push_back(session.get_current_loss());
    while (session.eval()) {
    }
    outcome.metrics = session.get_eval_metrics();
    outcome.dense = session.network().dense_weights();
    const BufferBag bag = session.table(0).dump(false);
    for (std::size_t i = 0; i < bag.size(); ++i) {
      outcome.keys.emplace_back(bag.slot_ids.empty() ? 0 : bag.slot_ids[i], bag.keys[i]);
    }
  });
  return outcomes;
}

class Layouts : public testing::TestWithParam<std::tuple<Rows, EmbeddingType, Optimizer>> {};

TEST_P(Layouts, AJobOfProcessesIsTheJobOfOneToTheBit) {
  const auto& [vvgpu, type, optimizer] = GetParam();
  std::vector<int> all;
  for (const auto& row : vvgpu) {
    for (std::size_t i = 0; i < row.size(); ++i) all.push_back(static_cast<int>(all.size()));
  }
  const Outcome one = train({all}, type, optimizer).front();
  ASSERT_EQ(one.losses.size(), 20u);
  const std::vector<Outcome> many = train(vvgpu, type, optimizer);
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys;
  for (const Outcome& outcome : many) {
    EXPECT_EQ(outcome.losses, one.losses);
    EXPECT_EQ(outcome.metrics, one.metrics);
    EXPECT_EQ(outcome.dense, one.dense);
    EXPECT_LT(outcome.keys.size(), one.keys.size()) << "a process dumps its own rows";
    keys.insert(keys.end(), outcome.keys.begin(), outcome.keys.end());
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, one.keys);
}

constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;
INSTANTIATE_TEST_SUITE_P(Session, Layouts,
                         testing::Combine(testing::Values(Rows{{0}, {0}}, Rows{{0, 1}, {0, 1}},
                                                          Rows{{0}, {0, 1}},
                                                          Rows{{0}, {0}, {0}, {0}}),
                                          testing::Values(kDistributed, kLocalized),
                                          testing::Values(Optimizer::SGD, Optimizer::Adam)));

TEST(SessionProcesses, AnErrorOfOneEndsAllNamingItsProcess) {
  // Localized, and a budget that one owner's slot does not fit: only that process runs out.
  const auto data = random_data(24 * 30, 3);
  std::vector<std::string> errors(3);
  in_processes(3, [&](std::size_t p, std::shared_ptr<IProcessGroup> group) {
    ReaderSpec reader;
    reader.memory = data;
    SolverSpec solver = small_solver(1);
    solver.vvgpu = {{0}, {0}, {0}};
    ModelSpec model = small_model(kLocalized, Optimizer::SGD);
    model.embeddings[0].slot_size_array = {1000, 30, 1000};  // slot 1 has 40 keys
    try {
      Session session(solver, reader, model, group);
      for (int i = 0; i < 30; ++i) session.train();
      session.get_current_loss();
    } catch (const std::exception& e) {
      errors[p] = e.what();
    }
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("'emb'"), std::string::npos) << error;
  EXPECT_NE(errors[0].find("process 1"), std::string::npos) << errors[0];
  EXPECT_NE(errors[2].find("process 1"), std::string::npos) << errors[2];
}

}  // namespace
}  // namespace hugectr
