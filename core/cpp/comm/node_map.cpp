// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/node_map.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

class PartOfGroup final : public IProcessGroup {
 public:
  PartOfGroup(std::shared_ptr<IProcessGroup> whole, std::vector<std::size_t> members)
      : whole_(std::move(whole)), members_(std::move(members)) {
    const auto own = std::find(members_.begin(), members_.end(), whole_->rank());
    HCTR_CHECK(own != members_.end(), "process ", whole_->rank(), " is not in its own part");
    rank_ = static_cast<std::size_t>(own - members_.begin());
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return members_.size(); }
  void all_to_all(const void* in, const std::vector<std::size_t>& send_bytes, void* out,
                  const std::vector<std::size_t>& receive_bytes, double limit_seconds) override {
    whole_->all_to_all(in, spread(send_bytes), out, spread(receive_bytes), limit_seconds);
  }
  double limit_seconds() const override { return whole_->limit_seconds(); }
  std::shared_ptr<IProcessGroup> duplicate(const std::string& name) override {
    return std::make_shared<PartOfGroup>(whole_->duplicate(name), members_);
  }
  void abort(const std::string& reason) noexcept override { whole_->abort(reason); }

 private:
  /// Counts for all processes: members are in ascending order, so that data stays as it lies.
  std::vector<std::size_t> spread(const std::vector<std::size_t>& counts) const {
    std::vector<std::size_t> all(whole_->size());
    for (std::size_t i = 0; i < members_.size(); ++i) all[members_[i]] = counts.at(i);
    return all;
  }

  std::shared_ptr<IProcessGroup> whole_;
  std::vector<std::size_t> members_;
  std::size_t rank_ = 0;
};

}  // namespace

std::shared_ptr<IProcessGroup> make_part_of_group(std::shared_ptr<IProcessGroup> whole,
                                                  std::vector<std::size_t> members) {
  return std::make_shared<PartOfGroup>(std::move(whole), std::move(members));
}

std::vector<std::size_t> nodes_of_processes(IProcessGroup& processes, const std::string& name) {
  const std::vector<std::vector<char>> names = processes.all_gather_any({name.begin(), name.end()});
  std::vector<std::vector<char>> known;
  std::vector<std::size_t> nodes;
  for (const std::vector<char>& one : names) {
    const auto found = std::find(known.begin(), known.end(), one);
    nodes.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(one);
  }
  return nodes;
}

NodeMap::NodeMap(const JobRanks& job, const std::vector<std::size_t>& node_of_process)
    : ranks_(*std::max_element(node_of_process.begin(), node_of_process.end()) + 1),
      node_of_(job.process_of_rank.size()),
      place_of_(job.process_of_rank.size()) {
  std::vector<std::size_t> devices(node_of_process.size());
  for (std::size_t r = 0; r < node_of_.size(); ++r) {
    const std::size_t process = job.process_of_rank[r];
    node_of_[r] = node_of_process.at(process);
    place_of_[r] = ranks_[node_of_[r]].size();
    ranks_[node_of_[r]].push_back(r);
    ++devices[process];
  }
  for (std::size_t n = 1; n < ranks_.size(); ++n) {
    HCTR_CHECK(ranks_[n].size() == ranks_[0].size(), "node 0 has ", ranks_[0].size(),
               " devices and node ", n, " has ", ranks_[n].size(),
               ": collectives by node need as many on each; set HUGECTR_BY_NODE=0");
  }
  for (std::size_t p = 1; p < devices.size(); ++p) {
    HCTR_CHECK(devices[p] == devices[0], "process 0 has ", devices[0], " devices and process ", p,
               " has ", devices[p],
               ": collectives by node need as many of each; set HUGECTR_BY_NODE=0");
  }
}

JobRanks NodeMap::job_of(const std::vector<std::size_t>& ranks, const JobRanks& job,
                         const std::shared_ptr<IProcessGroup>& processes_of_job) {
  std::vector<std::size_t> processes;
  for (const std::size_t r : ranks) processes.push_back(job.process_of_rank[r]);
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  JobRanks part;
  for (const std::size_t r : ranks) {
    const auto at = std::lower_bound(processes.begin(), processes.end(), job.process_of_rank[r]);
    part.process_of_rank.push_back(static_cast<std::size_t>(at - processes.begin()));
  }
  if (processes.size() > 1) part.processes = make_part_of_group(processes_of_job, processes);
  return part;
}

JobRanks NodeMap::node_job(std::size_t node, const JobRanks& job,
                           const std::shared_ptr<IProcessGroup>& processes) const {
  return job_of(ranks_[node], job, processes);
}

JobRanks NodeMap::place_job(std::size_t place, const JobRanks& job,
                            const std::shared_ptr<IProcessGroup>& processes) const {
  std::vector<std::size_t> ranks;
  for (std::size_t n = 0; n < nodes(); ++n) ranks.push_back(ranks_[n][place]);
  return job_of(ranks, job, processes);
}

}  // namespace hugectr
