#include "ps_server/data_stream.h"

#include <utility>

namespace cohort {

DataStream::DataStream(std::shared_ptr<const RequestContext> context,
                       std::shared_ptr<Stream> stream)
    : context_(std::move(context)),
      stream_(std::move(stream)),
      on_unix_socket_(stream_->peer().uses_unix_socket()) {}

void DataStream::OnFrame(Frame frame) {
  if (request_ == nullptr) request_ = std::make_unique<PushPullRequest>(context_, stream_);
  absl::Status status = request_->Decode(std::move(frame));
  if (!status.ok()) {
    context_->metrics->bad_requests->Increment();
    stream_->Close(status);
    return;
  }
  status = request_->Add(on_unix_socket_ ? &shared_ : nullptr);
  if (!status.ok()) return Refuse(status);
  if (request_->more()) return;
  request_->Finish();
  request_ = context_->execute(std::move(request_));
  if (request_ != nullptr) request_->Clear();
}

void DataStream::OnClosed(const absl::Status&) { request_ = nullptr; }

// The messages that follow a bad one look like a new request, so a request of several messages ends
// its stream. A client repeats a request whose stream has ended, so what it must not try again is
// an answer.
void DataStream::Refuse(const absl::Status& status) {
  context_->metrics->bad_requests->Increment();
  if (request_->is_single()) {
    request_->AnswerError(status);
    request_->Clear();
    return;
  }
  if (!absl::IsResourceExhausted(status)) request_->AnswerError(status);
  stream_->Close(status);
  request_ = nullptr;
}

}  // namespace cohort
