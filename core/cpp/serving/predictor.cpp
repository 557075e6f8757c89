// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/predictor.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/cpp/model/build.hpp"
#include "core/cpp/model/session_state.hpp"
#include "core/cpp/serving/execution.hpp"
#include "core/cpp/serving/outputs.hpp"
#include "core/cpp/serving/row_sharing.hpp"

namespace hugectr {
namespace {

std::chrono::steady_clock::duration predictor_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

/// An execution that goes back into the pool. One that failed does not: its stream may have.
struct Predictor::Lease {
  const Predictor& owner;
  Key key;
  std::unique_ptr<Execution> execution;
  bool intact = false;

  ~Lease() {
    const std::lock_guard lock(owner.mutex_);
    if (intact) {
      owner.idle_[key].push_back(std::move(execution));
    } else {
      --owner.executions_;
    }
  }
};

/// An output, and its shape and elements of one sample.
struct Predictor::Served {
  Output made_of;
  Shape shape;
  std::size_t width;
};

Predictor::Predictor(Session& session) : Predictor(session.state()) {}

Predictor::Predictor(std::shared_ptr<SessionState> session)
    : session_(std::move(session)),
      no_threads_(std::make_unique<ThreadPool>(1)),
      sharing_(std::make_unique<RowSharing>()) {
  SessionState& s = *session_;
  HCTR_CHECK(s.resources->get_global_gpu_count() == 1,
             "a Predictor is of a session with one device, this one has ",
             s.resources->get_global_gpu_count(), ": build the session with one");
  layout_ = input_layout(s.solver, s.model);
  layout_.label_dim = 0;  // nothing here needs labels
  const std::size_t batch = s.solver.batchsize_eval;
  samples_meet_ = (s.graph->has_eval() ? *s.graph : *graph_of(batch)).samples_meet();
  least_ = samples_meet_ ? batch : 1;
  graph_of(least_);  // what can not be evaluated is refused here
  s.settle();
  const OpContext context = s.resources->get_local_gpu(0).plan_context();
  for (std::size_t t = 0; t < s.tables->size(); ++t) (*s.tables)[t].part(0).make_index(context);
  context.stream->synchronize();
}

Predictor::~Predictor() = default;

const std::vector<std::size_t>& Predictor::sizes() {
  static const std::vector<std::size_t> all{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return all;
}

std::size_t Predictor::executions() const {
  const std::lock_guard lock(mutex_);
  return executions_;
}

std::size_t Predictor::share_of(std::size_t samples, std::size_t batch) const {
  constexpr std::size_t kLeast = 8;   // fewer wait for a core longer than they keep it busy
  constexpr std::size_t kMost = 128;  // the activations of more leave the second-level cache
  ResourceManager& resources = *session_->resources;
  if (samples_meet_ || resources.get_local_gpu(0).device().type != DeviceType::Cpu) return 0;
  const std::size_t threads = resources.pool().size();
  const std::size_t wanted = std::clamp((samples + threads - 1) / threads, kLeast, kMost);
  const std::size_t share = std::min(batch, *std::ranges::lower_bound(sizes(), wanted));
  return share < samples ? share : 0;
}

std::shared_ptr<const NetworkGraph> Predictor::graph_of(std::size_t batch) const {
  const std::lock_guard lock(mutex_);
  auto& graph = graphs_[batch];
  if (!graph) {
    SolverSpec solver = session_->solver;
    solver.batchsize_eval = batch;
    ModelSpec model = session_->model;
    model.trains = false;
    graph = make_graph(solver, model, *session_->resources, true);
  }
  return graph;
}

std::unique_ptr<Execution> Predictor::take(const Key& key) const {
  {
    const std::lock_guard lock(mutex_);
    ++executions_;
    auto& idle = idle_[key];
    if (!idle.empty()) {
      --executions_;
      std::unique_ptr<Execution> found = std::move(idle.back());
      idle.pop_back();
      return found;
    }
  }
  try {
    ThreadPool& pool = key.alone ? *no_threads_ : session_->resources->pool();
    return std::make_unique<Execution>(*session_, graph_of(key.batch), layout_, pool);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --executions_;
    throw;
  }
}

std::vector<float> Predictor::predict(const MemoryView& samples, const std::string& output,
                                      std::size_t batch_size) const {
  const SessionState::Call call(*session_);
  const bool shared = samples.samples == 1 && shares_row();
  const std::uint64_t helped = session_->resources->pool().helped();
  check_memory_data(samples, layout_);
  const Served& wanted = served(output);
  const std::size_t n = samples.samples, width = wanted.width;
  std::vector<float> values(n * width);
  const auto run_piece = [&](const Key& key, std::size_t first, std::size_t count) {
    Lease lease{*this, key, take(key)};
    lease.execution->run(samples, first, count, wanted.made_of.tensor,
                         values.data() + first * width);
    lease.intact = true;
  };
  std::size_t batch = batch_size > 0 ? batch_size : session_->solver.batchsize_eval;
  const std::size_t share = share_of(n, batch);
  if (share > 0) batch = share;
  const std::size_t whole = batch_size > 0 || share > 0 ? (n + batch - 1) / batch : n / batch;
  if (whole == 1) {
    run_piece({batch, false}, 0, std::min(n, batch));
  } else if (whole > 1) {
    // Batches side by side share the cores better than the loops of one.
    session_->resources->pool().run_chunks(whole, [&](std::size_t i) {
      run_piece({batch, true}, i * batch, std::min(batch, n - i * batch));
    });
  }
  if (const std::size_t done = std::min(n, whole * batch); done < n) {
    const auto next = std::ranges::lower_bound(sizes(), n - done);
    const bool as_asked = samples_meet_ || next == sizes().end() || *next > batch;
    const std::size_t size = as_asked ? batch : *next;
    run_piece({size, size == 1 && !shared}, done, n - done);
  }
  predict_rows(wanted.made_of, values);
  if (shared) sharing_->shared(session_->resources->pool().helped() > helped);
  ended_at_.store(predictor_time(), std::memory_order_relaxed);
  return values;
}

bool Predictor::shares_row() const {
  // Longer than what lies between two calls, shorter than a thread of the pool waits awake.
  constexpr std::chrono::microseconds kClosely{100};
  ResourceManager& resources = *session_->resources;
  ThreadPool& pool = resources.pool();
  const bool closely = pool.size() > 1 && session_->calls == 1 &&
                       predictor_time() - ended_at_.load(std::memory_order_relaxed) < kClosely &&
                       resources.get_local_gpu(0).device().type == DeviceType::Cpu;
  if (!closely) return false;
  const RowSharing::Way way = sharing_->next(pool.awake() > 0);
  if (way == RowSharing::Way::Rouse) pool.rouse();
  return way == RowSharing::Way::Shared;
}

const Predictor::Served& Predictor::served(const std::string& output) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(output);
    if (found != served_.end()) return found->second;
  }
  const Output made_of = output_of(output, *graph_of(least_));
  const Key key{least_, true};
  Lease lease{*this, key, take(key)};
  const Shape shape = lease.execution->shape_of(made_of.tensor);
  lease.intact = true;
  const std::lock_guard lock(mutex_);
  return served_.try_emplace(output, made_of, shape, num_elements(shape)).first->second;
}

Shape Predictor::sample_shape(const std::string& output) const { return served(output).shape; }

}  // namespace hugectr
