#include "common/rpc/push_pull/push_pull_decoder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr uint32_t kHeaderField = 1;
constexpr uint32_t kPayloadField = 2;
constexpr uint32_t kSharedField = 3;
// Protobuf's limits for a length-delimited field and for nested groups.
constexpr size_t kMaxLength = INT_MAX - 16;
constexpr int kMaxDepth = 100;

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

}  // namespace

// Walks over the slices of the frame. Every method returns false if the bytes are malformed. The
// rules are those of protobuf 3.21's parser (wire format:
// protobuf.dev/programming-guides/encoding).
class PushPullDecoder::Parser {
 public:
  Parser(PushPullDecoder* decoder, google::protobuf::MessageLite* header)
      : decoder_(decoder), header_(header) {
    for (const grpc::Slice& slice : decoder_->slices_) remaining_ += slice.size();
    SkipEmptySlices();
  }

  // Returns null if the frame is well-formed, else what is wrong.
  const char* Parse() {
    while (remaining_ > 0) {
      uint32_t tag = 0;
      if (!ReadTag(&tag)) return "a malformed field tag";
      if (tag == (kHeaderField << 3 | kLength)) {
        if (!ReadHeader()) return too_long_ ? "a header that is too long" : "a malformed header";
      } else if (tag == (kPayloadField << 3 | kLength)) {
        if (!ReadPayload()) return "a payload beyond the end of the frame";
        if (decoder_->payloads_.size() > kMaxPayloads) return "too many payloads";
      } else if (tag == (kSharedField << 3 | kLength)) {
        if (!ReadShared()) {
          return too_long_ ? "a shared-payload field that is too long"
                           : "a malformed shared-payload field";
        }
      } else if (!SkipField(tag, kMaxDepth)) {
        return "a malformed unknown field";
      }
    }
    return nullptr;
  }

 private:
  const grpc::Slice& slice() const { return decoder_->slices_[slice_]; }

  void SkipEmptySlices() {
    while (slice_ < decoder_->slices_.size() && offset_ == slice().size()) {
      ++slice_;
      offset_ = 0;
    }
  }

  bool Skip(size_t length) {
    if (length > remaining_) return false;
    remaining_ -= length;
    while (length > 0) {
      const size_t step = std::min(length, slice().size() - offset_);
      offset_ += step;
      length -= step;
      SkipEmptySlices();
    }
    return true;
  }

  bool ReadByte(uint8_t* byte) {
    if (remaining_ == 0) return false;
    *byte = slice().begin()[offset_++];
    --remaining_;
    SkipEmptySlices();
    return true;
  }

