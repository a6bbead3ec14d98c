// Memory of the workers of one call of attention.
#pragma once

#include <vector>

#include "src/attention_plan.hpp"
#include "src/worker_memory.hpp"

namespace heed {

// One Workspace per worker.
template <class T>
class Workspaces {
 public:
  Workspaces(const AttentionPlan& plan, const kernels::AttentionArgs<T>& args) : memory_(plan.workers, plan.workspace) {
    for (int worker = 0; worker < plan.workers; ++worker)
      workspaces_.push_back(workspace_at(memory_.of(worker), plan, args));
  }

  kernels::Workspace<T>& operator[](int worker) { return workspaces_[static_cast<std::size_t>(worker)]; }

 private:
  WorkerMemory<T> memory_;
  std::vector<kernels::Workspace<T>> workspaces_;
};

}  // namespace heed
