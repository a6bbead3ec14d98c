// The functions the kernels are made of, against wider ones: a table of range, step and largest error in ulp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "src/active_kernels.hpp"

namespace {

template <class T>
using Function = void (*)(const T*, std::size_t, T*);

// |got - want| in units of the last place of `want` as a T.
template <class T>
double error_in_ulp(T got, long double want) {
  const T near = static_cast<T>(want);
  const T ulp = std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / static_cast<long double>(ulp));
}

template <class T>
std::vector<T> evaluate(Function<T> function, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  function(x.data(), x.size(), y.data());
  return y;
}

template <class T>
struct Row {
  const char* name;
  Function<T> function;
  long double (*exact)(long double);
  double from, to;
  double most_ulp;
};

long double exact_exp2(long double x) {
  return std::exp2(x);
}
long double exact_log(long double x) {
  return std::log(x);
}
long double exact_tanh(long double x) {
  return std::tanh(x);
}

template <class T>
void check(const Row<T>& row) {
  constexpr int kSteps = 200003;  // a prime, so that the points do not fall on the grid of the reduction
  std::vector<T> x;
  for (int i = 0; i <= kSteps; ++i) x.push_back(static_cast<T>(row.from + (row.to - row.from) * i / kSteps));
  const std::vector<T> y = evaluate(row.function, x);
  double worst = 0;
  T at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = error_in_ulp(y[i], row.exact(static_cast<long double>(x[i])));
    if (!(error <= worst)) worst = error, at = x[i];
  }
  EXPECT_LE(worst, row.most_ulp) << row.name << " at " << at;
  EXPECT_GT(worst, 0) << row.name << ": no error anywhere, so nothing was compared";
}

template <class T>
void check_all(const heed::kernels::TypedKernels<T>& kernels, double lowest, double exp2_ulp) {
  // The error of exp2 is promised in docs/contract.md. That of log is in ulp of a result near 0 where x is near 1, and
  // tanh's that of a quotient of two rounded terms.
  const Row<T> rows[] = {
      {"exp2", kernels.exp2, exact_exp2, -1, 0, exp2_ulp}, {"exp2", kernels.exp2, exact_exp2, lowest, 0, exp2_ulp},
      {"log", kernels.log, exact_log, 1.5, 1e4, 1.5},      {"log", kernels.log, exact_log, 1, 1.5, 3},
      {"tanh", kernels.tanh, exact_tanh, 1e-6, 1e-3, 4},   {"tanh", kernels.tanh, exact_tanh, 1e-3, 1, 4},
      {"tanh", kernels.tanh, exact_tanh, 1, 12, 4},        {"tanh", kernels.tanh, exact_tanh, -2, -0.01, 4},
  };
  for (const Row<T>& row : rows) check(row);
}

TEST(Math, Float_IsWithinItsUlps) {
  check_all(heed::active_kernels().of<float>(), -125.4, heed::isa_is_bit_exact(heed::isa()) ? 2.1 : 2.3);
}
TEST(Math, Double_IsWithinItsUlps) {
  check_all(heed::active_kernels().of<double>(), -1021.4, 1.5);
}

template <class T>
void check_exp2_edges(Function<T> exp2, T lowest) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T edge = lowest + T{0.5};
  const std::vector<T> y = evaluate(exp2, {T{0}, -T{0}, T{-1}, edge, std::nextafter(edge, T{0}), lowest, -inf,
                                           std::numeric_limits<T>::lowest(), nan});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], T{0.5});
  EXPECT_EQ(y[3], 0);
  EXPECT_GE(y[4], std::numeric_limits<T>::min()) << "a subnormal weight";
  for (const std::size_t i : {5, 6, 7}) EXPECT_EQ(y[i], 0) << i;
  EXPECT_TRUE(std::isnan(y[8]));
}

TEST(Math, Exp2_AtTheEdges_IsExact) {
  check_exp2_edges<float>(heed::active_kernels().of<float>().exp2, -126);
  check_exp2_edges<double>(heed::active_kernels().of<double>().exp2, -1022);
}

TEST(Math, FusedTargets_GiveTheSameBits) {
  std::vector<float> x;
  for (std::uint32_t bits = 0x80000000u; bits < 0xc3160000u; bits += 1009) {  // -0 … -150
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
  }
  std::vector<float> first;
  for (const auto& table : heed::kernels::available_kernels()) {
    if (!table.fused) continue;
    const std::vector<float> y = evaluate(table.f32.exp2, x);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0) << heed::isa_name(table.isa);
  }
}

}  // namespace
