// The machine: instruction sets, threads, and what it can do at best.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

inline constexpr std::string_view kVersion = "0.1.0";

// Instruction sets kernels are compiled for. `portable` is the compiler's baseline where that is none of the others (on
// 64-bit Arm it is NEON); without fused multiply-add its bits are outside the bit-exact promise.
enum class Isa { portable, neon, avx2, avx512 };

std::string_view isa_name(Isa isa);
// "avx512", "avx2", "neon" or "portable"; throws Error on other names.
Isa isa_from_name(std::string_view name);
// Those this build has and this machine can run, best first.
const std::vector<Isa>& available_isas();
// The one in use: the best available, or the one named by the environment variable HEED_ISA. Throws Error when HEED_ISA
// names one that does not exist or cannot run here.
Isa isa();
// Uses another one from the next call on, for the whole process. Throws Error when it is not available. Not to be
// called while another thread is inside the library.
void set_isa(Isa isa);
// Whether outputs under this instruction set have the promised bits: it has fused multiply-add.
bool isa_is_bit_exact(Isa isa);

// Threads a call may use: set_num_threads(n) with n >= 1 for the whole process, otherwise those of the caller's oneTBB
// arena.
int num_threads();
// Throws Error unless 1 <= threads <= 1024. Not to be called while another thread is inside the library.
void set_num_threads(int threads);

struct Info {
  std::string version;
  std::string processor;
  std::string compiler;
  Isa isa = Isa::portable;
  std::string isa_reason;  // why this one: best available, HEED_ISA, set_isa
  std::vector<Isa> available;
  int threads = 0;
  int processors = 0;                                      // this process may run on
  std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // 0 = unknown
};
Info info();

// The limits every speed is a share of, measured now: best of many short rounds.
struct Peak {
  double flops = 0;       // float32 fused multiply-adds in registers, an add or multiply counted as one, per second
  double read_bytes = 0;  // streaming read from memory, per second
};
// Takes about `seconds` (at least 0.02) on `threads` threads under the instruction set in use. Throws Error unless 1 <=
// threads <= 1024.
Peak measure_peak(int threads, double seconds = 0.2);

}  // namespace heed
