// SPDX-License-Identifier: Apache-2.0
// A small Wide & Deep on samples in memory: two columns of categories, three numbers, and a label
// that both decide. Prints the devices, "step <n> loss <l>" now and then, and whether Python is in
// the process.
//   train_wide_and_deep [auto|cpu|cuda] [number of devices]
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <hugectr/hugectr.hpp>
#include <iostream>
#include <memory>
#include <string>

namespace {

constexpr std::size_t kSamples = 4096;
constexpr std::size_t kBatch = 512;
constexpr int kKeysPerSlot = 40;

// A fixed stream of numbers in [0, 1), the same on every machine.
class Uniform {
 public:
  float operator()() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(state_ >> 40) / 16777216.0f;
  }

 private:
  std::uint64_t state_ = 42;
};

std::shared_ptr<hugectr::MemoryData> make_data() {
  Uniform uniform;
  auto data = std::make_shared<hugectr::MemoryData>();
  data->samples = kSamples;
  data->sparse.resize(1);
  auto& sparse = data->sparse[0];
  sparse.row_offsets.push_back(0);
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    float score = -1.0f;
    for (int column = 0; column < 3; ++column) {
      const float value = uniform();
      data->dense.push_back(value);
      score += column == 0 ? value : 0.0f;
    }
    for (int slot = 0; slot < 2; ++slot) {
      const int category = static_cast<int>(uniform() * kKeysPerSlot);
      sparse.keys.push_back(slot * kKeysPerSlot + category);
      sparse.row_offsets.push_back(sparse.keys.size());
      score += category % 2 == 0 ? 0.5f : -0.2f;
    }
    data->label.push_back(score > 0.0f ? 1.0f : 0.0f);
  }
  return data;
}

hugectr::ModelSpec make_model() {
  hugectr::ModelSpec model;
  model.input.label_name = "label";
  model.input.dense_name = "numbers";
  model.input.dense_dim = 3;
  model.input.sparse = {{.top_name = "categories", .nnz_per_slot = {1, 1}, .slot_num = 2}};

  hugectr::SparseEmbeddingSpec table;
  table.embedding_vec_size = 8;
  table.name = "vectors";
  table.bottoms = {"categories"};
  model.embeddings = {table};

  model.layers = {
      {"Reshape", {"vectors"}, {"flat"}, {{"leading_dim", std::int64_t{16}}}},
      {"Concat", {"flat", "numbers"}, {"features"}, {}},
      {"InnerProduct", {"features"}, {"hidden"}, {{"num_output", std::int64_t{32}}}},
      {"ReLU", {"hidden"}, {"hidden_relu"}, {}},
      {"InnerProduct", {"hidden_relu"}, {"logit"}, {{"num_output", std::int64_t{1}}}},
      {"BinaryCrossEntropyLoss", {"logit", "label"}, {"loss"}, {}},
  };
  model.opt_params.update_type = hugectr::Update::Local;
  return model;
}

// "auto" is CUDA where that works; otherwise why not is said.
hugectr::DeviceType device_type(const std::string& name) {
  if (name == "cuda") return hugectr::DeviceType::Cuda;
  if (name == "cpu") return hugectr::DeviceType::Cpu;
  if (name != "auto") throw hugectr::InvalidArgument("'" + name + "': give auto, cpu or cuda");
  const std::string reason = hugectr::DeviceBackend::why_not(hugectr::DeviceType::Cuda);
  if (!reason.empty()) std::cout << "CPU, because " << reason << "\n";
  return reason.empty() ? hugectr::DeviceType::Cuda : hugectr::DeviceType::Cpu;
}

// Whether a library of this process has "python" in its name.
bool python_is_here() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto name = line.rfind('/');
    if (name != std::string::npos && line.find("python", name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) try {
  hugectr::SolverSpec solver;
  solver.model_name = "wide_and_deep";
  solver.seed = 7;
  solver.batchsize = kBatch;
  solver.batchsize_eval = kBatch;
  solver.device = device_type(argc > 1 ? argv[1] : "auto");
  const int devices = argc > 2 ? std::atoi(argv[2]) : 1;
  solver.vvgpu.assign(1, {});
  for (int i = 0; i < devices; ++i) {
    solver.vvgpu[0].push_back(i);
    std::cout << "device " << hugectr::DeviceBackend::get(solver.device).device_name(i) << "\n";
  }
  solver.lr.base_lr = 0.01;

  hugectr::ReaderSpec reader;
  reader.memory = make_data();
  reader.num_workers = 2;

  hugectr::Session session(solver, reader, make_model());
  session.reader().start();
  for (int step = 1; step <= 200; ++step) {
    session.learning_rate_scheduler().get_next();
    if (!session.train()) return 1;
    if (step == 1 || step % 50 == 0) {
      std::cout << "step " << step << " loss " << session.get_current_loss() << "\n";
    }
  }
  std::cout << "python in the process: " << (python_is_here() ? "yes" : "no") << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
