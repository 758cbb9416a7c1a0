#include "ps_server/data_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/ps_core.h"
#include "ps_server/response_chunks.h"

namespace cohort {
namespace {

constexpr size_t kAlignment = 8;
// Headers of usual requests and their answers fit; longer ones are allocated.
constexpr size_t kArenaBytes = 32 << 10;
// What a stream keeps of the memory of one request for the next: of its messages so much together,
// and of what else a request of one message takes. Above what usual requests need it is counted.
constexpr size_t kKeptBytes = 256 << 10;
constexpr size_t kKeptStaging = 1 << 20;
constexpr size_t kKeptSlices = 4096;  // of an answer; and entries of a request
constexpr size_t kUsualBytes = 64 << 10;
// Smaller payloads are cheaper to copy than to gather.
constexpr size_t kPiecesFrom = 16 << 10;

google::protobuf::ArenaOptions ArenaIn(char* memory) {
  google::protobuf::ArenaOptions options;
  options.initial_block = memory;
  options.initial_block_size = kArenaBytes;
  return options;
}

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool InPlace(const PayloadView& view) {
  const uint8_t* const bytes = view.contiguous();
  return bytes != nullptr && reinterpret_cast<uintptr_t>(bytes) % kAlignment == 0;
}

}  // namespace

size_t DataStream::Message::own_bytes() const {
  return sizeof(*this) + decoder.own_bytes() + payload.capacity() * sizeof(payload[0]) +
         pieces.capacity() * sizeof(pieces[0]) + piece_counts.capacity() * sizeof(piece_counts[0]) +
         pieces_of.capacity() * sizeof(pieces_of[0]);
}

size_t DataStream::Message::held_bytes() const {
  return own_bytes() + decoder.frame_bytes() + (staging ? staging->size() : 0);
}

DataStream::DataStream(PsCore* core, CodecCounters* counters, size_t max_request_bytes,
                       HeldBytes* held, std::shared_ptr<Stream> stream)
    : core_(core),
      counters_(counters),
      max_request_bytes_(max_request_bytes),
      stream_(std::move(stream)),
      encoder_(counters),
      arena_memory_(std::make_unique<char[]>(kArenaBytes)),
      arena_(ArenaIn(arena_memory_.get())),
      held_(held, stream_),
      on_unix_socket_(stream_->peer().uses_unix_socket()) {
  ResetHeaders();
}

DataStream::~DataStream() = default;

void DataStream::ResetHeaders() {
  word_ = nullptr;
  arena_.Reset();
  request_header_ = google::protobuf::Arena::CreateMessage<v1::PushPullHeader>(&arena_);
  response_header_ = google::protobuf::Arena::CreateMessage<v1::PushPullResponseHeader>(&arena_);
}

void DataStream::OnFrame(Frame frame) {
  ResetHeaders();
  Message* const message = NextMessage();
  absl::Status status = message->decoder.Decode(std::move(frame), request_header_);
  if (!status.ok()) {
    core_->metrics()->bad_requests->Increment();
    stream_->Close(status);
    return;
  }
  core_->metrics()->bytes_in->Increment(message->decoder.payload_bytes());
  status = Add(message);
  const bool more = request_header_->more();
  if (status.ok() && more) status = KeepPart(message);
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  if (more) return;
  held_.Complete();
  Execute(assembler_.Finish());
  EndRequest();
}

void DataStream::OnClosed(const absl::Status&) {
  EndRequest();
  GiveBack();
}

DataStream::Message* DataStream::NextMessage() {
  ++parts_;
  if (used_ == messages_.size()) {
    messages_.push_back(std::make_unique<Message>(counters_, /*small=*/used_ > 0));
  }
  return messages_[used_++].get();
}

// Until the rest of the request comes: its payloads, and nothing of a message that has none.
absl::Status DataStream::KeepPart(Message* message) {
  if (message->payload.empty()) {
    message->decoder.Clear();
    --used_;
  } else {
    kept_bytes_ += message->held_bytes();
  }
  const size_t bytes = kept_bytes_ + assembler_.bytes();
  // Add has limited the payload. It is held at most twice: as received, and copied into one piece.
  if (bytes > max_request_bytes_ + 2 * request_bytes_) {
    return ResourceExhausted("a request that takes more than {} bytes beside its payload",
                             max_request_bytes_);
  }
  if (!held_.Hold(bytes)) {
    return ResourceExhausted(
        "requests whose end has not come hold all that they may; this one has {} bytes", bytes);
  }
  return absl::OkStatus();
}

absl::Status DataStream::Add(Message* message) {
  COHORT_RETURN_IF_ERROR(ReadSharedWord(message));
  request_bytes_ += message->decoder.payload_bytes();
  if (word_ != nullptr) {
    for (const uint64_t length : word_->length()) request_bytes_ += length;
  }
  if (request_bytes_ > max_request_bytes_) {
    return ResourceExhausted("a request of more than {} bytes", max_request_bytes_);
  }
  if (word_ != nullptr && word_->begin_size() > 0) {
    COHORT_RETURN_IF_ERROR(FindSharedPayload(message));
  } else {
    FindPayload(message);
  }
  return assembler_.Add(*request_header_, message->payload, message->pieces_of);
}

// A segment that is offered is mapped; one that cannot be is not told to the client as accepted.
absl::Status DataStream::ReadSharedWord(Message* message) {
  word_ = nullptr;
  if (parts_ == 1) answer_next_ = answer_end_ = 0;
  if (!message->decoder.has_shared() || !on_unix_socket_) return absl::OkStatus();
  const Bytes bytes = message->decoder.shared();
  auto* const word = google::protobuf::Arena::CreateMessage<v1::SharedPayload>(&arena_);
  if (!word->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      word->begin_size() != word->length_size()) {
    return InvalidArgument("a word about shared payloads that makes no sense");
  }
  if (segment_ == nullptr || segment_->id() != word->id()) {
    if (parts_ > 1) return InvalidArgument("another shared segment within one request");
    segment_ = nullptr;
    auto opened = SharedSegment::Open(word->pid(), word->fd(), word->id(), word->bytes());
    if (opened.ok()) segment_ = *std::move(opened);
  }
  if (segment_ == nullptr) {
    if (word->begin_size() == 0) return absl::OkStatus();
    return InvalidArgument("payloads in a shared segment that cannot be opened here");
  }
  word_ = word;
  if (parts_ == 1 && segment_->Contains(word->answer_begin(), word->answer_bytes())) {
    answer_next_ = word->answer_begin();
    answer_end_ = word->answer_begin() + word->answer_bytes();
  }
  return absl::OkStatus();
}

// Values of dense gradients are read where they lie. The rest is copied: the client could change it
// after it was checked.
absl::Status DataStream::FindSharedPayload(Message* message) {
  const auto count = static_cast<size_t>(word_->begin_size());
  if (message->decoder.payload_count() > 0) {
    return InvalidArgument("payloads both in the message and in shared memory");
  }
  MarkDenseGradients(count);
  message->payload.clear();
  message->pieces_of.clear();
  size_t to_copy = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t begin = word_->begin(static_cast<int>(i));
    const uint64_t length = word_->length(static_cast<int>(i));
    if (!segment_->Contains(begin, length)) {
      return InvalidArgument("payload {} is not in the shared segment", i);
    }
    message->payload.push_back(segment_->At(begin, length));
    if (!dense_gradients_[i]) to_copy += Aligned(length);
  }
  if (to_copy > max_request_bytes_) return ResourceExhausted("payloads of {} bytes", to_copy);
  if (to_copy > 0 && (!message->staging || message->staging->size() < to_copy)) {
    message->staging = core_->pool()->Allocate(to_copy);
  }
  uint8_t* to = to_copy == 0 ? nullptr : message->staging->data();
  for (size_t i = 0; i < count; ++i) {
    const Bytes shared = message->payload[i];
    if (dense_gradients_[i] || shared.empty()) continue;
    std::memcpy(to, shared.data(), shared.size());
    message->payload[i] = {to, shared.size()};
    to += Aligned(shared.size());
    counters_->bytes_copied.fetch_add(static_cast<int64_t>(shared.size()));
  }
  return absl::OkStatus();
}

