// A simulated parameter server: PsCore and its data path, streams and a disk of the simulation.
#include <deque>
#include <map>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "ps_server/ps_core.h"
#include "ps_server/request_assembler.h"
#include "ps_server/response_chunks.h"
#include "tests/simulator/cluster.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kPromiseEveryUs = 80'000;

class PsLife : public Life, public ChiefSink, public ShardStore, public ApplyLog {
 public:
  PsLife(Cluster* cluster, Node* node)
      : cluster_(cluster), node_(node), log_(cluster->MakeLog(*node)) {
    PsCore::Options options;
    options.index = static_cast<uint32_t>(node->task().index);
    options.incarnation = node->incarnation();
    options.cores = 2;
    options.chief_timeout = std::chrono::milliseconds(400);
    options.shard.block_bytes = 64;
    const PlantedBug bug = cluster->plan.bug;
    options.test_faults.snapshot_forgets_an_id = bug == PlantedBug::kPsSnapshotForgets;
    options.test_faults.snapshot_has_staged_ids = bug == PlantedBug::kPsSnapshotHasStaged;
    options.test_faults.pull_ignores_step = bug == PlantedBug::kPsPullIgnoresStep;
    options.test_faults.close_ignores_try = bug == PlantedBug::kPsCloseIgnoresTry;
    options.test_faults.new_try_applies_ids = bug == PlantedBug::kPsNewTryAppliesIds;
    PsCore::Environment environment;
    environment.clock = cluster->world;
    environment.store = this;
    environment.metrics = &metrics_;
    environment.log = log_.get();
    environment.apply_log = this;
    environment.sink = this;
    environment.background = [this](std::function<void()> work) { Background(std::move(work)); };
    environment.tablet_work = [this](std::function<void()> work) {
      node_->After(cluster_->world->chance.Between(1, 300), [this] { NextOnTablets(); });
      tablet_work_.push_back(std::move(work));
    };
    environment.on_step_open = [this] { AnswerParked(); };
    environment.on_shutdown = [this](bool finished, const std::string&) {
      if (finished) node_->Retire();
      node_->Exit();
    };
    core_ = std::make_unique<PsCore>(options, std::move(environment));
  }

  void Accept(const std::shared_ptr<Stream>& stream, StreamKind kind) override {
    kind == StreamKind::kControl ? AcceptChief(stream) : AcceptWorker(stream);
  }
  std::string Text() const override { return core_->StatusText(); }

  // ChiefSink
  void Send(Adoption::Connection connection, const v1::PsToChief& message) override {
    const auto stream = chiefs_.find(connection);
    if (stream != chiefs_.end()) stream->second->Send(Stream::kAcceptor, message);
  }

