// Tasks on threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace heed {

// Runs task(context, worker, t) once for every t in [0, tasks), in ascending order of start, on at most `workers`
// threads, each of which passes its own number in [0, workers). Returns when all are done. Tasks must not throw. With
// one worker everything happens on the calling thread.
void run_tasks(int workers, std::int64_t tasks, void* context, void (*task)(void* context, int worker, std::int64_t t));

template <class Task>
void run_tasks(int workers, std::int64_t tasks, Task&& task) {
  run_tasks(workers, tasks, &task, [](void* context, int worker, std::int64_t t) {
    (*static_cast<std::remove_reference_t<Task>*>(context))(worker, t);
  });
}

// Operations below which a further thread costs more (some 10 microseconds to wake it) than it saves.
inline constexpr double kOperationsPerWorker = 2e6;
// Workers that so many operations are worth, from 1 to `threads`.
inline int workers_worth(double operations, int threads) {
  return static_cast<int>(std::clamp(operations / kOperationsPerWorker, 1.0, static_cast<double>(threads)));
}

// How many threads a call may use by default, and the process-wide choice (see runtime.hpp).
int default_threads();
void choose_threads(int threads);

// parallel_tbb.cpp: runs body(context, worker) for every worker, on as many threads as there are. Kept apart because
// oneTBB's own synchronisation is invisible to a thread sanitizer; run_tasks makes ours visible around it.
void run_workers(int workers, void* context, void (*body)(void* context, int worker));

}  // namespace heed
