#include "chief/job/replica_watch.h"

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kAskEvery{1};
// Questions without an answer after which the stream is dialed again.
constexpr int kMostOpenQuestions = 5;
constexpr uint64_t kClosed = UINT64_MAX;

}  // namespace

// The streams to one replica, one after another. Runs on the loop's thread.
class ReplicaWatch::Probe : public StreamHandler {
 public:
  Probe(ReplicaWatch* watch, int replica, const Options& options,
        std::unique_ptr<StreamClient> client)
      : watch_(watch), replica_(replica), client_(std::move(client)) {
    v1::AdoptWorker* adopt = question_.mutable_adopt();
    adopt->set_job(options.job);
    adopt->set_chief_incarnation(options.chief_incarnation);
    adopt->set_probe(true);
    SetProtocolVersion(adopt);
  }

  // Asks if the replica is `wanted`, and otherwise ends the stream.
  void Ask(bool wanted) {
    if (!wanted || open_questions_ >= kMostOpenQuestions) {
      if (stream_ != nullptr) stream_->Abort();
      return;
    }
    if (stream_ == nullptr) {
      stream_ = client_->Open("/cohort.v1.Worker/Control", this, &watch_->loop_,
                              {.wait_for_ready = false, .joins_pieces = true});
    }
    if (open_questions_++ > 0) watch_->Forget(replica_);
    question_.set_request(watch_->NextQuestion());
    stream_->Send(SerializeToFrame(question_));
  }

  void OnFrame(Frame frame) override {
    v1::WorkerToChief message;
    if (!ParseFromFrame(frame, &message).ok() || !message.has_hello()) return;
    open_questions_ = 0;
    const v1::WorkerHello& hello = message.hello();
    const bool free = message.status().code() == 0 && !hello.hears_chief() && !hello.leaving();
    watch_->Note(replica_, message.request(),
                 free ? std::optional(hello.incarnation()) : std::nullopt, hello.leaving());
  }
  void OnClosed(const absl::Status&) override {
    stream_ = nullptr;
    open_questions_ = 0;
    watch_->Note(replica_, kClosed, std::nullopt, /*leaving=*/false);
  }

 private:
  ReplicaWatch* const watch_;
  const int replica_;
  const std::unique_ptr<StreamClient> client_;
  v1::ChiefToWorker question_;
  std::shared_ptr<Stream> stream_;
  int open_questions_ = 0;
};

absl::StatusOr<std::unique_ptr<ReplicaWatch>> ReplicaWatch::Start(const ClusterSpec& replicas,
                                                                  const Options& options) {
  std::unique_ptr<ReplicaWatch> watch(new ReplicaWatch);
  for (const auto& [index, address] : replicas.tasks(Role::kWorker)) {
    const Task task{Role::kWorker, index};
    auto client =
        StreamClient::Create(address.ToString(), {.security = options.security, .task = task});
    if (!client.ok()) return Annotate(client.status(), task.ToString());
    watch->probes_[index] =
        std::make_unique<Probe>(watch.get(), index, options, *std::move(client));
  }
  watch->loop_.Start("replica_watch");
  watch->loop_.Post([w = watch.get()] { w->TickAgain(); });
  return watch;
}

ReplicaWatch::~ReplicaWatch() { loop_.Shutdown(); }

void ReplicaWatch::TickAgain() {
  Tick();
  loop_.After(kAskEvery, [this] { TickAgain(); });
}

void ReplicaWatch::Tick() {
  std::set<int> called;
  {
    MutexLock lock(&mu_);
    called = called_;
  }
  for (const auto& [index, probe] : probes_) probe->Ask(index > 0 || called.contains(index));
}

void ReplicaWatch::Forget(int replica) {
  MutexLock lock(&mu_);
  answers_.erase(replica);
}

uint64_t ReplicaWatch::NextQuestion() {
  MutexLock lock(&mu_);
  return ++asked_;
}

void ReplicaWatch::Note(int replica, uint64_t question, std::optional<uint64_t> process,
                        bool leaving) {
  MutexLock lock(&mu_);
  if (question < counts_from_) return;
  leaving ? void(leaving_.insert(replica)) : void(leaving_.erase(replica));
  if (process.has_value()) {
    answers_[replica] = *process;
  } else {
    answers_.erase(replica);
  }
  if (silent_.erase(replica) > 0) noted_.SignalAll();
}

void ReplicaWatch::Ask() {
  loop_.Post([this] { Tick(); });
}

ReplicaWatch::Answers ReplicaWatch::answers() const {
  MutexLock lock(&mu_);
  return answers_;
}

std::set<int> ReplicaWatch::leaving() const {
  MutexLock lock(&mu_);
  return leaving_;
}

ReplicaWatch::Answers ReplicaWatch::RollCall(const std::set<int>& replicas, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  {
    MutexLock lock(&mu_);
    called_ = silent_ = replicas;
    counts_from_ = asked_ + 1;
    for (const int replica : replicas) answers_.erase(replica);
  }
  Ask();
  MutexLock lock(&mu_);
  while (!silent_.empty() && noted_.WaitUntil(&mu_, deadline)) {
  }
  called_.clear();
  silent_.clear();
  Answers there;
  for (const auto& [replica, process] : answers_) {
    if (replicas.contains(replica)) there[replica] = process;
  }
  return there;
}

}  // namespace cohort
