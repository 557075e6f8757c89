// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/loss_watch.hpp"

#include <algorithm>
#include <cmath>

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/model/non_finite_loss.hpp"

namespace hugectr {

// Key function, as of the errors of core/cpp/base/error.hpp.
NonFiniteLoss::~NonFiniteLoss() = default;

namespace {

constexpr std::size_t kPlaces = static_cast<std::size_t>(LossWatch::kWindow);

std::size_t place_of(std::int64_t step) {
  return static_cast<std::size_t>(step % LossWatch::kWindow);
}

TensorBag2 floats(const std::string& owner, const std::shared_ptr<MemoryResource>& resource) {
  const auto arena = DeviceBuffer2::create(owner, DeviceAllocator(resource));
  TensorBag2 bag = arena->reserve({kPlaces}, TensorScalarType::Float32, "losses");
  arena->allocate();
  return bag;
}

std::string text_of(std::int64_t first, std::int64_t patience) {
  const std::string since =
      patience > 1 ? concat("in ", patience, " steps in a row, beginning with step ", first)
                   : concat("in step ", first);
  const std::string advice =
      patience > 1 ? "look for values in the data that float16 can not hold, or compute in bfloat16"
                   : "look for NaN and infinite values in the data";
  return concat("Loss cannot converge: it was not a finite number ", since,
                " (the first step is 1). Weights and rows are not rolled back. Go on from a "
                "checkpoint, which are finite (Model.resume), with a smaller learning rate or a "
                "longer warm-up; or ",
                advice);
}

}  // namespace

LossWatch::LossWatch(ResourceManager& resources, std::int64_t patience)
    : resources_(resources), patience_(patience) {
  for (std::size_t id = 0; id < resources.get_local_gpu_count(); ++id) {
    GPUResource& gpu = resources.get_local_gpu(id);
    const std::string owner = concat("loss watch of ", to_string(gpu.device()));
    Device& device = devices_.emplace_back();
    device.shares = floats(owner, gpu.memory_resource());
    device.losses = floats(owner, gpu.memory_resource());
    device.on_host = floats(owner, gpu.staging_resource());
    device.copied = gpu.create_event();
    Stream& stream = gpu.compute_stream();
    stream.fill_zero(device.shares.get_ptr(), kPlaces * sizeof(float));
    stream.synchronize();
  }
}

void LossWatch::note(std::size_t local_id, std::int64_t step, const TensorRef& loss) {
  auto* const shares = static_cast<float*>(devices_[local_id].shares.get_ptr());
  Stream& stream = resources_.get_local_gpu(local_id).compute_stream();
  stream.copy(shares + place_of(step), loss.data, sizeof(float));
  if (step % kWindow == 0) publish(local_id);
}

// The shares stay as they are: a window may be published a second time before it is full.
void LossWatch::publish(std::size_t local_id) {
  Device& device = devices_[local_id];
  GPUResource& gpu = resources_.get_local_gpu(local_id);
  const OpContext context = gpu.compute_context();
  TensorRef losses = device.losses.ref();
  losses.device = gpu.device();
  context.stream->copy(losses.data, device.shares.get_ptr(), kPlaces * sizeof(float));
  if (resources_.get_global_gpu_count() > 1) run(context, AllReduce{.data = losses});
  context.stream->copy(device.on_host.get_ptr(), losses.data, kPlaces * sizeof(float));
  context.stream->record(*device.copied);
}

void LossWatch::look(std::int64_t step) {
  const std::int64_t published = step / kWindow * kWindow;
  if (published > judged_ && step >= published + kLag) judge(published, step);
}

void LossWatch::look_at_all(std::int64_t step) {
  const std::int64_t published = step / kWindow * kWindow;
  if (published > judged_) judge(published, step);
  if (step == judged_) return;
  resources_.for_each_device([this](std::size_t id) { publish(id); });
  judge(step, step);
}

void LossWatch::forget(std::int64_t step) {
  judged_ = step;
  in_a_row_ = 0;
}

void LossWatch::judge(std::int64_t last, std::int64_t done) {
  devices_.front().copied->synchronize();
  const auto* const losses = static_cast<const float*>(devices_.front().on_host.get_ptr());
  const std::int64_t begin = std::max(judged_, last - kWindow) + 1;
  judged_ = last;
  for (std::int64_t s = begin; s <= last; ++s) {
    if (std::isfinite(losses[place_of(s)])) {
      in_a_row_ = 0;
      continue;
    }
    if (in_a_row_++ == 0) first_of_row_ = s;
    if (in_a_row_ >= patience_) {
      forget(done);
      throw NonFiniteLoss(text_of(first_of_row_, patience_));
    }
  }
}

}  // namespace hugectr