// Which payloads are the values of dense gradients: those are the entries' in order, two of a
// sparse entry and none of one without values.
void DataStream::MarkDenseGradients(size_t payloads) {
  dense_gradients_.assign(payloads, false);
  size_t next = 0;
  for (const v1::PushSection& section : request_header_->push().sections()) {
    for (const v1::PushEntry& entry : section.entries()) {
      if (entry.kind() == v1::RECORD_ONLY) continue;
      const bool dense_gradient = !entry.sparse() && entry.kind() == v1::GRADIENT;
      if (dense_gradient && next < payloads) dense_gradients_[next] = true;
      next += entry.sparse() ? 2 : 1;
    }
  }
}

void DataStream::FindPayload(Message* message) {
  const size_t count = message->decoder.payload_count();
  MarkDenseGradients(count);
  message->payload.assign(count, {});
  message->pieces.clear();
  message->piece_counts.assign(count, 0);
  size_t to_copy = 0;
  for (size_t i = 0; i < count; ++i) {
    const PayloadView view = message->decoder.payload(i);
    if (InPlace(view)) {
      message->payload[i] = {view.contiguous(), view.size()};
    } else if (dense_gradients_[i] && view.size() >= kPiecesFrom) {
      const size_t first = message->pieces.size();
      view.ForEachSpan([message](Bytes piece) { message->pieces.push_back(piece); });
      message->piece_counts[i] = message->pieces.size() - first;
    } else {
      to_copy += Aligned(view.size());
    }
  }
  CopyWhatMustBeInOnePiece(message, to_copy);
  message->pieces_of.assign(count, {});
  const Bytes* next = message->pieces.data();
  for (size_t i = 0; i < count; ++i) {
    message->pieces_of[i] = {next, message->piece_counts[i]};
    next += message->piece_counts[i];
  }
}

