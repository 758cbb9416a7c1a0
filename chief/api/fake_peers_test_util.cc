#include "chief/api/fake_peers_test_util.h"

#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/protocol_version.h"
#include "common/cluster/task_run.h"
#include "common/os/identity.h"
#include "common/rpc/stream/frame.h"

namespace cohort {

class FakePeer::Handler : public StreamHandler {
 public:
  Handler(FakePeer* peer, std::shared_ptr<Stream> stream)
      : peer_(peer), stream_(std::move(stream)) {
    ++peer_->streams_;
  }
  void OnFrame(Frame frame) override {
    if (peer_->cannot_parse) {  // as ChiefStreams does
      return stream_->Close(InvalidArgument("a frame of 7 bytes is not a cohort.v1.ChiefToWorker"));
    }
    if (peer_->sends_noise) {
      const grpc::Slice noise("\x0a\xff\xff");
      return stream_->Send(Frame(&noise, 1));
    }
    if (peer_->task_.role == Role::kWorker) {
      v1::ChiefToWorker message;
      if (ParseFromFrame(frame, &message).ok()) peer_->OnWorkerMessage(stream_.get(), message);
    } else {
      v1::ChiefToPs message;
      if (ParseFromFrame(frame, &message).ok()) peer_->OnPsMessage(stream_.get(), message);
    }
  }
  void OnClosed(const absl::Status&) override { --peer_->streams_; }

