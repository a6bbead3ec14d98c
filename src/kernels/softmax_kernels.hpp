// The kernels of softmax and log_softmax: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

// Elements of a row that are summed up on their own, at absolute multiples of this: part of the bit-exact contract, not
// to be tuned. The sums of the chunks are joined in order.
inline constexpr std::int64_t kSoftmaxChunk = 16384;
// Partial sums of a chunk, element i in sum i % 16: likewise part of the contract. One vector of float has one of each.
inline constexpr std::int64_t kSoftmaxParts = 16;
// Rows that are side by side in memory and go together: a kilobyte of float, which the hardware fetches ahead, and
// whose partial sums (32 KB) stay in L1.
inline constexpr std::int64_t kSoftmaxColumns = 256;
// Exponentials that are kept between sum and quotient, elements per worker: a chunk, which stays in L2.
inline constexpr std::int64_t kSoftmaxKept = kSoftmaxChunk;
// Elements per worker of rows that are copied together, and the most rows, a cache line of float: where rows are side
// by side but the output's are not, a line that is fetched is used whole.
inline constexpr std::int64_t kSoftmaxCopied = 4 * kSoftmaxChunk;
inline constexpr std::int64_t kSoftmaxCopiedRows = 16;

enum class SoftmaxForm {
  along,   // the elements of a row are contiguous, in x and out
  across,  // rows are side by side, in x and out: they are the lanes
  copied   // all else
};

struct SoftmaxArgs {
  std::int64_t size = 0;                  // elements of a row
  std::int64_t x_step = 1, out_step = 1;  // from element to element of a row
  std::int64_t x_row = 0, out_row = 0;    // from row to row of a block
  SoftmaxForm form = SoftmaxForm::along;
  bool logarithm = false;
  bool allow_infinite = false;
  bool streams = false;  // out is larger than the caches and not read: it is written past them
};

// Elements begin … end - 1 of some rows, begin a multiple of kSoftmaxChunk.
template <class T>
struct SoftmaxBlock {
  const T* x;  // element 0 of the first row
  T* out;
  std::int64_t rows, begin, end;
  T* maxima;     // [rows]
  double* sums;  // [rows]; for sums and quotients only, otherwise null
};

// Memory of one worker.
template <class T>
struct SoftmaxWorkspace {
  double* sums;  // [kSoftmaxColumns], [kSoftmaxParts][kSoftmaxColumns]; only for SoftmaxForm::across
  T* kept;       // [kSoftmaxKept], or what of it the rows need
  T* copied;     // likewise [kSoftmaxCopied]; only for SoftmaxForm::copied
};

template <class T>
struct SoftmaxKernels {
  // The largest of these elements of each row into `maxima`. Returns whether all are admitted; otherwise the maxima
  // mean nothing.
  bool (*maxima)(const SoftmaxArgs&, const SoftmaxBlock<T>&, const SoftmaxWorkspace<T>&) = nullptr;
  // Sums of exp(x - maximum) over these elements of each row, into `sums`.
  void (*sums)(const SoftmaxArgs&, const SoftmaxBlock<T>&, const SoftmaxWorkspace<T>&) = nullptr;
  // These elements of `out`, from maxima and sums of the whole rows.
  void (*quotients)(const SoftmaxArgs&, const SoftmaxBlock<T>&, const SoftmaxWorkspace<T>&) = nullptr;
  // Both over whole rows; the exponentials are kept between them where there is room.
  void (*rows)(const SoftmaxArgs&, const SoftmaxBlock<T>&, const SoftmaxWorkspace<T>&) = nullptr;
};

}  // namespace heed::kernels
