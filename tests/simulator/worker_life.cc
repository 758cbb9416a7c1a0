// A simulated worker: WorkerCore, StepLoop (on a fiber) and Exchange as in the daemon, streams of
// the simulation.
#include <map>

#include "common/base/crash_point.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/exchange/exchange_runner.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/fiber.h"
#include "worker/step_loop.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kWorkerTickUs = 20'000;
constexpr int64_t kLeaveUs = 100'000;    // how long its step may take when it leaves
constexpr int64_t kAloneUs = 1'500'000;  // how long one that has joined waits for a chief

// The step thread's sleep: it is a fiber, and code outside the fiber wakes it.
class StepThread {
 public:
  StepThread(Node* node, World* world, std::function<void()> body)
      : node_(node), world_(world), fiber_(std::move(body)) {
    ResumeLater();
  }

  // On the fiber: sleeps until Wake or the deadline. An earlier Wake counts, as with an event
  // queue.
  void Wait(int64_t deadline_us) {
    if (std::exchange(woken_, false)) return;
    wakeable_ = true;
    Sleep(deadline_us);
    wakeable_ = woken_ = false;
  }
  // On the fiber: sleeps until this time. Wake does not end the sleep.
  void Sleep(int64_t until_us) {
    const uint64_t number = ++sleeps_;
    if (until_us != INT64_MAX) {
      node_->After(std::max<int64_t>(0, until_us - world_->now_us()), [this, number] {
        if (number == sleeps_) fiber_.Resume();
      });
    }
    Fiber::Suspend();
    ++sleeps_;
  }
  void Wake() {
    woken_ = true;
    if (std::exchange(wakeable_, false)) ResumeLater();
  }

 private:
  void ResumeLater() {
    node_->After(0, [this, number = sleeps_] {
      if (number == sleeps_) fiber_.Resume();
    });
  }

  Node* const node_;
  World* const world_;
  uint64_t sleeps_ = 0;
  bool wakeable_ = false;
  bool woken_ = false;
  Fiber fiber_;
};

BytesMoved MovedOn(const Stream& stream) {
  return {.sent = stream.arrived(Stream::kAcceptor), .received = stream.arrived(Stream::kDialler)};
}

class WorkerLife : public Life, public WorkerEffects, public StepVariables, ExchangeRunner {
 public:
  WorkerLife(Cluster* cluster, Node* node)
      : ExchangeRunner(cluster->plan.exchange),
        cluster_(cluster),
        node_(node),
        world_(cluster->world),
        log_(cluster->MakeLog(*node)),
        step_metrics_(&metrics_),
        core_(CoreOptionsOf(cluster->plan, *node), cluster->world, log_.get(), this),
        step_thread_(node, cluster->world, [this] { RunSteps(); }) {
    Tick();
  }

  void Accept(const std::shared_ptr<Stream>& stream, StreamKind) override {
    const Adoption::Connection connection = next_connection_++;
    chiefs_[connection] = stream;
    stream->Set(Stream::kAcceptor,
                {.on_message =
                     [this, connection](Message message) {
                       core_.OnMessage(connection, &std::get<v1::ChiefToWorker>(message));
                     },
                 .on_closed =
                     [this, connection](bool silent) {
                       core_.OnClosed(connection, silent ? ChiefLoss::kSilent : ChiefLoss::kClosed);
                       chiefs_.erase(connection);
                     }});
  }
  std::string Text() const override { return core_.StatusText(); }
  void Leave() override {
    core_.Drain("it is ending");
    node_->After(kLeaveUs, [this] { core_.StopRunning(); });
  }

