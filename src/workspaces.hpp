// Memory of the workers of one call.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "src/attention_plan.hpp"

namespace heed {

// One Workspace per worker, allocated before any work starts, so that a failure leaves the outputs alone.
template <class T>
class Workspaces {
 public:
  Workspaces(const AttentionPlan& plan, const kernels::AttentionArgs<T>& args)
      : memory_(static_cast<T*>(::operator new(
            static_cast<std::size_t>(plan.workers) * static_cast<std::size_t>(plan.workspace) * sizeof(T),
            kAlignment))) {
    for (int worker = 0; worker < plan.workers; ++worker)
      workspaces_.push_back(workspace_at(memory_ + worker * plan.workspace, plan, args));
  }
  ~Workspaces() { ::operator delete(memory_, kAlignment); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  kernels::Workspace<T>& operator[](int worker) { return workspaces_[static_cast<std::size_t>(worker)]; }

 private:
  static constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector
  T* memory_;
  std::vector<kernels::Workspace<T>> workspaces_;
};

}  // namespace heed
