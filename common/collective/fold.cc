#include "common/collective/fold.h"

#include <algorithm>
#include <cstring>

namespace cohort {

// The whole elements that lie in one piece from here on, at most `most`; 0: the next element crosses
// pieces. Skips pieces that are used up.
size_t PieceFolder::Contiguous(Cursor* cursor, size_t item, size_t most) {
  if (cursor->whole != nullptr) return most;
  while (cursor->offset == cursor->pieces.front().size()) {
    cursor->pieces = cursor->pieces.subspan(1);
    cursor->offset = 0;
  }
  return std::min(most, (cursor->pieces.front().size() - cursor->offset) / item);
}

// The next elements: those of one piece, or one element that crosses pieces.
const uint8_t* PieceFolder::Take(Cursor* cursor, size_t item, size_t elements) {
  if (cursor->whole != nullptr) {
    const uint8_t* data = cursor->whole;
    cursor->whole += item * elements;
    return data;
  }
  const Bytes& piece = cursor->pieces.front();
  if (piece.size() - cursor->offset >= item * elements) {
    const uint8_t* data = piece.data() + cursor->offset;
    cursor->offset += item * elements;
    return data;
  }
  for (size_t filled = 0; filled < item;) {
    const size_t part = std::min(item - filled, cursor->pieces.front().size() - cursor->offset);
    std::memcpy(cursor->straddling + filled, cursor->pieces.front().data() + cursor->offset, part);
    filled += part;
    cursor->offset += part;
    if (filled < item) {
      cursor->pieces = cursor->pieces.subspan(1);
      cursor->offset = 0;
    }
  }
  return cursor->straddling;
}

template <typename T>
void PieceFolder::FoldElements(T* out, size_t count) {
  sources_.resize(cursors_.size());
  while (count > 0) {
    size_t run = count;
    for (Cursor& cursor : cursors_) run = std::min(run, Contiguous(&cursor, sizeof(T), run));
    run = std::max<size_t>(run, 1);
    for (size_t i = 0; i < cursors_.size(); ++i) {
      sources_[i] = Take(&cursors_[i], sizeof(T), run);
    }
    SumInOrder(out, sources_, run);
    out += run;
    count -= run;
  }
}

void PieceFolder::Fold(DType dtype, uint8_t* out, size_t count) {
  if (dtype == DType::kFloat32) {
    FoldElements(reinterpret_cast<float*>(out), count);
  } else {
    FoldElements(reinterpret_cast<double*>(out), count);
  }
}

void CopyPieces(PieceFolder::Pieces pieces, uint8_t* out) {
  for (const PieceFolder::Bytes& piece : pieces) {
    if (!piece.empty() && piece.data() != out) std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

}  // namespace cohort