  // WorkerEffects
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message) override {
    const auto stream = chiefs_.find(connection);
    if (stream != chiefs_.end()) stream->second->Send(Stream::kAcceptor, message);
  }
  void RoutesChanged(std::shared_ptr<const v1::Routes> routes) override {
    SetRoutes(std::move(routes));
  }
  void GenerationChanged(uint64_t generation) override { SetGeneration(generation); }
  void WatermarkChanged(uint64_t watermark) override { SetWatermark(watermark); }
  void Interrupt() override { ExchangeRunner::Interrupt(); }
  void WakeStep() override { step_thread_.Wake(); }
  void Shutdown(bool job_finished, const std::string&) override {
    if (job_finished) node_->Retire();
    node_->Exit();
  }

  // StepVariables
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) override;
  void Wait(TimePoint deadline) override { step_thread_.Wait(Micros(deadline)); }

 private:
  class Access;
  struct Link {
    std::shared_ptr<Stream> stream;  // null: none is open
    uint64_t incarnation = 0;
    BytesMoved moved;  // before the last Send
  };

  static WorkerCore::Options CoreOptionsOf(const Plan& plan, const Node& node) {
    WorkerCore::Options options;
    options.index = node.number;
    options.incarnation = node.incarnation();
    options.chief_timeout = std::chrono::milliseconds(400);
    options.closures.test_keeps_results_over_rollback = plan.bug == PlantedBug::kWorkerKeepsResults;
    options.closures.test_keeps_results_over_tries =
        plan.bug == PlantedBug::kWorkerKeepsResultsOverTries;
    return options;
  }
  static int64_t Micros(TimePoint t) {
    return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
  }

  void RunSteps() {
    StepLoop loop({}, &core_, this, world_, &step_metrics_, log_.get());
    loop.Run();  // until it leaves
    core_.Flush();
    node_->Exit();
  }
  void Tick() {
    node_->After(kWorkerTickUs, [this] {
      core_.Tick();
      const bool alone = !core_.adopted() && !core_.probed();
      if (!alone) alone_since_us_ = world_->now_us();
      // Its place may be gone.
      if (joined() && world_->now_us() - alone_since_us_ > kAloneUs) return node_->Exit();
      Tick();
    });
  }
  bool joined() const { return node_->task().index >= cluster_->plan.workers; }
  void CountPulledAhead() {
    const uint64_t before = std::exchange(pulled_ahead_, step_metrics_.pulled_ahead->value());
    cluster_->ledger.statistics.pulled_ahead += pulled_ahead_ - before;
  }
  // Lets the time of a step's compute pass.
  void Compute() {
    const Plan& plan = cluster_->plan;
    int64_t us = world_->chance.Between(plan.compute_us / 2, plan.compute_us * 3 / 2);
    if (node_->task().index == plan.slow_worker) us *= 20;
    step_thread_.Sleep(node_->wedged() ? INT64_MAX : world_->now_us() + us);
  }

  // ExchangeRunner
  int64_t NowUs() const override { return world_->now_us(); }
  void WaitForInput(int64_t deadline_us) override { step_thread_.Wait(deadline_us); }
  void TakeInput() override {}  // streams of the simulation send at once
  void WakeUp() override { step_thread_.Wake(); }
  void OnEnded() override;
  void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override;
  void Reset(const ServerRoute& server) override { Drop(server.ps); }
  BytesMoved Moved(const ServerRoute& server) override;
  void OnSlow(const ServerRoute&, const std::string& progress) override {
    ++cluster_->ledger.statistics.slow_requests;
    world_->Trace("{}: {}", node_->name(), progress);
  }
  Stream* Connect(const ServerRoute& server);
  void Drop(uint32_t ps);
  void OnResponse(uint32_t ps, const DataResponse& response);

  Cluster* const cluster_;
  Node* const node_;
  World* const world_;
  const std::unique_ptr<Logger> log_;
  MetricsRegistry metrics_;
  StepMetrics step_metrics_;
  uint64_t pulled_ahead_ = 0;
  int64_t alone_since_us_ = world_->now_us();
  std::map<Adoption::Connection, std::shared_ptr<Stream>> chiefs_;
  Adoption::Connection next_connection_ = 1;
  std::map<uint32_t, Link> links_;  // by ps
  WorkerCore core_;
  StepThread step_thread_;  // last: its end unwinds what uses the others
};

