// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything a C++ program needs to build and train a model, and to predict with a saved one:
///   #include <hugectr/hugectr.hpp>
/// with find_package(hugectr) and the target hugectr::hugectr. See tests/cpp/install for a program.
#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/checkpoints/saved_model.hpp"
#include "core/cpp/data/memory_format.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/model/session.hpp"
#include "core/cpp/serving/predictor.hpp"
