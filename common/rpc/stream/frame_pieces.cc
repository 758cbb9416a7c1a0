#include "common/rpc/stream/frame_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// The bytes of a v1.FramePiece before its data: the tag of `whole` and its eight bytes, the tag of
// `data` and its length in five bytes. Tags of field numbers from 16 to 2047 have two bytes.
constexpr std::array<uint8_t, 2> kWholeTag = {0xc1, 0x3e};  // 1000 << 3 | 1
constexpr std::array<uint8_t, 2> kDataTag = {0xca, 0x3e};   // 1001 << 3 | 2
constexpr size_t kLengthBytes = 5;
constexpr size_t kHeaderBytes =
    kWholeTag.size() + sizeof(uint64_t) + kDataTag.size() + kLengthBytes;

grpc::Slice HeaderOf(uint64_t whole, size_t length) {
  grpc::Slice slice(kHeaderBytes);
  auto* to = const_cast<uint8_t*>(slice.begin());
  to = std::copy(kWholeTag.begin(), kWholeTag.end(), to);
  for (size_t i = 0; i < sizeof(whole); ++i) *to++ = static_cast<uint8_t>(whole >> (8 * i));
  to = std::copy(kDataTag.begin(), kDataTag.end(), to);
  for (size_t i = 0; i < kLengthBytes; ++i) {
    const uint8_t more = i + 1 < kLengthBytes ? 0x80 : 0;
    *to++ = static_cast<uint8_t>(((length >> (7 * i)) & 0x7f) | more);
  }
  return slice;
}

// The value of `whole`; nullopt if these are not the first bytes of a piece with `length` bytes of
// data.
std::optional<uint64_t> ReadHeader(const std::vector<grpc::Slice>& slices, size_t length) {
  std::array<uint8_t, kHeaderBytes> bytes;
  size_t copied = 0;
  for (const grpc::Slice& slice : slices) {
    const size_t n = std::min(slice.size(), kHeaderBytes - copied);
    std::memcpy(bytes.data() + copied, slice.begin(), n);
    copied += n;
    if (copied == kHeaderBytes) break;
  }
  if (copied < kHeaderBytes) return std::nullopt;
  uint64_t whole = 0;
  for (size_t i = 0; i < sizeof(whole); ++i) {
    whole |= static_cast<uint64_t>(bytes[kWholeTag.size() + i]) << (8 * i);
  }
  const grpc::Slice expected = HeaderOf(whole, length);
  if (!std::equal(bytes.begin(), bytes.end(), expected.begin())) return std::nullopt;
  return whole;
}

std::vector<grpc::Slice> SlicesOf(const Frame& frame) {
  std::vector<grpc::Slice> slices;
  if (!frame.bytes().Dump(&slices).ok()) slices.clear();
  return slices;
}

}  // namespace

std::vector<Frame> CutFrame(const Frame& frame, size_t piece_bytes) {
  const size_t whole = frame.size();
  const std::vector<grpc::Slice> slices = SlicesOf(frame);
  std::vector<Frame> pieces;
  std::vector<grpc::Slice> piece;
  size_t slice = 0;
  size_t offset = 0;  // within the slice
  for (size_t done = 0; done < whole;) {
    const size_t length = std::min(piece_bytes, whole - done);
    piece.assign(1, HeaderOf(whole, length));
    for (size_t left = length; left > 0;) {
      const size_t n = std::min(left, slices[slice].size() - offset);
      if (n > 0) piece.push_back(slices[slice].sub(offset, offset + n));
      left -= n;
      offset += n;
      if (offset == slices[slice].size()) {
        ++slice;
        offset = 0;
      }
    }
    pieces.emplace_back(piece.data(), piece.size());
    done += length;
  }
  return pieces;
}

// The first piece of a message always has a piece's full length, so that other frames cost only a
// comparison.
bool FrameJoiner::Takes(const Frame& frame) const {
  if (whole_ > 0) return true;
  if (frame.size() != kHeaderBytes + limits_.piece_bytes) return false;
  return ReadHeader(SlicesOf(frame), limits_.piece_bytes).has_value();
}

absl::StatusOr<bool> FrameJoiner::Add(Frame piece) {
  const size_t left = whole_ > 0 ? static_cast<size_t>(whole_) - held_ : limits_.piece_bytes;
  const size_t length = std::min(limits_.piece_bytes, left);
  std::vector<grpc::Slice> slices = SlicesOf(piece);
  const std::optional<uint64_t> whole = ReadHeader(slices, length);
  const bool fits = whole.has_value() && piece.size() == kHeaderBytes + length &&
                    (whole_ == 0 ? *whole > length : *whole == whole_);
  if (!fits) {
    const size_t had = held_;
    Drop();
    return InvalidArgument("a frame of {} bytes is no piece of the message of which {} bytes came",
                           piece.size(), had);
  }
  if (*whole > limits_.message_bytes) {
    return ResourceExhausted("a message of {} bytes is over the limit of {}", *whole,
                             limits_.message_bytes);
  }
  if (unfinished_->fetch_add(length) + length > limits_.unfinished_bytes) {
    unfinished_->fetch_sub(length);
    Drop();
    return ResourceExhausted(
        "a message of {} bytes does not fit into the memory for messages that are not complete",
        *whole);
  }
  whole_ = *whole;
  held_ += length;
  size_t skip = kHeaderBytes;
  for (grpc::Slice& slice : slices) {
    const size_t n = std::min(skip, slice.size());
    skip -= n;
    if (n == slice.size()) continue;
    slices_.push_back(n == 0 ? std::move(slice) : slice.sub(n, slice.size()));
  }
  return held_ == whole_;
}

Frame FrameJoiner::Finish() {
  Frame frame(slices_.data(), slices_.size());
  Drop();
  return frame;
}

void FrameJoiner::Drop() {
  unfinished_->fetch_sub(held_);
  held_ = 0;
  whole_ = 0;
  std::vector<grpc::Slice>().swap(slices_);
}

}  // namespace cohort
