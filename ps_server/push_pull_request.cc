#include "ps_server/push_pull_request.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/placement/shard_plan.h"

namespace cohort {
namespace {

// The most memory that a request keeps for the next one: kKeptBytes of messages, and lists of
// kKeptSlices slices of an answer and entries of a request. Only memory above that of usual
// requests is counted.
constexpr size_t kKeptBytes = 256 << 10;
constexpr size_t kKeptSlices = 4096;
constexpr size_t kUsualBytes = 72 << 10;

}  // namespace

PushPullRequest::PushPullRequest(std::shared_ptr<const RequestContext> context,
                                 const std::shared_ptr<Stream>& stream)
    : context_(std::move(context)),
      stream_(stream),
      messages_(context_->counters),
      responder_(context_->counters, context_->metrics, context_->answers),
      held_(context_->held, stream) {}

absl::Status PushPullRequest::Decode(Frame frame) {
  word_ = nullptr;
  headers_.Reset();
  newest_ = messages_.Next();
  COHORT_RETURN_IF_ERROR(newest_->decoder.Decode(std::move(frame), headers_.request()));
  context_->metrics->bytes_in->Increment(newest_->decoder.payload_bytes());
  return absl::OkStatus();
}

absl::Status PushPullRequest::Add(SharedPayloadServer* shared) {
  COHORT_RETURN_IF_ERROR(ReadSharedWord(shared));
  COHORT_RETURN_IF_ERROR(newest_->ReadPayload(*headers_.request(), word_, segment_.get(),
                                              peers_.get(), context_->pool));
  COHORT_RETURN_IF_ERROR(
      assembler_.Add(*headers_.request(), newest_->payload, newest_->fields.all()));
  return more() ? KeepMessage() : absl::OkStatus();
}

// A segment that cannot be mapped here is not mentioned in the answer, so the client does not use
// it.
absl::Status PushPullRequest::ReadSharedWord(SharedPayloadServer* shared) {
  const bool first = messages_.count() == 1;
  responder_.SetSegment(nullptr);
  if (first) {
    responder_.SetArea(0, 0);
    responder_.SetLending(nullptr, {}, 0);
    responder_.SetMapped(nullptr);
    client_ = nullptr;
    peers_ = nullptr;
  }
  if (shared == nullptr || !newest_->decoder.has_shared()) return absl::OkStatus();
  const auto bytes = newest_->decoder.shared();
  v1::SharedPayload* const word = headers_.AddWord();
  if (!word->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("the description of shared payloads is no SharedPayload message");
  }
  COHORT_ASSIGN_OR_RETURN(std::shared_ptr<SharedSegment> segment, shared->Find(*word, first));
  if (segment == nullptr) return absl::OkStatus();
  word_ = word;
  peers_ = shared->segments();
  shared->MapSegments(*word, headers_.request()->sequence(), first);
  segment_ = std::move(segment);
  responder_.SetSegment(segment_.get());
  if (!first) return absl::OkStatus();
  responder_.SetArea(word->answer_begin(), word->answer_bytes());
  responder_.SetMapped(peers_.get());
  client_ = shared->FindClient(*word, context_->pins);
  responder_.SetLending(client_,
                        {word->mapped().data(), static_cast<size_t>(word->mapped().size())},
                        headers_.request()->sequence());
  return absl::OkStatus();
}

absl::Status PushPullRequest::KeepMessage() {
  messages_.KeepNewest();
  const size_t bytes = messages_.kept_bytes() + assembler_.bytes();
  if (!held_.Hold(bytes)) {
    if (bytes > context_->held->most_alone()) return TooLarge(bytes);
    return ResourceExhausted(
        "unfinished requests hold all the memory that they may; this one has {} bytes", bytes);
  }
  return absl::OkStatus();
}

// Its client must not send it again, so it is no RESOURCE_EXHAUSTED.
absl::Status PushPullRequest::TooLarge(size_t bytes) const {
  constexpr double kMegabyte = 1e6;
  return FailedPrecondition(
      "a request has {:.0f} MB and more, and the memory of this server leaves {:.0f} MB for it "
      "beside values and slots: give the server more memory, or use more servers and a "
      "partitioner",
      static_cast<double>(bytes) / kMegabyte,
      static_cast<double>(context_->held->most_alone()) / kMegabyte);
}

void PushPullRequest::Finish() {
  held_.Complete();
  if (client_ != nullptr) {
    const auto& reading = headers_.request()->reading();
    client_->Release(headers_.request()->sequence(),
                     {reading.data(), static_cast<size_t>(reading.size())});
  }
  view_ = &assembler_.Finish();
}

absl::Status PushPullRequest::Park() {
  responder_.SetMapped(nullptr);  // the stream changes them meanwhile
  const size_t bytes =
      sizeof(*this) + headers_.bytes() + messages_.held_bytes() + assembler_.bytes();
  if (held_.HoldWhole(bytes)) return absl::OkStatus();
  return ResourceExhausted(
      "unanswered requests hold all the memory that they may; this one has {} bytes", bytes);
}

CopyLog::Answer PushPullRequest::Push() {
  if (!std::exchange(pushed_, true)) {
    context_->data_path->HandlePushes(view(), &scratch_, headers_.answer(), &marks_);
  }
  return marks_.MayAnswer();
}

void PushPullRequest::Execute() {
  Push();
  context_->data_path->WriteLog(&scratch_.log_lines);
  context_->data_path->HandlePulls(view(), headers_.answer(), &payload_);
  if (const std::shared_ptr<Stream> stream = stream_.lock()) {
    responder_.Send(headers_.answer(), payload_, stream);
  }
  payload_.clear();
}

// A part of the answer with nothing in it.
void PushPullRequest::SendLifeSign() {
  v1::PushPullResponseHeader sign;
  sign.set_sequence(headers_.request()->sequence());
  sign.set_generation(context_->data_path->generation());
  sign.set_more(true);
  if (const std::shared_ptr<Stream> stream = stream_.lock()) {
    responder_.SendPart(sign, stream.get());
  }
}

void PushPullRequest::AnswerError(const absl::Status& status) {
  v1::PushPullResponseHeader* const answer = headers_.answer();
  answer->Clear();
  answer->set_sequence(headers_.request()->sequence());
  answer->set_generation(context_->data_path->generation());
  StatusToProto(status, answer->mutable_error());
  payload_.clear();
  if (const std::shared_ptr<Stream> stream = stream_.lock()) {
    responder_.SendHeader(*answer, stream.get());
  }
}

// Many idle streams, each with the memory that its largest request took, hold as much as one large
// request.
void PushPullRequest::Clear() {
  pushed_ = false;
  marks_.Clear();
  scratch_.log_lines.clear();
  messages_.Clear();
  headers_.Trim();
  responder_.SetSegment(nullptr);
  responder_.SetLending(nullptr, {}, 0);
  responder_.SetMapped(nullptr);
  client_ = nullptr;
  peers_ = nullptr;
  segment_ = nullptr;
  assembler_.Clear();
  const size_t kept = Trim(kKeptBytes, kKeptSlices);
  if (held_.Keep(kept > kUsualBytes ? kept : 0)) return;
  Trim(0, 0);
  held_.Keep(0);
}

// Keeps at most `message_bytes` of messages, and lists of at most `entries` slices and entries.
// Returns the bytes that are kept.
size_t PushPullRequest::Trim(size_t message_bytes, size_t entries) {
  if (payload_.capacity() > entries) std::vector<PayloadSlice>().swap(payload_);
  return messages_.Trim(message_bytes) + payload_.capacity() * sizeof(PayloadSlice) +
         responder_.Trim(entries) + assembler_.Trim(entries);
}

}  // namespace cohort
