// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/metrics/auc.hpp"
#include "core/cpp/metrics/average_loss.hpp"
#include "core/cpp/metrics/calibration.hpp"
#include "core/cpp/metrics/log_loss.hpp"

/// The catalogue of metrics: the one list that ops and kernels are made from and that Python is
/// told. Values are reported in its order.
namespace hugectr {

using Metrics =
    std::tuple<metrics::Auc, metrics::AverageLoss, metrics::LogLoss, metrics::Calibration>;

HCTR_API std::vector<EntryDescription> describe_metrics();

}  // namespace hugectr
