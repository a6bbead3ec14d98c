// The machine: instruction sets, threads, and its limits.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <heed/heed.hpp>
#include <string>
#include <thread>

#include "support/expect_error.hpp"

namespace heed::test {
namespace {

TEST(Isa, Names_ReadBack) {
  for (const Isa one : {Isa::portable, Isa::neon, Isa::avx2, Isa::avx512}) EXPECT_EQ(isa_from_name(isa_name(one)), one);
  EXPECT_EQ(isa_name(Isa::avx512), "avx512");
  EXPECT_EQ(isa_name(Isa::portable), "portable");
  for (const char* wrong : {"AVX2", "avx1024", "", "haswell"})
    expect_error([&] { isa_from_name(wrong); }, "isa_from_name", "name", {wrong, "avx512", "avx2", "neon", "portable"});
}

TEST(Isa, Available_HasBaselineAndIsBestFirst) {
  const auto& available = available_isas();
  ASSERT_FALSE(available.empty());
#if defined(__aarch64__)
  EXPECT_EQ(available.back(), Isa::neon);
#else
  EXPECT_EQ(available.back(), Isa::portable);
#endif
  EXPECT_TRUE(std::is_sorted(available.rbegin(), available.rend()));
  EXPECT_EQ(std::adjacent_find(available.begin(), available.end()), available.end()) << "each once";
  for (const Isa one : {Isa::neon, Isa::avx2, Isa::avx512}) EXPECT_TRUE(isa_is_bit_exact(one));
}

TEST(Isa, Set_TakesEffect) {
  const Isa before = isa();
  for (const Isa one : available_isas()) {
    set_isa(one);
    EXPECT_EQ(isa(), one);
    EXPECT_EQ(info().isa, one);
    Tensor<float, 4> q({1, 1, 1, 1}, 1.0f), out({1, 1, 1, 1});
    attention(q, q, q, out);
    EXPECT_EQ(out(0, 0, 0, 0), 1);
  }
  set_isa(before);
}

TEST(Isa, SetWhatThisMachineLacks_Throws) {
  const Isa before = isa();
  const auto& available = available_isas();
  int lacking = 0;
  for (const Isa one : {Isa::neon, Isa::avx2, Isa::avx512}) {
    if (std::find(available.begin(), available.end(), one) != available.end()) continue;
    ++lacking;
    expect_error([&] { set_isa(one); }, "set_isa", "isa", {std::string(isa_name(one))});
    EXPECT_EQ(isa(), before);
  }
  EXPECT_GT(lacking, 0) << "no machine has all of them";
}

// --- HEED_ISA, read in a process of its own ------------------------------------------------------------------------

constexpr int kThrew = 42, kOther = 43;

// Run by the tests below with HEED_ISA set.
TEST(IsaChild, DISABLED_UseLibrary) {
  try {
    const Isa used = isa();
    std::_Exit(static_cast<int>(used));
  } catch (const Error& error) {
    const std::string value = std::getenv("HEED_ISA");
    const bool says_it = std::string(error.what()).find(value) != std::string::npos && error.argument() == "HEED_ISA";
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(says_it ? kThrew : kOther);
  }
}

int exit_code_under(const std::string& forced) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = std::system(("HEED_ISA=" + forced + " " HEED_EMULATOR "'" + self +
                                  "' --gtest_filter=IsaChild.* --gtest_also_run_disabled_tests")
                                     .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(HeedIsa, ForcedName_IsUsed) {
  for (const Isa one : available_isas())
    EXPECT_EQ(exit_code_under(std::string(isa_name(one))), static_cast<int>(one)) << isa_name(one);
}

TEST(HeedIsa, UnknownName_Throws) {
  EXPECT_EQ(exit_code_under("avx1024"), kThrew);
}

TEST(HeedIsa, NameThisMachineLacks_Throws) {
  const auto& available = available_isas();
  for (const Isa one : {Isa::neon, Isa::avx2, Isa::avx512})
    if (std::find(available.begin(), available.end(), one) == available.end()) {
      EXPECT_EQ(exit_code_under(std::string(isa_name(one))), kThrew) << isa_name(one);
    }
}

// --- threads -------------------------------------------------------------------------------------------------------

TEST(Threads, Default_IsAtLeastOne) {
  EXPECT_GE(num_threads(), 1);
  EXPECT_LE(num_threads(), 1024);
}

TEST(Threads, Set_IsReadBack) {
  const int before = num_threads();
  for (const int threads : {1, 3, 1024}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    EXPECT_EQ(info().threads, threads);
  }
  for (const int wrong : {0, -1, 1025}) {
    expect_error([&] { set_num_threads(wrong); }, "set_num_threads", "threads", {std::to_string(wrong), "1", "1024"});
    EXPECT_EQ(num_threads(), 1024) << "unchanged";
  }
  set_num_threads(before);
}

TEST(Threads, SetCount_ChangesNoBit) {
  const int before = num_threads();
  Tensor<float, 4> q({1, 4, 40, 8}), one({1, 4, 40, 8}), many({1, 4, 40, 8});
  float next = 0;
  for (float& value : q) value = static_cast<float>(static_cast<int>(next += 7) % 13) * 0.25f - 1.5f;
  set_num_threads(1);
  attention(q, q, q, one);
  set_num_threads(4);
  attention(q, q, q, many);
  set_num_threads(before);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), many.begin()));
}

TEST(Threads, CallsFromSeveralThreads_AreIndependent) {
  Tensor<float, 4> q({1, 2, 30, 4});
  float next = 0;
  for (float& value : q) value = static_cast<float>(static_cast<int>(next += 5) % 11) * 0.3f - 1.5f;
  Tensor<float, 4> want({1, 2, 30, 4});
  attention(q, q, q, want, {.causal = true});
  std::vector<Tensor<float, 4>> outs(4, Tensor<float, 4>({1, 2, 30, 4}));
  std::vector<std::thread> callers;
  for (auto& out : outs)
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) attention(q, q, q, out, {.causal = true, .threads = 2});
    });
  for (auto& caller : callers) caller.join();
  for (const auto& out : outs) EXPECT_TRUE(std::equal(want.begin(), want.end(), out.begin()));
}

// --- info and limits -----------------------------------------------------------------------------------------------

TEST(Info, Fields_AreFilled) {
  const Info about = info();
  EXPECT_EQ(about.version, kVersion);
  EXPECT_FALSE(about.compiler.empty());
  EXPECT_FALSE(about.isa_reason.empty());
  EXPECT_EQ(about.isa, isa());
  EXPECT_EQ(about.available, available_isas());
  EXPECT_EQ(about.threads, num_threads());
  EXPECT_GE(about.processors, 1);
  EXPECT_GE(about.l1d_bytes, 0);
  EXPECT_GE(about.l2_bytes, 0);
  EXPECT_GE(about.l3_bytes, 0);
}

TEST(Peak, Measured_IsPlausible) {
  const Peak peak = measure_peak(1, 0.02);
  // Between a very slow and an impossible core.
  EXPECT_GT(peak.flops, 1e7);
  EXPECT_LT(peak.flops, 1e13);
  EXPECT_GT(peak.read_bytes, 1e7);
  EXPECT_LT(peak.read_bytes, 1e13);
}

TEST(Peak, ThreadsOutOfRange_Throw) {
  for (const int wrong : {0, -2, 1025})
    expect_error([&] { measure_peak(wrong, 0.02); }, "measure_peak", "threads", {std::to_string(wrong)});
}

}  // namespace
}  // namespace heed::test
