#include "common/rpc/stream/health_service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

// HealthCheckResponse{status = 1}.
Frame StatusFrame(uint8_t status) {
  const char bytes[] = {0x08, static_cast<char>(status)};
  const grpc::Slice slice(bytes, sizeof(bytes));
  return Frame(&slice, 1);
}

// The service in a HealthCheckRequest{service = 1}; nullopt if the bytes are not such a message.
std::optional<std::string> ReadService(const Frame& frame) {
  using google::protobuf::internal::WireFormatLite;
  std::string service;
  grpc::Slice slice;
  if (frame.size() == 0) return service;
  if (!frame.bytes().DumpToSingleSlice(&slice).ok()) return std::nullopt;
  google::protobuf::io::CodedInputStream input(slice.begin(), static_cast<int>(slice.size()));
  while (const uint32_t tag = input.ReadTag()) {
    if (tag == 0x0a) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length) || length > slice.size() ||
          !input.ReadString(&service, static_cast<int>(length))) {
        return std::nullopt;
      }
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return std::nullopt;
    }
  }
  if (!input.ConsumedEntireMessage()) return std::nullopt;
  return service;
}

}  // namespace

class HealthService::Handler : public StreamHandler {
 public:
  Handler(HealthService* health, std::shared_ptr<Stream> stream, bool watch)
      : health_(health), stream_(std::move(stream)), watch_(watch) {}
  ~Handler() override {
    MutexLock lock(&health_->mu_);
    health_->watchers_.erase(this);
  }

  void OnFrame(Frame frame) override {
    std::optional<std::string> service = ReadService(frame);
    if (!service.has_value()) return stream_->Close(InvalidArgument("not a HealthCheckRequest"));
    MutexLock lock(&health_->mu_);
    const Status status = health_->StatusLocked(*service);
    if (!watch_ && status == kServiceUnknown) {
      return stream_->Close(NotFound("unknown service {}", *service));
    }
    stream_->Send(StatusFrame(status));
    if (!watch_) return stream_->Close(absl::OkStatus());
    health_->watchers_[this] = {stream_, *std::move(service)};
  }
  bool OnPeerHalfClosed() override { return !watch_; }
  void OnClosed(const absl::Status&) override {}

 private:
  HealthService* const health_;
  const std::shared_ptr<Stream> stream_;
  const bool watch_;
};

HealthService::HealthService(const std::vector<std::string>& services)
    : services_(services.begin(), services.end()) {}

HealthService::Status HealthService::StatusLocked(const std::string& service) const {
  if (!service.empty() && services_.count(service) == 0) return kServiceUnknown;
  return serving_ ? kServing : kNotServing;
}

void HealthService::SetServing(bool serving) {
  MutexLock lock(&mu_);
  if (std::exchange(serving_, serving) == serving) return;
  for (const auto& [handler, watcher] : watchers_) {
    const Status status = StatusLocked(watcher.second);
    if (status != kServiceUnknown) watcher.first->Send(StatusFrame(status));
  }
}

std::map<std::string, StreamHandlerFactory> HealthService::Methods() {
  const auto factory = [this](bool watch) {
    return [this, watch](std::shared_ptr<Stream> stream, CompletionLoop*) {
      return std::make_unique<Handler>(this, std::move(stream), watch);
    };
  };
  return {{"/grpc.health.v1.Health/Check", factory(false)},
          {"/grpc.health.v1.Health/Watch", factory(true)}};
}

}  // namespace cohort
