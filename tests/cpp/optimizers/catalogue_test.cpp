// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/optimizers/catalogue.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace hugectr {
namespace {

std::string message_of(const std::string& optimizer, const std::string& update,
                       const std::map<std::string, double>& fields) {
  try {
    make_opt_params(optimizer, update, true, fields);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Optimizers, NamesAreUniqueAndInTheOrderOfTheEnum) {
  const auto all = describe_optimizers();
  std::set<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(names.insert(all[i].name).second) << all[i].name;
    const OptParams params = make_opt_params(all[i].name, "Local", true, {});
    EXPECT_EQ(static_cast<std::size_t>(params.optimizer), i) << all[i].name;
    EXPECT_EQ(num_states(params), all[i].states.size()) << all[i].name;
  }
  EXPECT_EQ(all.at(static_cast<std::size_t>(Optimizer::Adam)).name, "Adam");
  EXPECT_EQ(all.at(static_cast<std::size_t>(Optimizer::Ftrl)).name, "Ftrl");
  EXPECT_EQ(all.at(static_cast<std::size_t>(Optimizer::RowWiseAdaGrad)).name, "RowWiseAdaGrad");
}

TEST(Optimizers, DefaultsLieInsideTheirBoundsAndFieldsSayWhatTheyAre) {
  for (const auto& entry : describe_optimizers()) {
    EXPECT_FALSE(entry.doc.empty());
    for (const auto& field : entry.fields) {
      EXPECT_FALSE(field.doc.empty()) << entry.name << " " << field.name;
      EXPECT_EQ(message_of(entry.name, "Local", {{field.name, field.initial}}), "");
      EXPECT_EQ(message_of(entry.name, "Local", {{field.name, field.minimum}}), "");
    }
  }
}

TEST(Optimizers, StatesBeginWithAFieldOfTheirOptimizer) {
  std::apply(
      [](const auto&... entry) {
        const auto check = []<class Entry>(Entry e) {
          for (const State& state : Entry::kStates) {
            bool found = state.start == nullptr;
            Entry::visit(e, [&](const Field& field, float) {
              found |= state.start && std::string(field.name) == state.start;
            });
            EXPECT_TRUE(found) << Entry::kName << " " << state.name;
          }
        };
        (check(entry), ...);
      },
      Optimizers{});
  OptParams params = make_opt_params("AdaGrad", "Local", true, {{"initial_accu_value", 0.5}});
  EXPECT_EQ(state_starts(params), std::vector<float>{0.5f});
  params.optimizer = Optimizer::MomentumSGD;  // has no such field
  EXPECT_EQ(state_starts(params), std::vector<float>{0.0f});
}

TEST(Optimizers, WidthsOfStates) {
  OptParams params;
  EXPECT_EQ(state_widths(params, 7), (std::vector<std::size_t>{7, 7}));
  params.optimizer = Optimizer::RowWiseAdaGrad;
  EXPECT_EQ(state_widths(params, 7), std::vector<std::size_t>{1});
  params.optimizer = Optimizer::SGD;
  EXPECT_TRUE(state_widths(params, 7).empty());
}

TEST(Optimizers, WhichRowsMove) {
  using enum Optimizer;
  const auto moves = [](Optimizer optimizer, Update update) {
    OptParams params;
    params.optimizer = optimizer;
    params.update_type = update;
    return sweeps_untouched_rows(params);
  };
  for (const Optimizer optimizer : {Adam, MomentumSGD, Nesterov, RMSProp}) {
    EXPECT_TRUE(moves(optimizer, Update::Global));
    EXPECT_FALSE(moves(optimizer, Update::Local));
    EXPECT_EQ(moves(optimizer, Update::LazyGlobal), optimizer != Adam && optimizer != RMSProp);
  }
  for (const Optimizer optimizer : {SGD, AdaGrad, Ftrl, RowWiseAdaGrad}) {
    for (const Update update : {Update::Local, Update::Global, Update::LazyGlobal}) {
      EXPECT_FALSE(moves(optimizer, update));
    }
  }
}

TEST(Optimizers, OnlyLazyRulesKeepTheLastStep) {
  OptParams params;
  for (std::size_t i = 0; i < std::tuple_size_v<Optimizers>; ++i) {
    params.optimizer = static_cast<Optimizer>(i);
    for (const Update update : {Update::Local, Update::Global, Update::LazyGlobal}) {
      params.update_type = update;
      EXPECT_EQ(keeps_last_step(params),
                (params.optimizer == Optimizer::Adam || params.optimizer == Optimizer::RMSProp) &&
                    update == Update::LazyGlobal);
    }
  }
}

TEST(Optimizers, EveryOneTakesTheAdjustmentsButDecayWhereStatesMakeTheWeights) {
  for (const auto& entry : describe_optimizers()) {
    for (const auto& field : describe_adjustments()) {
      EXPECT_EQ(field.initial, 0.0) << field.name;
      EXPECT_FALSE(field.doc.empty()) << field.name;
      const bool refused = entry.name == "Ftrl" && field.name == "weight_decay";
      EXPECT_EQ(message_of(entry.name, "Local", {{field.name, 0.5}}).empty(), !refused)
          << entry.name << " " << field.name;
      EXPECT_NE(message_of(entry.name, "Local", {{field.name, -0.5}}).find(field.name),
                std::string::npos);
    }
    EXPECT_EQ(entry.decays, entry.name != "Ftrl");
  }
}

TEST(Optimizers, RefusesWhatIsNotInTheCatalogue) {
  EXPECT_NE(message_of("Adm", "Local", {}).find("Adam"), std::string::npos);
  EXPECT_NE(message_of("Adam", "Lazy", {}).find("LazyGlobal"), std::string::npos);
  EXPECT_NE(message_of("Adam", "Local", {{"beta3", 0.5}}).find("beta2"), std::string::npos);
  OptParams params;
  params.optimizer = static_cast<Optimizer>(99);
  EXPECT_THROW(num_states(params), InvalidArgument);
}

TEST(Optimizers, RefusesValuesThatRulesCanNotComputeWith) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> wrong[] = {
      {"beta1", 1.0},  {"beta1", -0.1},          {"beta2", 0.999999999},  // 1 as a float
      {"lambda1", -1}, {"epsilon", 1e39},        {"epsilon", infinity},
      {"beta", -1e-9}, {"lambda2", std::nan("")}};
  for (const auto& [name, value] : wrong) {
    const std::string message = message_of("Adam", "Local", {{name, value}});
    EXPECT_NE(message.find(name), std::string::npos) << name << " " << value;
    EXPECT_NE(message.find(">= 0"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace hugectr
