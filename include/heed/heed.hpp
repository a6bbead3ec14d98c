// Heed: attention you can trust, on the CPU you have.
#pragma once

#include <heed/adam.hpp>
#include <heed/array.hpp>
#include <heed/attention.hpp>
#include <heed/attention_explain.hpp>
#include <heed/attention_stats.hpp>
#include <heed/beam_search.hpp>
#include <heed/error.hpp>
#include <heed/kmeans.hpp>
#include <heed/kv_cache.hpp>
#include <heed/linear.hpp>
#include <heed/mask.hpp>
#include <heed/merge.hpp>
#include <heed/multi_head_attention.hpp>
#include <heed/npy.hpp>
#include <heed/plan.hpp>
#include <heed/runtime.hpp>
#include <heed/safetensors.hpp>
#include <heed/softmax.hpp>
#include <heed/tensor.hpp>
#include <heed/trace.hpp>