// A pull is followed by the step's compute. If steps are pulled ahead, an earlier step computes
// while the exchange is under way.
class WorkerLife::Access : public VariableAccess {
 public:
  Access(WorkerLife* life, std::unique_ptr<VariableAccess> remote)
      : life_(life), remote_(std::move(remote)) {}
  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
    pulls_ = pull != nullptr;
    return remote_->Begin(push, pull);
  }
  absl::StatusOr<ExchangeResult> Finish() override {
    const bool ahead = life_->cluster_->plan.core.pull_ahead > 0;
    life_->CountPulledAhead();
    if (ahead && pulls_) life_->Compute();
    auto result = remote_->Finish();
    if (!ahead && result.ok() && pulls_) life_->Compute();
    return result;
  }
  void Poll() override { remote_->Poll(); }
  void Interrupt() override { remote_->Interrupt(); }

 private:
  WorkerLife* const life_;
  const std::unique_ptr<VariableAccess> remote_;
  bool pulls_ = false;
};

std::unique_ptr<VariableAccess> WorkerLife::ForProgram(std::span<const VariableDecl> variables) {
  return std::make_unique<Access>(this, ExchangeRunner::ForProgram(variables));
}

// If an exchange ended early, gRPC may not have released all of its messages. Such messages are
// dropped with their connections.
void WorkerLife::OnEnded() {
  if (exchange_.state() == Exchange::State::kDone || world_->chance.Percent(50)) return;
  for (const auto& [ps, link] : std::map(links_)) Drop(ps);
}

void WorkerLife::Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) {
  Stream* const stream = Connect(server);
  links_[server.ps].moved = MovedOn(*stream);
  for (const ExchangeMessage& message : messages) {
    DataRequest request{message.header, {}, nullptr};
    for (const Bytes& bytes : message.payload) {
      Words words((bytes.size() + 7) / 8);
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(words.data()));
      request.payload.emplace_back(std::move(words), bytes.size());
    }
    stream->Send(Stream::kDialler, std::move(request));
  }
  if (messages.back().header.has_push()) COHORT_CRASH_POINT("worker.push.sent");
}

BytesMoved WorkerLife::Moved(const ServerRoute& server) {
  const Link& link = links_[server.ps];
  if (link.stream == nullptr) return {};
  const BytesMoved now = MovedOn(*link.stream);
  return {.sent = now.sent - link.moved.sent, .received = now.received - link.moved.received};
}

Stream* WorkerLife::Connect(const ServerRoute& server) {
  Link& link = links_[server.ps];
  if (std::exchange(link.incarnation, server.incarnation) != server.incarnation) Drop(server.ps);
  if (link.stream != nullptr) return link.stream.get();
  link.stream = cluster_->network.Dial(
      node_, cluster_->At(server.address), StreamKind::kData,
      {.on_message = [this, ps = server.ps](
                         Message message) { OnResponse(ps, std::get<DataResponse>(message)); },
       .on_closed =
           [this, ps = server.ps](bool) {
             links_[ps].stream = nullptr;
             exchange_.OnLost(ps, Unavailable("the stream broke"), NowUs());
             step_thread_.Wake();
           }});
  return link.stream.get();
}

void WorkerLife::Drop(uint32_t ps) {
  const std::shared_ptr<Stream> stream = std::exchange(links_[ps].stream, nullptr);
  if (stream != nullptr) stream->Close(Stream::kDialler);
}

void WorkerLife::OnResponse(uint32_t ps, const DataResponse& response) {
  std::vector<Bytes> fields;
  for (const auto& [words, bytes] : response.payload) {
    fields.emplace_back(reinterpret_cast<const uint8_t*>(words.data()), bytes);
  }
  std::vector<PayloadPieces> payload;
  for (const Bytes& field : fields) payload.emplace_back(&field, 1);
  exchange_.OnResponse(ps, response.header, payload, NowUs());
  step_thread_.Wake();
}

}  // namespace

std::unique_ptr<Life> StartWorker(Cluster* cluster, Node* node) {
  return std::make_unique<WorkerLife>(cluster, node);
}

}  // namespace cohort::simulator
