// What `heed attend` refuses it refuses in one line, and writes nothing.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/attend_call.hpp"

namespace heed::test {
namespace {

class CliAttendRefusal : public testing::Test {
 protected:
  CliAttendRefusal() : arguments_(arguments_of(small_call(11), directory_ / "call.safetensors")) {}

  std::string path(const char* name) const { return (directory_ / name).string(); }
  CliResult with(std::vector<std::string> more) const {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return heed_cli(arguments);
  }

  TemporaryDirectory directory_;
  std::vector<std::string> arguments_;
};

TEST_F(CliAttendRefusal, FloatMask_SaysThatItIsABias) {
  write_npy(path("mask.npy"), to_array(Tensor<float, 2>({5, 5}).view()));
  const CliResult said = with({"--mask", path("mask.npy")});
  EXPECT_TRUE(was_refused(said, "attention: mask: "));
  EXPECT_TRUE(was_refused(said, "a float mask is a bias"));
}

TEST_F(CliAttendRefusal, IntegerMask_SaysWhatATrueMeans) {
  write_npy(path("mask.npy"), to_array(Tensor<std::int64_t, 2>({5, 5}).view()));
  EXPECT_TRUE(was_refused(with({"--mask", path("mask.npy")}), "attention: mask: int64 (5, 5), expected bool"));
}

TEST_F(CliAttendRefusal, WrongShape_ComesFromTheLibrary) {
  write_npy(path("k.npy"), to_array(Tensor<float, 4>({2, 3, 5, 8}).view()));
  EXPECT_TRUE(was_refused(with({"--k", path("k.npy")}), "attention: "));
  write_npy(path("mask.npy"), to_array(Tensor<bool, 2>({5, 4}).view()));
  EXPECT_TRUE(was_refused(with({"--mask", path("mask.npy")}), "attention: mask: "));
}

TEST_F(CliAttendRefusal, MissingFile_IsNamed) {
  EXPECT_TRUE(was_refused(with({"--k", path("absent.npy")}), "absent.npy"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--input", path("absent.safetensors")}), "absent.safetensors"));
}

TEST_F(CliAttendRefusal, MissingArray_IsNamed) {
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--q", path("call.safetensors") + ":x/q"}), "attend: --k: "));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--input", path("call.safetensors") + ":y/"}), "x/k, x/q, x/v"));
  EXPECT_TRUE(was_refused(with({"--v", path("call.safetensors") + ":z"}), "no tensor 'z'"));
}

TEST_F(CliAttendRefusal, BrokenFile_IsRefused) {
  write_bytes(path("q.npy"), bytes_of("\x93NUMPY but no more"));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "read_npy: "));
}

TEST_F(CliAttendRefusal, UnwritableOutput_LeavesNothing) {
  EXPECT_TRUE(was_refused(with({"--out", path("no/such/folder/out.npy")}), "--out"));
  std::filesystem::create_directory(path("taken.npy"));
  EXPECT_TRUE(was_refused(with({"--out", path("taken.npy")}), "taken.npy"));
  EXPECT_EQ(directory_.names(), (std::set<std::string>{"call.safetensors", "taken.npy"}));
}

TEST_F(CliAttendRefusal, OutputName_MustSuitWhatItHolds) {
  EXPECT_TRUE(was_refused(with({"--out", path("out.txt")}), "attend: --out: "));
  EXPECT_TRUE(was_refused(with({"--out", path("x.npy"), "--lse", path("x.npy")}), "attend: --lse: "));
  EXPECT_TRUE(was_refused(with({"--stats", path("x.npy")}), "attend: --stats: "));
  EXPECT_TRUE(was_refused(with({"--top-k", "2"}), "attend: --top-k: "));
  EXPECT_EQ(directory_.names(), (std::set<std::string>{"call.safetensors"}));
}

TEST_F(CliAttendRefusal, Rank_MustBeTheSame) {
  write_npy(path("q.npy"), to_array(Tensor<float, 3>({4, 5, 8}).view()));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "attend: k: "));
  write_npy(path("q.npy"), to_array(Tensor<float, 1>({8}).view()));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "attend: q: "));
}

TEST_F(CliAttendRefusal, BadFlagValue_IsOneLine) {
  EXPECT_TRUE(was_refused(with({"--window", "3"}), "--window"));
  EXPECT_TRUE(was_refused(with({"--window", "3,0x"}), "--window"));
  EXPECT_TRUE(was_refused(with({"--window", "-2,0"}), "window"));
  EXPECT_TRUE(was_refused(with({"--align", "middle"}), "middle"));
  EXPECT_TRUE(was_refused(with({"--empty-row", "nan"}), "nan"));
  EXPECT_TRUE(was_refused(with({"--layout", "bhdt"}), "--layout"));
  EXPECT_TRUE(was_refused(with({"--dtype", "float16"}), "--dtype"));
  EXPECT_TRUE(was_refused(with({"--dropout", "1.5"}), "dropout"));
  EXPECT_TRUE(was_refused(with({"--scale", "inf"}), "scale"));
  EXPECT_TRUE(was_refused(with({"--scale", "big"}), "--scale"));
  EXPECT_TRUE(was_refused(with({"--seed", "-1"}), "--seed"));
  EXPECT_TRUE(was_refused(with({"--seed", "18446744073709551616"}), "--seed"));
  EXPECT_TRUE(was_refused(with({"--threads", "-1"}), "threads"));
  EXPECT_TRUE(was_refused(with({"--repeat", "0"}), "--repeat"));
  EXPECT_TRUE(was_refused(with({"--kv-lengths", "3,x"}), "--kv-lengths"));
  EXPECT_TRUE(was_refused(with({"--kv-lengths", "3,6"}), "kv_lengths"));
  EXPECT_TRUE(was_refused(with({"--q-segments", "1,1,1,1,1"}), "segments"));
  EXPECT_TRUE(was_refused(with({"--alibi", "--alibi-slopes", "1,1,1,1"}), "--alibi"));
}

// A finite bias that float32 would turn into -inf would mask.
TEST_F(CliAttendRefusal, BiasBeyondFloat32_IsRefused) {
  write_npy(path("bias.npy"), to_array(Tensor<double, 2>({5, 5}, -1e300).view()));
  EXPECT_TRUE(was_refused(with({"--bias", path("bias.npy")}), "attention: bias: -1.0e+300"));
  EXPECT_TRUE(went_well(with({"--bias", path("bias.npy"), "--dtype", "float64"})));
}

}  // namespace
}  // namespace heed::test
