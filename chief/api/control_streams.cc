#include "chief/api/control_streams.h"

#include <chrono>
#include <utility>

#include "chief/api/close_reason.h"
#include "chief/api/coordinator.h"
#include "chief/api/start_options.h"
#include "common/base/status.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/frame_codec.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<ControlStreams>> ControlStreams::Create(
    const CoordinatorOptions& options, LockedCore* core) {
  std::unique_ptr<ControlStreams> streams(new ControlStreams(options, core));
  const TaskLinks::Options links{
      .workers = AddressesOf(options, Role::kWorker),
      .ps = AddressesOf(options, Role::kPs),
      .security = options.security != nullptr ? options.security : Security::LoopbackOnly()};
  COHORT_ASSIGN_OR_RETURN(streams->links_,
                          TaskLinks::Create(links, &streams->loop_, streams->LinkCallbacks()));
  return streams;
}

ControlStreams::ControlStreams(const CoordinatorOptions& options, LockedCore* core)
    : cluster_(options.cluster), log_(options.log), core_(core) {}

ControlStreams::~ControlStreams() { Shutdown(); }

void ControlStreams::Start(std::function<void()> tick) {
  tick_ = std::move(tick);
  loop_.Start("control");
  loop_.Post([this] { Tick(); });
  links_->Start();
}

void ControlStreams::Tick() {
  tick_();
  loop_.After(std::chrono::milliseconds(10), [this] { Tick(); });
}

void ControlStreams::SendToWorker(int worker, const v1::ChiefToWorker& message) {
  links_->Send(WorkerTask(worker), SerializeToFrame(message));
}

void ControlStreams::SendToPs(int ps, const v1::ChiefToPs& message) {
  links_->Send(PsTask(ps), SerializeToFrame(message));
}

absl::StatusOr<int> ControlStreams::WaitUntilClosed(TimePoint deadline) {
  MutexLock lock(core_->mu());
  const auto closed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) { return open_ == 0; };
  // Even a chief that has failed waits here.
  COHORT_RETURN_IF_ERROR(core_->waits()->Wait(core_->mu(), closed, deadline).status());
  return open_;
}

void ControlStreams::Shutdown() { loop_.Shutdown(); }

TaskLinks::Callbacks ControlStreams::LinkCallbacks() {
  TaskLinks::Callbacks callbacks;
  callbacks.on_connected = [this](Task task) {
    core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
      ++open_;
      core->OnConnected(task);
    });
  };
  callbacks.on_frame = [this](Task task, const Frame& frame) { OnFrame(task, frame); };
  callbacks.on_closed = [this](Task task, const absl::Status& status, bool was_connected) {
    core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
      if (was_connected) --open_;
      if (links_->stopped()) return;
      const Address& address = cluster_.tasks(task.role).at(task.index);
      core->OnDisconnected(task, CloseReason(status, address.ToString()));
    });
  };
  return callbacks;
}

void ControlStreams::OnFrame(Task task, const Frame& frame) {
  absl::Status status;
  if (task.role == Role::kWorker) {
    v1::WorkerToChief message;
    status = ParseFromFrame(frame, &message);
    if (status.ok()) {
      core_->Input(
          [&](CoordinatorCore* core) { core->OnWorkerMessage(task.index, std::move(message)); });
    }
  } else {
    v1::PsToChief message;
    status = ParseFromFrame(frame, &message);
    if (status.ok()) {
      core_->Input([&](CoordinatorCore* core) { core->OnPsMessage(task.index, message); });
    }
  }
  if (status.ok()) return;
  log_->Failure(LogLevel::kWarning, "bad_message", Annotate(status, task.ToString()));
  links_->Reconnect(task);
}

}  // namespace cohort