  // ShardStore
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) override {
    Chance& chance = cluster_->world->chance;
    COHORT_CRASH_POINT("ps.snapshot.writing");
    if (!cluster_->faults_over && chance.Percent(cluster_->plan.faults.disk_full_percent)) {
      ++cluster_->ledger.statistics.disk_full;
      return ResourceExhausted("{}: the disk is full", job->directory);
    }
    Disk::ShardFile file;
    for (const TabletSnapshot& tablet : job->tablets) {
      for (const ShardSnapshot& shard : tablet.shards) {
        std::vector<uint8_t>& bytes = file[{shard.info->variable, shard.info->row_begin}];
        for (const ShardBlock& block : shard.blocks) {
          const size_t n = static_cast<size_t>(block.rows) * shard.info->row_bytes();
          bytes.insert(bytes.end(), block.values->data(), block.values->data() + n);
        }
      }
    }
    cluster_->disk.WriteShards(job->directory, job->ps, std::move(file));
    v1::SnapshotFile written;
    written.set_name(fmt::format("ps-{}", job->ps));
    return std::vector<v1::SnapshotFile>{written};
  }
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) override {
    auto source = cluster_->disk.Open(manifest);
    if (source == nullptr) return NotFound("{}", manifest);
    return source;
  }
  absl::Status CheckDirectory(const std::string&, const std::string&) override {
    return absl::OkStatus();
  }

  // ApplyLog
  absl::Status Write(std::string* lines) override {
    const absl::Status parsed =
        ParseApplyLines(*lines, node_->task().index, &cluster_->ledger.events);
    if (!parsed.ok()) cluster_->ledger.Violate("{}", parsed.ToString());
    lines->clear();
    return absl::OkStatus();
  }

 private:
  // A request of a worker, which comes in messages.
  struct Request {
    RequestAssembler assembler;
    std::deque<DataRequest> kept;
    const RequestView* view = nullptr;  // when it is complete
    std::weak_ptr<Stream> stream;
  };
  struct Client {
    std::unique_ptr<Request> request = std::make_unique<Request>();
  };

  void AcceptChief(const std::shared_ptr<Stream>& stream) {
    const Adoption::Connection connection = next_connection_++;
    chiefs_[connection] = stream;
    stream->Set(Stream::kAcceptor, {.on_message =
                                        [this, connection](Message message) {
                                          const auto& asked = std::get<v1::ChiefToPs>(message);
                                          if (asked.has_assign()) {
                                            cluster_->steps.Assigned(asked.assign());
                                          }
                                          core_->OnMessage(connection, asked);
                                        },
                                    .on_closed =
                                        [this, connection](bool silent) {
                                          core_->OnClosed(connection, silent ? ChiefLoss::kSilent
                                                                             : ChiefLoss::kClosed);
                                          chiefs_.erase(connection);
                                        }});
  }

  void AcceptWorker(const std::shared_ptr<Stream>& stream) {
    auto client = std::make_shared<Client>();
    stream->Set(Stream::kAcceptor,
                {.on_message = [this, client, s = std::weak_ptr<Stream>(stream)](Message message) {
                  OnRequest(client.get(), s, std::get<DataRequest>(std::move(message)));
                }});
  }

  void OnRequest(Client* client, const std::weak_ptr<Stream>& stream, DataRequest message) {
    client->request->kept.push_back(std::move(message));
    const DataRequest& request = client->request->kept.back();
    std::vector<std::span<const uint8_t>> payload;
    for (const auto& [words, bytes] : request.payload) {
      payload.emplace_back(reinterpret_cast<const uint8_t*>(words.data()), bytes);
    }
    const absl::Status added = client->request->assembler.Add(request.header, payload);
    if (!added.ok()) {
      cluster_->ledger.Violate("{}: a request was refused: {}", node_->name(), added.ToString());
    }
    if (request.header.more()) return;
    std::unique_ptr<Request> whole = std::exchange(client->request, std::make_unique<Request>());
    whole->view = &whole->assembler.Finish();
    whole->stream = stream;
    const bool may_wait =
        !whole->view->has_push && cluster_->plan.bug != PlantedBug::kPsPullIgnoresStep;
    if (may_wait && core_->data_path()->MustWait(*whole->view)) {
      ++cluster_->ledger.statistics.parked_pulls;
      parked_.push_back(std::move(whole));
      if (!std::exchange(promises_, true)) PromiseLater();
      return;
    }
    Answer(*whole);
  }

  // Signs of life for the clients of parked pulls, as ParkedRequests::Tick gives them.
  void PromiseLater() {
    node_->After(kPromiseEveryUs, [this] {
      promises_ = !parked_.empty();
      if (!promises_) return;
      for (const std::unique_ptr<Request>& request : parked_) Promise(*request);
      PromiseLater();
    });
  }
  void Promise(const Request& request) {
    const std::shared_ptr<Stream> stream = request.stream.lock();
    if (stream == nullptr) return;
    DataResponse promise;
    promise.header.set_sequence(request.view->sequence);
    promise.header.set_generation(core_->data_path()->generation());
    promise.header.set_more(true);
    ++cluster_->ledger.statistics.promises;
    stream->Send(Stream::kAcceptor, std::move(promise));
  }

  void AnswerParked() {
    for (std::unique_ptr<Request>& request : std::exchange(parked_, {})) {
      if (core_->data_path()->MustWait(*request->view)) {
        parked_.push_back(std::move(request));
      } else {
        Answer(*request);
      }
    }
  }

  void Answer(const Request& request) {
    const std::shared_ptr<Stream> stream = request.stream.lock();
    if (stream == nullptr) return;
    v1::PushPullResponseHeader header;
    std::vector<PayloadSlice> slices;
    const bool has_step = request.view->has_push && request.view->push.step.sync();
    if (has_step) cluster_->steps.Pushed(request.view->push);
    core_->data_path()->Handle(*request.view, &scratch_, &header, &slices);
    CheckAnswer(*request.view, header);
    ForEachChunk(&header, slices, cluster_->plan.exchange.chunk_bytes,
                 [&](const v1::PushPullResponseHeader& part, std::span<PayloadSlice> values) {
                   DataResponse response{part, {}};
                   for (const PayloadSlice& slice : values) {
                     Words words((slice.bytes + 7) / 8);
                     std::copy_n(slice.buffer->data() + slice.offset, slice.bytes,
                                 reinterpret_cast<uint8_t*>(words.data()));
                     response.payload.emplace_back(std::move(words), slice.bytes);
                   }
                   stream->Send(Stream::kAcceptor, std::move(response));
                 });
  }

  void NextOnTablets() {
    const std::function<void()> work = std::move(tablet_work_.front());
    tablet_work_.pop_front();
    work();
    NoteClosed();
  }

  // Notes the step that the server has closed, if there is a new one.
  void NoteClosed() {
    const std::shared_ptr<const v1::CloseStep> newest = core_->data_path()->closed_steps().newest;
    if (newest == nullptr || newest == noted_) return;
    noted_ = newest;
    Statistics& statistics = cluster_->ledger.statistics;
    ++statistics.steps_closed;
    if (newest->step_try() >> 32 != core_->data_path()->generation()) ++statistics.closes_repeated;
    cluster_->steps.Closed(node_->task().index, *newest);
  }

  // Checks what the answer says about modes, synchronous steps and staleness.
  void CheckAnswer(const RequestView& view, const v1::PushPullResponseHeader& header) {
    for (const v1::PushResult& result : header.pushes()) {
      if (result.status() == v1::DROPPED) ++cluster_->ledger.statistics.refused_pushes;
      if (result.status() == v1::APPLIED) CheckApplied(view.push, result);
      if (result.status() == v1::APPLIED || result.status() == v1::STAGED) {
        cluster_->steps.Taken(view.push);
      }
    }
  }

  void CheckApplied(const PushHeaderView& push, const v1::PushResult& result) {
    Ledger& ledger = cluster_->ledger;
    const ModeSettings* const mode = cluster_->steps.ModeOf(push);
    if (mode == nullptr) return ledger.Violate("nobody dispatched closure {}", push.id.closure);
    if (push.step.sync()) {
      ledger.Violate("closure {} was applied to tablet {} before its step was closed",
                     push.id.closure, result.tablet());
    }
    if (mode->mode != ConsistencyMode::kBounded) return;
    const uint64_t bound = (2 * mode->staleness + 1) * uint64_t{mode->closures_per_step} - 1;
    if (bound > 0 && result.staleness() == bound) ledger.statistics.most_stale = 1;
    if (result.staleness() <= bound) return;
    ledger.Violate("closure {} (place {}) was applied to tablet {} with staleness {}, above {}",
                   push.id.closure, push.place, result.tablet(), result.staleness(), bound);
  }

  // Runs functions one after another, never inside the call.
  void Background(std::function<void()> work) {
    background_.push_back(std::move(work));
    if (background_.size() == 1) NextInBackground();
  }
  void NextInBackground() {
    node_->After(cluster_->world->chance.Between(200, 10'000), [this] {
      background_.front()();
      background_.pop_front();
      if (!background_.empty()) NextInBackground();
    });
  }

  Cluster* const cluster_;
  Node* const node_;
  const std::unique_ptr<Logger> log_;
  MetricsRegistry metrics_;
  std::map<Adoption::Connection, std::shared_ptr<Stream>> chiefs_;
  Adoption::Connection next_connection_ = 1;
  std::deque<std::function<void()>> background_;
  std::deque<std::function<void()>> tablet_work_;
  std::shared_ptr<const v1::CloseStep> noted_;    // the newest step that is in the ledger
  std::vector<std::unique_ptr<Request>> parked_;  // pulls that wait for their step
  bool promises_ = false;                         // PromiseLater will run
  DataPathScratch scratch_;
  std::unique_ptr<PsCore> core_;
};

}  // namespace

std::unique_ptr<Life> StartPs(Cluster* cluster, Node* node) {
  return std::make_unique<PsLife>(cluster, node);
}

}  // namespace cohort::simulator