void DataStream::CopyWhatMustBeInOnePiece(Message* message, size_t bytes) {
  if (bytes == 0) return;
  if (!message->staging || message->staging->size() < bytes) {
    message->staging = core_->pool()->Allocate(bytes);
  }
  uint8_t* to = message->staging->data();
  for (size_t i = 0; i < message->payload.size(); ++i) {
    if (message->payload[i].data() != nullptr || message->piece_counts[i] > 0) continue;
    const PayloadView view = message->decoder.payload(i);
    view.CopyTo(to);
    message->payload[i] = {to, view.size()};
    to += Aligned(view.size());
  }
}

void DataStream::Execute(const RequestView& request) {
  payload_.clear();
  core_->data_path()->Handle(request, &scratch_, response_header_, &payload_);
  ForEachChunk(response_header_, payload_, kResponseChunkBytes,
               [this](const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload) {
                 Send(header, payload);
               });
  payload_.clear();
}

void DataStream::Send(const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload) {
  const bool placed = PlaceAnswer(payload);
  for (PayloadSlice& slice : payload) {
    core_->metrics()->bytes_out->Increment(slice.bytes);
    if (placed) continue;
    encoder_.BeginPayload();
    encoder_.Append(std::move(slice.buffer), slice.offset, slice.bytes);
  }
  stream_->Send(encoder_.Finish(header, word_ == nullptr ? nullptr : &answer_word_));
}

// Copies the values to where the client has set memory aside, if it has and they fit. The
// references are given up, so that an apply that follows need not write the blocks anew.
bool DataStream::PlaceAnswer(std::span<PayloadSlice> payload) {
  if (word_ == nullptr) return false;
  answer_word_.Clear();
  answer_word_.set_id(segment_->id());
  size_t rounded = 0;
  size_t bytes = 0;
  for (const PayloadSlice& slice : payload) {
    rounded += SharedSegment::Aligned(slice.bytes);
    bytes += slice.bytes;
  }
  if (bytes < kPiecesFrom || rounded > answer_end_ - answer_next_) return false;
  for (PayloadSlice& slice : payload) {
    std::memcpy(segment_->At(answer_next_, slice.bytes).data(), slice.buffer->data() + slice.offset,
                slice.bytes);
    answer_word_.add_begin(answer_next_);
    answer_word_.add_length(slice.bytes);
    answer_next_ += SharedSegment::Aligned(slice.bytes);
    slice.buffer = BufferRef();
  }
  counters_->bytes_placed.fetch_add(static_cast<int64_t>(bytes));
  return true;
}

// A request that makes no sense as a whole. When it has more messages they cannot be told from a
// new request, so the stream ends with it.
void DataStream::Refuse(const absl::Status& status) {
  core_->metrics()->bad_requests->Increment();
  if (parts_ > 1 || request_header_->more()) {
    stream_->Close(status);
    EndRequest();
    GiveBack();
    return;
  }
  response_header_->set_sequence(request_header_->sequence());
  response_header_->set_generation(core_->data_path()->generation());
  StatusToProto(status, response_header_->mutable_error());
  stream_->Send(encoder_.Finish(*response_header_));
  EndRequest();
}

// What gRPC received goes back to it. Of the memory what a usual request needs is kept.
void DataStream::EndRequest() {
  for (size_t i = 0; i < used_; ++i) {
    Message* const message = messages_[i].get();
    message->decoder.Clear();
    // A large request's staging is given back: it is for one request in many.
    const bool large = message->staging && message->staging->size() > kKeptStaging;
    if (parts_ > 1 || large) message->staging = BufferRef();
  }
  if (arena_.SpaceAllocated() > kArenaBytes) ResetHeaders();
  used_ = 0;
  parts_ = 0;
  request_bytes_ = 0;
  kept_bytes_ = 0;
  assembler_.Clear();
  KeepForNext();
}

// Many idle streams, each with what its largest request took, are no less than one large request.
void DataStream::KeepForNext() {
  const size_t kept = Trim(kKeptBytes, kKeptSlices);
  if (!held_.Keep(kept > kUsualBytes ? kept : 0)) GiveBack();
}

void DataStream::GiveBack() {
  Trim(0, 0);
  held_.Keep(0);
}

// Keeps so many bytes of messages, and the lists of so many slices and entries. Returns the bytes
// of all that is kept.
size_t DataStream::Trim(size_t message_bytes, size_t entries) {
  size_t kept = 0;
  std::erase_if(messages_, [&kept, message_bytes](const auto& message) {
    const size_t bytes = message->own_bytes();
    if (bytes > message_bytes - kept) return true;
    kept += bytes;
    return false;
  });
  for (const auto& message : messages_) kept += message->staging ? message->staging->size() : 0;
  if (payload_.capacity() > entries) std::vector<PayloadSlice>().swap(payload_);
  kept += payload_.capacity() * sizeof(PayloadSlice);
  if (static_cast<size_t>(answer_word_.begin_size()) > entries) {
    v1::SharedPayload().Swap(&answer_word_);
  }
  return kept + encoder_.Trim(entries) + assembler_.Trim(entries);
}

}  // namespace cohort
