#include "worker/worker_service.h"

#include <utility>

#include "common/rpc/frame_codec.h"

namespace cohort {

class WorkerService::ControlHandler : public StreamHandler {
 public:
  ControlHandler(WorkerService* service, WorkerCore* core, const Clock* clock,
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
    core_->OnMessage(connection_, &message_);
  }

  void OnClosed(const absl::Status& status) override {
    const bool silent = !status.ok() && clock_->Now() - heard_ >= service_->options_.silence;
    core_->OnClosed(connection_, silent ? ChiefLoss::kSilent : ChiefLoss::kClosed);
    service_->Remove(connection_);
  }

 private:
  WorkerService* const service_;
  WorkerCore* const core_;
  const Clock* const clock_;
  const std::shared_ptr<Stream> stream_;
  const Adoption::Connection connection_;
  TimePoint heard_;
  v1::ChiefToWorker message_;
};

StreamServer::Methods WorkerService::Methods(WorkerCore* core, const Clock* clock) {
  return {{"/cohort.v1.Worker/Control",
           [this, core, clock](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return std::make_unique<ControlHandler>(this, core, clock, std::move(stream));
           }}};
}

Adoption::Connection WorkerService::Add(std::shared_ptr<Stream> stream) {
  MutexLock lock(&mu_);
  chiefs_[next_] = std::move(stream);
  return next_++;
}

void WorkerService::Remove(Adoption::Connection connection) {
  MutexLock lock(&mu_);
  chiefs_.erase(connection);
}

void WorkerService::Send(Adoption::Connection connection, const v1::WorkerToChief& message) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mu_);
    const auto it = chiefs_.find(connection);
    if (it == chiefs_.end()) return;
    stream = it->second;
  }
  stream->Send(SerializeToFrame(message));
}

}  // namespace cohort
