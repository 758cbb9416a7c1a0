#ifndef COHORT_COMMON_COLLECTIVE_FOLD_H_
#define COHORT_COMMON_COLLECTIVE_FOLD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/dtype.h"

namespace cohort {

// out[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ..., with the widest vectors that the
// processor has. Each addition rounds once, so the result does not depend on the vectors' width. The
// sources have no alignment. `out` is aligned to its elements and may be one of the sources.
void SumInOrder(float* out, std::span<const uint8_t* const> sources, size_t count);
void SumInOrder(double* out, std::span<const uint8_t* const> sources, size_t count);

// Sums buffers that lie in pieces, such as the slices of received frames, straight from the pieces.
// Keeps its memory. Not thread-safe.
class PieceFolder {
 public:
  using Bytes = std::span<const uint8_t>;
  using Pieces = std::span<const Bytes>;

  // Forgets the sources.
  void Begin() { cursors_.clear(); }
  // Adds the next source in the order of the sum. It has the bytes of `count` elements of Fold.
  void Add(Pieces pieces) { cursors_.push_back({.pieces = pieces}); }
  void Add(const uint8_t* data) { cursors_.push_back({.whole = data}); }
  // Writes the sum of the sources to `out`, which may be a source that was added whole.
  void Fold(DType dtype, uint8_t* out, size_t count);

 private:
  // The rest of one source.
  struct Cursor {
    Pieces pieces;
    size_t offset = 0;               // in the first piece
    const uint8_t* whole = nullptr;  // the source lies in one piece
    uint8_t straddling[8];           // an element that crosses pieces
  };

  template <typename T>
  void FoldElements(T* out, size_t count);
  static size_t Contiguous(Cursor* cursor, size_t item, size_t most);
  static const uint8_t* Take(Cursor* cursor, size_t item, size_t elements);

  std::vector<Cursor> cursors_;
  std::vector<const uint8_t*> sources_;
};

// Copies the bytes of pieces, one after another. Those that are in their place stay there.
void CopyPieces(PieceFolder::Pieces pieces, uint8_t* out);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_FOLD_H_
