#include "ps_server/ps_service.h"

#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/frame_codec.h"
#include "common/rpc/status_proto.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/request_assembler.h"
#include "ps_server/response_chunks.h"

namespace cohort {

// ------------------------------------------------------------------ control

class PsService::ControlHandler : public StreamHandler {
 public:
  ControlHandler(PsService* service, PsCore* core, const Clock* clock,
                 std::shared_ptr<Stream> stream)
      : service_(service),
        core_(core),
        clock_(clock),
        stream_(stream),
        connection_(service->Add(std::move(stream))),
        heard_(clock->Now()) {}

  void OnFrame(Frame frame) override {
    heard_ = clock_->Now();
    if (const absl::Status status = ParseFromFrame(frame, &message_); !status.ok()) {
      stream_->Close(status);
      return;
    }
    core_->OnMessage(connection_, message_);
  }

  void OnClosed(const absl::Status& status) override {
    const bool silent = !status.ok() && clock_->Now() - heard_ >= service_->options_.silence;
    core_->OnClosed(connection_, silent ? ChiefLoss::kSilent : ChiefLoss::kClosed);
    service_->Remove(connection_);
  }

 private:
  PsService* const service_;
  PsCore* const core_;
  const Clock* const clock_;
  const std::shared_ptr<Stream> stream_;
  const Adoption::Connection connection_;
  TimePoint heard_;
  v1::ChiefToPs message_;
};

Adoption::Connection PsService::Add(std::shared_ptr<Stream> stream) {
  MutexLock lock(&mu_);
  chiefs_[next_] = std::move(stream);
  return next_++;
}

void PsService::Remove(Adoption::Connection connection) {
  MutexLock lock(&mu_);
  chiefs_.erase(connection);
}

void PsService::Send(Adoption::Connection connection, const v1::PsToChief& message) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mu_);
    const auto it = chiefs_.find(connection);
    if (it == chiefs_.end()) return;
    stream = it->second;
  }
  stream->Send(SerializeToFrame(message));
}

// ------------------------------------------------------------------ data path

// One client's stream. All calls come on one thread. Memory is used again from request to request.
class PsService::DataHandler : public StreamHandler {
 public:
  DataHandler(PsService* service, PsCore* core, std::shared_ptr<Stream> stream)
      : service_(service),
        core_(core),
        stream_(std::move(stream)),
        encoder_(&service->codec_counters_),
        decoder_(&service->codec_counters_) {}

  void OnFrame(Frame frame) override {
    absl::Status status = decoder_.Decode(std::move(frame), &request_header_);
    if (!status.ok()) {
      core_->metrics()->bad_requests->Increment();
      stream_->Close(status);
      return;
    }
    core_->metrics()->bytes_in->Increment(decoder_.payload_bytes());
    status = Add();
    if (!status.ok()) {
      Refuse(status);
      return;
    }
    if (request_header_.more()) {
      kept_.push_back({std::move(decoder_), std::move(staging_)});
      decoder_ = PushPullDecoder(&service_->codec_counters_);
      return;
    }
    Execute(assembler_.Finish());
    kept_.clear();
    kept_bytes_ = 0;
    decoder_.Clear();
  }

  void OnClosed(const absl::Status&) override {}

 private:
  // A message of a request that is not complete, and the memory of its payloads.
  struct Kept {
    PushPullDecoder decoder;
    BufferRef staging;
  };

  absl::Status Add() {
    kept_bytes_ += decoder_.payload_bytes();
    if (kept_bytes_ > service_->options_.max_request_bytes) {
      return ResourceExhausted("a request of more than {} bytes",
                               service_->options_.max_request_bytes);
    }
    FindPayload();
    return assembler_.Add(request_header_, spans_);
  }

  // Payloads in one piece and aligned: those that are not are copied, once.
  void FindPayload() {
    constexpr size_t kAlignment = 8;
    const auto usable = [](const PayloadView& view) {
      return view.size() == 0 || (view.contiguous() != nullptr &&
                                  reinterpret_cast<uintptr_t>(view.contiguous()) % kAlignment == 0);
    };
    size_t to_copy = 0;
    for (size_t i = 0; i < decoder_.payload_count(); ++i) {
      const PayloadView view = decoder_.payload(i);
      if (!usable(view)) to_copy += (view.size() + kAlignment - 1) / kAlignment * kAlignment;
    }
    if (to_copy > 0 && (!staging_ || staging_->size() < to_copy)) {
      staging_ = core_->pool()->Allocate(to_copy);
    }
    spans_.clear();
    size_t at = 0;
    for (size_t i = 0; i < decoder_.payload_count(); ++i) {
      const PayloadView view = decoder_.payload(i);
      if (usable(view)) {
        spans_.emplace_back(view.contiguous(), view.size());
        continue;
      }
      uint8_t* const copy = staging_->data() + at;
      view.CopyTo(copy);
      spans_.emplace_back(copy, view.size());
      at += (view.size() + kAlignment - 1) / kAlignment * kAlignment;
    }
  }

  void Execute(const RequestView& request) {
    response_header_.Clear();
    payload_.clear();
    core_->data_path()->Handle(request, &scratch_, &response_header_, &payload_);
    ForEachChunk(&response_header_, payload_, kResponseChunkBytes,
                 [this](const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload) {
                   for (PayloadSlice& slice : payload) {
                     core_->metrics()->bytes_out->Increment(slice.bytes);
                     encoder_.BeginPayload();
                     encoder_.Append(std::move(slice.buffer), slice.offset, slice.bytes);
                   }
                   stream_->Send(encoder_.Finish(header));
                 });
    payload_.clear();
  }

  // A request that makes no sense as a whole. When it has more messages they cannot be told from a
  // new request, so the stream ends with it.
  void Refuse(const absl::Status& status) {
    core_->metrics()->bad_requests->Increment();
    if (!kept_.empty() || request_header_.more()) {
      stream_->Close(status);
      return;
    }
    response_header_.Clear();
    response_header_.set_sequence(request_header_.sequence());
    response_header_.set_generation(core_->data_path()->generation());
    StatusToProto(status, response_header_.mutable_error());
    stream_->Send(encoder_.Finish(response_header_));
    kept_bytes_ = 0;
    decoder_.Clear();
  }

  PsService* const service_;
  PsCore* const core_;
  const std::shared_ptr<Stream> stream_;
  PushPullEncoder encoder_;
  PushPullDecoder decoder_;
  BufferRef staging_;
  v1::PushPullHeader request_header_;
  v1::PushPullResponseHeader response_header_;
  std::vector<std::span<const uint8_t>> spans_;
  RequestAssembler assembler_;
  std::vector<Kept> kept_;
  size_t kept_bytes_ = 0;
  DataPathScratch scratch_;
  std::vector<PayloadSlice> payload_;
};

StreamServer::Methods PsService::Methods(PsCore* core, const Clock* clock) {
  return {{"/cohort.v1.ParameterServer/Control",
           [this, core, clock](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return std::make_unique<ControlHandler>(this, core, clock, std::move(stream));
           }},
          {"/cohort.v1.ParameterServer/PushPull",
           [this, core](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return std::make_unique<DataHandler>(this, core, std::move(stream));
           }}};
}

}  // namespace cohort
