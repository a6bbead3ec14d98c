// Who sees the keys of a block: one bit per row and key. Compiled once per target.
#if defined(HEED_KERNELS_SEEN_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SEEN_INL_HPP
#undef HEED_KERNELS_SEEN_INL_HPP
#else
#define HEED_KERNELS_SEEN_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Keys of one block, counted from the block's first key, a multiple of kKeyBlock.
struct Block {
  std::int64_t origin = 0;  // that first key
  int begin = 0, end = 0;   // keys that some row sees are in here
  // Of these, keys that every row sees; for the others seen[t] has bit r set when row r does.
  int full_begin = 0, full_end = 0;
  bool by_element = false;  // whether more than length, causal and window hides keys
};

// The lowest n bits, 0 <= n <= 64.
inline std::uint64_t bits_below(std::int64_t n) {
  return n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

// One bit per key of a block.
struct KeyBits {
  std::uint64_t half[2] = {};  // key t is bit t % 64 of half[t / 64]
  static KeyBits range(std::int64_t begin, std::int64_t end) {
    KeyBits bits;
    for (int n = 0; n < 2; ++n) {
      const std::int64_t from = std::clamp<std::int64_t>(begin - 64 * n, 0, 64),
                         to = std::clamp<std::int64_t>(end - 64 * n, 0, 64);
      if (from < to) bits.half[n] = bits_below(to) & ~bits_below(from);
    }
    return bits;
  }
  KeyBits operator&(const KeyBits& other) const { return {{half[0] & other.half[0], half[1] & other.half[1]}}; }
  KeyBits operator|(const KeyBits& other) const { return {{half[0] | other.half[0], half[1] | other.half[1]}}; }
  KeyBits operator~() const { return {{~half[0], ~half[1]}}; }
  bool operator==(const KeyBits& other) const { return half[0] == other.half[0] && half[1] == other.half[1]; }
  bool any() const { return (half[0] | half[1]) != 0; }
  int first() const { return half[0] ? __builtin_ctzll(half[0]) : 64 + __builtin_ctzll(half[1]); }
  int last() const { return half[1] ? 127 - __builtin_clzll(half[1]) : 63 - __builtin_clzll(half[0]); }
};

// Bit t: element t of `count` elements, `stride` apart, is not `value`.
template <class T>
HWY_INLINE KeyBits bits_not(const T* from, std::int64_t stride, int count, T value) {
  const hn::ScalableTag<T> d;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
  HWY_ALIGN T copy[kKeyBlock];
  const bool copies = stride != 1 || count < kKeyBlock;
  if (copies) {
    std::fill_n(copy, kKeyBlock, value);
    for (int t = 0; t < count; ++t) copy[t] = from[t * stride];
    from = copy;
  }
  KeyBits bits;
  for (int t = 0; t < kKeyBlock; t += lanes) {
    alignas(8) std::uint8_t bytes[8] = {};  // StoreMaskBits writes at least 8 bits, at most 64
    hn::StoreMaskBits(d, hn::Not(hn::Eq(hn::LoadU(d, from + t), hn::Set(d, value))), bytes);  // Ne is false for NaN
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    word &= bits_below(lanes);
    bits.half[t / 64] |= word << (t % 64);
  }
  return bits;
}

// Bit c of word r becomes bit r of word c.
HWY_INLINE void transpose_bits(std::uint64_t (&word)[64]) {
  std::uint64_t low = 0x00000000FFFFFFFFu;  // the lower columns of each pair of square blocks of `width`
  for (int width = 32; width > 0; width /= 2, low ^= low << width)
    for (int r = 0; r < 64; ++r) {
      if (r & width) continue;
      const std::uint64_t swap = ((word[r] >> width) ^ word[r + width]) & low;
      word[r] ^= swap << width;
      word[r + width] ^= swap;
    }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
