#include "common/rpc/push_pull/push_pull_decoder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kHeader = 1;
constexpr int kPayload = 2;
constexpr int kShared = 3;
// Protobuf's limit for a length-delimited field.
constexpr size_t kMaxLength = INT_MAX - 16;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// The bytes of slices, one slice after another.
class SliceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(std::span<const grpc::Slice> slices) : slices_(slices) {}

  bool Next(const void** data, int* size) override {
    while (next_ < slices_.size() && offset_ == slices_[next_].size()) {
      ++next_;
      offset_ = 0;
    }
    if (next_ == slices_.size()) return false;
    *data = slices_[next_].begin() + offset_;
    *size = static_cast<int>(slices_[next_].size() - offset_);
    offset_ = slices_[next_].size();
    count_ += *size;
    return true;
  }
  void BackUp(int count) override {
    offset_ -= static_cast<size_t>(count);
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0) {
      if (!Next(&data, &size)) return false;
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

  // The slice that Next has returned last, and the offset behind what it has returned of it.
  size_t slice() const { return next_; }
  size_t offset() const { return offset_; }

 private:
  const std::span<const grpc::Slice> slices_;
  size_t next_ = 0;
  size_t offset_ = 0;  // within the slice
  int64_t count_ = 0;
};

}  // namespace

// Walks over the fields of the frame.
class PushPullDecoder::Parser {
 public:
  Parser(PushPullDecoder* decoder, google::protobuf::MessageLite* header)
      : decoder_(decoder), header_(header), slices_(decoder->slices_), input_(&slices_) {}

  // Returns null if the frame is well-formed, else what is wrong.
  const char* Parse() {
    while (Position() < decoder_->frame_bytes_) {
      const uint32_t tag = input_.ReadTag();
      if (tag == 0) return "a malformed field tag";
      if (tag == TagOf(kHeader)) {
        if (!ReadHeader()) return too_long_ ? "a header that is too long" : "a malformed header";
      } else if (tag == TagOf(kPayload)) {
        if (!ReadPayload()) return "a payload beyond the end of the frame";
        if (decoder_->payloads_.size() > kMaxPayloads) return "too many payloads";
      } else if (tag == TagOf(kShared)) {
        if (!ReadShared()) {
          return too_long_ ? "a shared-payload field that is too long"
                           : "a malformed shared-payload field";
        }
      } else if (!WireFormatLite::SkipField(&input_, tag)) {
        return "a malformed unknown field";
      }
    }
    return nullptr;
  }

 private:
  bool ReadLength(int* length) {
    return input_.ReadVarintSizeAsInt(length) &&
           static_cast<size_t>(*length) <= decoder_->frame_bytes_ - Position();
  }
  size_t Position() const { return static_cast<size_t>(input_.CurrentPosition()); }

  // True if headers and shared-payload fields of the frame stay within their limit with `length`
  // more bytes.
  bool HasRoom(int length) {
    too_long_ = static_cast<size_t>(length) > header_room_;
    if (!too_long_) header_room_ -= static_cast<size_t>(length);
    return !too_long_;
  }

  bool ReadHeader() {
    int length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    const void* bytes = nullptr;
    int here = 0;
    if (!std::exchange(header_seen_, true) && input_.GetDirectBufferPointer(&bytes, &here) &&
        here >= length) {
      return header_->ParseFromArray(bytes, length) && input_.Skip(length);
    }
    // It crosses slices, or is a repeated field, which is merged.
    const CodedInputStream::Limit limit = input_.PushLimit(length);
    const bool merged = header_->MergeFromCodedStream(&input_) && input_.ConsumedEntireMessage();
    input_.PopLimit(limit);
    return merged;
  }

  bool ReadPayload() {
    int length = 0;
    if (!ReadLength(&length)) return false;
    // Takes the next slice if all bytes of this one are read: a payload begins where its bytes are.
    const void* bytes = nullptr;
    int unread = 0;
    input_.GetDirectBufferPointer(&bytes, &unread);
    decoder_->payloads_.push_back(
        {static_cast<uint32_t>(slices_.slice()),
         static_cast<uint32_t>(slices_.offset() - static_cast<size_t>(unread)),
         static_cast<uint32_t>(length)});
    decoder_->payload_bytes_ += static_cast<size_t>(length);
    return input_.Skip(length);
  }

  bool ReadShared() {
    int length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    decoder_->shared_.resize(static_cast<size_t>(length));
    decoder_->has_shared_ = true;
    return input_.ReadRaw(decoder_->shared_.data(), length);
  }

  PushPullDecoder* const decoder_;
  google::protobuf::MessageLite* const header_;
  SliceStream slices_;
  CodedInputStream input_;
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
