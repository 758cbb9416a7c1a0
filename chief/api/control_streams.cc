#include "chief/api/control_streams.h"

#include <chrono>
#include <utility>

#include "chief/api/close_reason.h"
#include "chief/api/coordinator.h"
#include "common/base/status.h"
#include "common/cluster/security.h"
#include "common/cluster/task_run.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kRedialAfter{100};
constexpr std::chrono::milliseconds kTickEvery{10};
constexpr std::chrono::milliseconds kLookEvery{1000};
// The fewest bytes between two looks that count as a long message that moves. What a lost peer
// leaves in the buffers of the transport is taken once.
constexpr uint64_t kMovingBytes = 1 << 20;

}  // namespace

// The streams of one task, one after another.
class ControlStreams::Link : public StreamHandler {
 public:
  Link(ControlStreams* owner, Task task) : owner_(owner), task_(task) {}

  // Sets where the next Dial goes. Null: nowhere. Ends the stream that is open.
  void SetClient(std::unique_ptr<StreamClient> client) {
    client_ = std::move(client);
    Abort();
  }

  // Does nothing while a stream is open: its end dials again.
  void Dial() {
    if (owner_->stopped_ || client_ == nullptr || Current() != nullptr) return;
    const char* method = task_.role == Role::kWorker ? "/cohort.v1.Worker/Control"
                                                     : "/cohort.v1.ParameterServer/Control";
    connected_ = false;
    auto stream = client_->Open(method, this, &owner_->loop_,
                                {.wait_for_ready = false, .joins_pieces = true});
    MutexLock lock(&mu_);
    stream_ = std::move(stream);
  }

  void Send(Frame frame) {
    std::shared_ptr<Stream> stream = Current();
    if (stream != nullptr) stream->Send(std::move(frame));
  }

  void Abort() {
    std::shared_ptr<Stream> stream = Current();
    if (stream != nullptr) stream->Abort();
  }

  Task task() const { return task_; }
  // True if a long message has moved since the last call. Only for the loop's thread.
  bool HasMoved() {
    const std::shared_ptr<Stream> stream = Current();
    if (stream == nullptr || !connected_) return false;
    const Stream::Moved moved = stream->moved();
    const uint64_t before = std::exchange(moved_, moved.sent + moved.received);
    return moved_ >= before + kMovingBytes;
  }

  void OnConnected() override {
    connected_ = true;
    moved_ = 0;
    owner_->OnConnected(task_);
  }
  void OnFrame(Frame frame) override { owner_->OnFrame(task_, frame); }
  void OnClosed(const absl::Status& status) override {
    {
      MutexLock lock(&mu_);
      stream_ = nullptr;
    }
    // A task ends its control stream with this code if it cannot parse a frame.
    if (absl::IsInvalidArgument(status)) {
      owner_->Fail(task_, "it cannot read what this chief sends", status);
    }
    const std::string address = client_ == nullptr ? task_.ToString() : client_->address();
    owner_->OnClosed(task_, CloseReason(status, address), std::exchange(connected_, false),
                     HasEndedInOrder(status));
    owner_->loop_.After(kRedialAfter, [this] { Dial(); });
  }

 private:
  std::shared_ptr<Stream> Current() {
    MutexLock lock(&mu_);
    return stream_;
  }