 private:
  FakePeer* const peer_;
  const std::shared_ptr<Stream> stream_;
};

FakePeer::FakePeer(Task task) : task_(task), incarnation_(RandomIncarnation()) {
  const char* method = task.role == Role::kWorker ? "/cohort.v1.Worker/Control"
                                                  : "/cohort.v1.ParameterServer/Control";
  StreamServer::Options options;
  options.listen = {"127.0.0.1:0"};
  server_ = *StreamServer::Start(options,
                                 {{method, [this](std::shared_ptr<Stream> stream, CompletionLoop*) {
                                     return std::make_unique<Handler>(this, std::move(stream));
                                   }}});
}

FakePeer::~FakePeer() { Kill(); }

void FakePeer::Kill() { server_->Shutdown(Unavailable("killed"), std::chrono::milliseconds(0)); }

void FakePeer::Leave() {
  server_->Shutdown(EndedInOrder(Unavailable("SIGTERM")), std::chrono::milliseconds(0));
}

std::string FakePeer::shutdown_reason() const {
  MutexLock lock(&mu_);
  return shutdown_;
}

std::vector<std::string> FakePeer::resources() const {
  MutexLock lock(&mu_);
  return resources_;
}

void FakePeer::OnWorkerMessage(Stream* stream, const v1::ChiefToWorker& message) {
  v1::WorkerToChief answer;
  answer.set_request(message.request());
  answer.set_generation(message.generation());
  switch (message.body_case()) {
    case v1::ChiefToWorker::kAdopt:
      answer.mutable_hello()->mutable_task()->set_type("worker");
      SetProtocolVersion(answer.mutable_hello());
      answer.mutable_hello()->mutable_task()->set_index(task_.index);
      answer.mutable_hello()->set_incarnation(incarnation_);
      answer.mutable_hello()->set_heard_generation(heard_generation);
      break;
    case v1::ChiefToWorker::kProgram:
      break;
    case v1::ChiefToWorker::kResource: {
      MutexLock lock(&mu_);
      resources_.push_back(message.resource().name());
      break;
    }
    case v1::ChiefToWorker::kDispatch:
      for (const v1::Closure& closure : message.dispatch().closures()) {
        if (!hold) Run(stream, closure);
      }
      return;
    case v1::ChiefToWorker::kCancel: {
      if (message.cancel().ids().empty() || message.cancel().queued_only()) return;
      for (const uint64_t id : message.cancel().ids()) {
        v1::ClosureResult* result = answer.mutable_results()->add_results();
        result->set_id(id);
        result->set_attempt(1);
        StatusToProto(Cancelled("asked for"), result->mutable_status());
      }
      answer.set_request(0);
      break;
    }
    case v1::ChiefToWorker::kPing:
      answer.mutable_pong()->mutable_figures()->set_memory_bytes(kFakeMemoryBytes);
      break;
    case v1::ChiefToWorker::kShutdown: {
      {
        MutexLock lock(&mu_);
        shutdown_ = message.shutdown().reason();
      }
      stream->Close(absl::OkStatus());
      return;
    }
    default:
      return;
  }
  stream->Send(SerializeToFrame(answer));
}

void FakePeer::Run(Stream* stream, const v1::Closure& closure) {
  v1::WorkerToChief answer;
  v1::ClosureResult* result = answer.mutable_results()->add_results();
  result->set_id(closure.id());
  result->set_attempt(closure.attempt());
  if (closure.arguments_size() >= kTooMany) {
    StatusToProto(InvalidArgument("too many arguments"), result->mutable_status());
  } else {
    ++executed;
    result->set_steps(closure.steps());
    v1::TensorValue* output = result->add_outputs();
    const float value = static_cast<float>(closure.place());
    output->set_dtype(v1::FLOAT32);
    output->set_data(&value, sizeof(value));
    v1::MetricValue* metric = result->add_metrics();
    metric->set_name("loss");
    metric->set_total(2);
    metric->set_count(1);
  }
  stream->Send(SerializeToFrame(answer));
}

void FakePeer::SetSeesDirectory(std::function<bool(const std::string& token)> sees_directory) {
  MutexLock lock(&mu_);
  sees_directory_ = std::move(sees_directory);
}

void FakePeer::OnPsMessage(Stream* stream, const v1::ChiefToPs& message) {
  v1::PsToChief answer;
  answer.set_request(message.request());
  answer.set_generation(message.generation());
  MutexLock lock(&mu_);
  switch (message.body_case()) {
    case v1::ChiefToPs::kAdopt: {
      v1::PsHello* hello = answer.mutable_hello();
      SetProtocolVersion(hello);
      hello->mutable_task()->set_type("ps");
      hello->mutable_task()->set_index(task_.index);
      hello->set_incarnation(incarnation_);
      hello->set_sees_checkpoint_dir(sees_directory_ == nullptr ||
                                     sees_directory_(message.adopt().directory_token()));
      hello->set_cores(1);
      hello->set_job(job_);
      hello->set_timeline(timeline);
      for (const uint32_t tablet : tablets_) hello->add_tablets(tablet);
      break;
    }
    case v1::ChiefToPs::kAssign:
      job_ = "job";
      timeline = message.assign().timeline();
      tablets_.clear();
      for (const v1::TabletSpec& tablet : message.assign().layout().tablets()) {
        if (tablet.ps() == static_cast<uint32_t>(task_.index)) tablets_.insert(tablet.tablet());
      }
      answer.mutable_assigned()->set_timeline(timeline);
      break;
    case v1::ChiefToPs::kSnapshot:
      if (refuse_snapshots) {
        StatusToProto(ResourceExhausted("disk full"), answer.mutable_status());
        break;
      }
      answer.mutable_snapshot_taken()->set_cut(message.snapshot().cut());
      stream->Send(SerializeToFrame(answer));
      // Without a shard of its own, as a server has that no tablet was placed on. As a server, it
      // creates the checkpoint's directory, and not the one of all checkpoints.
      ::mkdir(message.snapshot().directory().c_str(), 0777);
      answer.mutable_snapshot_written()->set_cut(message.snapshot().cut());
      break;
    case v1::ChiefToPs::kLearningRates:
      break;
    case v1::ChiefToPs::kPing:
      answer.mutable_pong()->mutable_figures()->set_memory_bytes(kFakeMemoryBytes);
      break;
    case v1::ChiefToPs::kShutdown:
      shutdown_ = message.shutdown().reason();
      stream->Close(absl::OkStatus());
      return;
    default:
      return;
  }
  stream->Send(SerializeToFrame(answer));
}

}  // namespace cohort