  // Reads at most `max_bytes` bytes. Bits beyond 64 are dropped.
  bool ReadVarint(int max_bytes, uint64_t* value) {
    *value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      uint8_t byte = 0;
      if (!ReadByte(&byte)) return false;
      *value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool ReadTag(uint32_t* tag) {
    uint64_t value = 0;
    if (!ReadVarint(5, &value)) return false;
    *tag = static_cast<uint32_t>(value);
    return *tag >> 3 != 0;
  }

  bool ReadLength(size_t* length) {
    uint64_t value = 0;
    if (!ReadVarint(5, &value) || value > kMaxLength || value > remaining_) return false;
    *length = static_cast<size_t>(value);
    return true;
  }

  // True if headers and shared-payload fields of the frame stay within their limit with `length`
  // more bytes.
  bool HasRoom(size_t length) {
    too_long_ = length > header_room_;
    if (!too_long_) header_room_ -= length;
    return !too_long_;
  }

  bool ReadHeader() {
    size_t length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    const uint8_t* bytes = nullptr;
    if (length > 0 && slice().size() - offset_ >= length) {
      bytes = slice().begin() + offset_;
      Skip(length);
    } else {
      bytes = Gather(length, &decoder_->scratch_);
    }
    const int size = static_cast<int>(length);
    if (!std::exchange(header_seen_, true)) return header_->ParseFromArray(bytes, size);
    // A repeated field is merged.
    google::protobuf::io::CodedInputStream input(bytes, size);
    return header_->MergeFromCodedStream(&input) && input.ConsumedEntireMessage();
  }

  const uint8_t* Gather(size_t length, std::vector<uint8_t>* scratch) {
    scratch->resize(length);
    for (size_t done = 0; done < length;) {
      const size_t step = std::min(length - done, slice().size() - offset_);
      std::memcpy(scratch->data() + done, slice().begin() + offset_, step);
      done += step;
      Skip(step);
    }
    return scratch->data();
  }

  bool ReadPayload() {
    size_t length = 0;
    if (!ReadLength(&length)) return false;
    decoder_->payloads_.push_back({static_cast<uint32_t>(slice_), static_cast<uint32_t>(offset_),
                                   static_cast<uint32_t>(length)});
    decoder_->payload_bytes_ += length;
    return Skip(length);
  }

  bool ReadShared() {
    size_t length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    Gather(length, &decoder_->shared_);
    decoder_->has_shared_ = true;
    return true;
  }

  bool SkipField(uint32_t tag, int depth) {
    uint64_t value = 0;
    size_t length = 0;
    switch (tag & 7) {
      case kVarint:
        return ReadVarint(10, &value);
      case kFixed64:
        return Skip(8);
      case kLength:
        return ReadLength(&length) && Skip(length);
      case kStartGroup:
        return depth > 0 && SkipGroup(tag >> 3, depth - 1);
      case kFixed32:
        return Skip(4);
      default:
        return false;
    }
  }

  bool SkipGroup(uint32_t field, int depth) {
    while (remaining_ > 0) {
      uint32_t tag = 0;
      if (!ReadTag(&tag)) return false;
      if ((tag & 7) == kEndGroup) return tag >> 3 == field;
      if (!SkipField(tag, depth)) return false;
    }
    return false;
  }

  PushPullDecoder* const decoder_;
  google::protobuf::MessageLite* const header_;
  size_t remaining_ = 0;
  size_t slice_ = 0;
  size_t offset_ = 0;  // within the slice
  bool header_seen_ = false;
  bool too_long_ = false;
  size_t header_room_ = kMaxHeaderBytes;
};

absl::Status PushPullDecoder::Decode(Frame frame, google::protobuf::MessageLite* header) {
  Clear();
  header->Clear();
  const size_t size = frame.size();
  if (size > kMaxLength) return InvalidArgument("a frame of {} bytes is too long", size);
  if (size > 0 && !frame.bytes().Dump(&slices_).ok()) {
    return InvalidArgument("a frame of {} bytes cannot be read", size);
  }
  frame_bytes_ = size;
  const char* wrong = Parser(this, header).Parse();
  NoteGrowth();
  if (counters_ != nullptr) counters_->frames_decoded.fetch_add(1, std::memory_order_relaxed);
  if (wrong == nullptr) return absl::OkStatus();
  Clear();
  return InvalidArgument("a frame of {} bytes is not a {} with payloads: {}", size,
                         header->GetTypeName(), wrong);
}

PayloadView PushPullDecoder::payload(size_t index) const {
  const Range& range = payloads_[index];
  PayloadView view;
  view.slice_ = slices_.data() + range.slice;
  view.offset_ = range.offset;
  view.size_ = range.size;
  view.counters_ = counters_;
  return view;
}

void PushPullDecoder::Clear() {
  slices_.clear();
  payloads_.clear();
  payload_bytes_ = 0;
  frame_bytes_ = 0;
  has_shared_ = false;
  shared_.clear();
}

void PushPullDecoder::NoteGrowth() {
  const size_t capacity = own_bytes();
  if (capacity == capacity_seen_) return;
  capacity_seen_ = capacity;
  if (counters_ != nullptr) counters_->allocations.fetch_add(1, std::memory_order_relaxed);
}

const uint8_t* PayloadView::contiguous() const {
  // Not null for an empty payload: null means that the bytes do not lie in one piece.
  static constexpr uint8_t kNoBytes = 0;
  if (size_ == 0) return &kNoBytes;
  return slice_->size() - offset_ >= size_ ? slice_->begin() + offset_ : nullptr;
}

void PayloadView::CopyTo(void* destination) const { PayloadCursor(*this).Read(destination, size_); }

void PayloadView::ForEachSpan(absl::FunctionRef<void(std::span<const uint8_t>)> take) const {
  PayloadCursor cursor(*this);
  while (cursor.remaining() > 0) take(cursor.Next(size_));
}

std::span<const uint8_t> PayloadCursor::Next(size_t limit) {
  if (remaining_ == 0) return {};
  while (offset_ == slice_->size()) {
    ++slice_;
    offset_ = 0;
  }
  const size_t length = std::min({limit, remaining_, slice_->size() - offset_});
  const std::span<const uint8_t> span(slice_->begin() + offset_, length);
  offset_ += length;
  remaining_ -= length;
  return span;
}

void PayloadCursor::Read(void* destination, size_t length) {
  auto* to = static_cast<uint8_t*>(destination);
  if (counters_ != nullptr) {
    counters_->bytes_copied.fetch_add(static_cast<int64_t>(length), std::memory_order_relaxed);
  }
  while (length > 0) {
    const std::span<const uint8_t> span = Next(length);
    if (span.empty()) return;
    std::memcpy(to, span.data(), span.size());
    to += span.size();
    length -= span.size();
  }
}

}  // namespace cohort
