// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/metrics/accuracy.hpp"
#include "core/cpp/metrics/auc.hpp"
#include "core/cpp/metrics/average_loss.hpp"
#include "core/cpp/metrics/calibration.hpp"
#include "core/cpp/metrics/gauc.hpp"
#include "core/cpp/metrics/hit_rate.hpp"
#include "core/cpp/metrics/log_loss.hpp"
#include "core/cpp/metrics/mse.hpp"
#include "core/cpp/metrics/ndcg.hpp"
#include "core/cpp/metrics/smape.hpp"

/// The catalogue of metrics: the one list that ops and kernels are made from and that Python is
/// told. Values are reported in its order.
namespace hugectr {

using Metrics = std::tuple<metrics::Auc, metrics::AverageLoss, metrics::LogLoss,
                           metrics::Calibration, metrics::HitRate, metrics::Ndcg, metrics::Smape,
                           metrics::Gauc, metrics::Mse, metrics::Accuracy>;

HCTR_API std::vector<EntryDescription> describe_metrics();

}  // namespace hugectr