  ControlStreams* const owner_;
  const Task task_;
  // Only the loop's thread uses these, once it runs.
  std::unique_ptr<StreamClient> client_;  // null: the task has no address
  bool connected_ = false;
  uint64_t moved_ = 0;
  Mutex mu_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<ControlStreams>> ControlStreams::Create(
    const CoordinatorOptions& options, const std::vector<std::string>& workers,
    const std::vector<std::string>& ps, LockedCore* core) {
  const auto security = options.security != nullptr ? options.security : Security::LoopbackOnly();
  std::unique_ptr<ControlStreams> streams(new ControlStreams(security, options.log, core));
  for (const Role role : {Role::kPs, Role::kWorker}) {
    Links& links = role == Role::kPs ? streams->ps_ : streams->workers_;
    for (const std::string& address : role == Role::kPs ? ps : workers) {
      const Task task{role, static_cast<int>(links.size())};
      links.push_back(std::make_unique<Link>(streams.get(), task));
      if (address.empty()) continue;
      auto client = StreamClient::Create(address, {.security = security, .task = task});
      if (!client.ok()) return Annotate(client.status(), task.ToString());
      links.back()->SetClient(*std::move(client));
    }
  }
  return streams;
}

ControlStreams::ControlStreams(std::shared_ptr<const Security> security, Logger* log,
                               LockedCore* core)
    : security_(std::move(security)), log_(log), core_(core) {}

ControlStreams::~ControlStreams() { Shutdown(); }

void ControlStreams::Start(std::function<void()> tick) {
  tick_ = std::move(tick);
  loop_.Start("control");
  loop_.Post([this] { Tick(); });
  loop_.Post([this] { NoteMoving(); });
  for (const Links* links : {&ps_, &workers_}) {
    for (const auto& link : *links) loop_.Post([l = link.get()] { l->Dial(); });
  }
}

void ControlStreams::Tick() {
  tick_();
  loop_.After(kTickEvery, [this] { Tick(); });
}

void ControlStreams::NoteMoving() {
  for (const Links* links : {&ps_, &workers_}) {
    for (const auto& link : *links) {
      if (!link->HasMoved()) continue;
      core_->Input([&](CoordinatorCore* core) { core->OnMoving(link->task()); });
    }
  }
  loop_.After(kLookEvery, [this] { NoteMoving(); });
}

ControlStreams::Link* ControlStreams::Find(Task task) const {
  const Links& links = task.role == Role::kWorker ? workers_ : ps_;
  return links[static_cast<size_t>(task.index)].get();
}

void ControlStreams::SendToWorker(int worker, const v1::ChiefToWorker& message) {
  Find(WorkerTask(worker))->Send(SerializeToFrame(message));
}

void ControlStreams::SendToWorker(int worker, const v1::ChiefToWorker& message,
                                  std::shared_ptr<const std::string> rest) {
  Find(WorkerTask(worker))->Send(SerializeToFrame(message, std::move(rest)));
}

void ControlStreams::SendToPs(int ps, const v1::ChiefToPs& message) {
  Find(PsTask(ps))->Send(SerializeToFrame(message));
}

void ControlStreams::Reconnect(Task task) { Find(task)->Abort(); }

void ControlStreams::Dial(Task task, const std::string& address) {
  loop_.Post([this, task, address] {
    auto client = StreamClient::Create(address, {.security = security_, .task = task});
    if (!client.ok()) {
      return OnClosed(task, std::string(client.status().message()), /*was_connected=*/false);
    }
    Find(task)->SetClient(*std::move(client));
    Find(task)->Dial();
  });
}

void ControlStreams::HangUp(Task task) {
  loop_.Post([this, task] { Find(task)->SetClient(nullptr); });
}

absl::StatusOr<int> ControlStreams::WaitUntilClosed(TimePoint deadline) {
  MutexLock lock(core_->mu());
  const auto closed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) { return open_ == 0; };
  // Even a chief that has failed waits here.
  COHORT_RETURN_IF_ERROR(core_->waits()->Wait(core_->mu(), closed, deadline).status());
  return open_;
}

void ControlStreams::OnConnected(Task task) {
  core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
    ++open_;
    core->OnConnected(task);
  });
}

void ControlStreams::OnClosed(Task task, const std::string& why, bool was_connected, bool left) {
  core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
    if (was_connected) --open_;
    if (!stopped_) core->OnDisconnected(task, why, left);
  });
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
  if (!status.ok()) Fail(task, "this chief cannot read what it sends", status);
}

void ControlStreams::Fail(Task task, std::string_view what, const absl::Status& status) {
  // The same message would follow on the next stream, so dialing again helps nobody.
  absl::Status failure = Annotate(
      status, fmt::format("{}: {}; give all tasks the same version", task.ToString(), what));
  log_->Failure(LogLevel::kError, "bad_message", failure);
  core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
    if (!stopped_) core->OnBadMessages(task, std::move(failure));
  });
}

}  // namespace cohort
