// A simulated parameter server: PsCore with its data path and ParkedRequests, streams and a disk of
// the simulation.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <set>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/os/open_file.h"
#include "ps_server/parked_requests.h"
#include "ps_server/ps_core.h"
#include "ps_server/request_assembler.h"
#include "ps_server/response_chunks.h"
#include "ps_server/unsent_answers.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/fiber.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kLedgerUs = 40'000;  // between two looks at the memory (ParameterServer::Tick)

class PsLife : public Life,
               public ChiefSink,
               public ShardStore,
               public ApplyLog,
               public CopyTransport {
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
    options.test_faults.answers_never_wait = bug == PlantedBug::kPsAnswersNeverWait;
    options.copies = {.retry = std::chrono::milliseconds(20),
                      .patience = std::chrono::milliseconds(300),
                      .faults = {.answers_early = bug == PlantedBug::kPsAnswersBeforeCopy,
                                 .duplicates_go = bug == PlantedBug::kPsDuplicateDoesNotWait,
                                 .fill_misses_entries = bug == PlantedBug::kPsFillMissesEntries,
                                 .fill_forgets_an_id = bug == PlantedBug::kPsFillForgets,
                                 .loses_staged = bug == PlantedBug::kPsCopyLosesStaged,
                                 .void_answers = bug == PlantedBug::kPsOldPrimaryAnswers}};
    options.memory_bytes = LimitOf(cluster->plan, node->task().index);
    options.least_room = 1;
    PsCore::Environment environment;
    environment.clock = cluster->world;
    environment.store = this;
    environment.metrics = &metrics_;
    environment.log = log_.get();
    environment.apply_log = this;
    environment.sink = this;
    environment.copies = this;
    environment.background = [this](std::function<void()> work) { Background(std::move(work)); };
    environment.tablet_work = [this](std::function<void()> work) { OnTablets(std::move(work)); };
    environment.on_step_open = [this] { parked_->Release(); };
    environment.on_shutdown = [this](bool finished, const std::string&) {
      if (finished) node_->Retire();
      node_->Exit();
    };
    core_ = std::make_unique<PsCore>(options, std::move(environment));
    parked_ = std::make_unique<ParkedRequests>(core_->admission(), ParkedOptions(cluster->world));
    core_->memory()->answers()->OnSent([this] { ReleaseLater(); });
    KeepLedger();
  }
  ~PsLife() override { core_->memory()->answers()->OnSent(nullptr); }

  void Accept(const std::shared_ptr<Stream>& stream, StreamKind kind) override {
    switch (kind) {
      case StreamKind::kControl:
        return AcceptChief(stream);
      case StreamKind::kData:
        return AcceptWorker(stream);
      case StreamKind::kCopy:
        return AcceptPrimary(stream);
    }
  }
  std::string Text() const override { return core_->StatusText(); }

  // ChiefSink
  void Send(Adoption::Connection connection, const v1::PsToChief& message) override {
    const auto stream = chiefs_.find(connection);
    if (stream != chiefs_.end()) stream->second->Send(Stream::kAcceptor, message);
  }

  // ShardStore. These run on the disk's fiber.
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) override {
    Chance& chance = cluster_->world->chance;
    COHORT_CRASH_POINT("ps.snapshot.writing");
    if (!cluster_->faults_over && chance.Percent(cluster_->plan.faults.disk_full_percent)) {
      ++cluster_->ledger.statistics.disk_full;
      return ResourceExhausted("{}: the disk is full", job->directory);
    }
    const bool fails = DiskFails(&Statistics::write_errors);
    const int64_t begin_us = cluster_->world->now_us();
    Disk::ShardFile file;
    for (TabletSnapshot& tablet : job->tablets) {
      for (ShardSnapshot& shard : tablet.shards) {
        std::vector<uint8_t>& bytes = file[{shard.info->variable, shard.info->row_begin}];
        for (ShardBlock& block : shard.blocks) {
          if (job->cancelled) return Cancelled("cut {} was dropped", job->cut);
          UseDisk();
          const size_t n = static_cast<size_t>(block.rows) * shard.info->row_bytes();
          bytes.insert(bytes.end(), block.values->data(), block.values->data() + n);
          job->Drop(&block.values);
        }
      }
    }
    if (fails && !file.empty()) file.erase(file.begin());  // a page that never arrived
    cluster_->disk.WriteShards(job->directory, job->ps, std::move(file));
    if (fails) return ErrnoStatus("cannot fsync", job->directory, EIO);
    if (cluster_->world->now_us() - begin_us > cluster_->plan.core.write_deadline_us) {
      ++cluster_->ledger.statistics.slow_files;
    }
    v1::SnapshotFile written;
    written.set_name(fmt::format("ps-{}", job->ps));
    return std::vector<v1::SnapshotFile>{written};
  }
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) override {
    auto source = cluster_->disk.Open(manifest);
    if (source == nullptr) return NotFound("{}", manifest);
    return std::make_unique<Source>(this, std::move(source), manifest);
  }
  absl::Status CheckDirectory(const std::string&, const std::string&) override {
    return absl::OkStatus();
  }

  // CopyTransport
  void Open(uint64_t stream, const v1::PsRoute& to) override {
    Node* const server = cluster_->At(to.address());
    links_[stream] = cluster_->network.Dial(
        node_, server, StreamKind::kCopy,
        {.on_open =
             [this, stream, server, incarnation = to.incarnation()] {
               if (server->incarnation() == incarnation) return core_->copies()->OnOpen(stream);
               Close(stream);
               core_->copies()->OnClosed(stream, Unavailable("another process is there"));
             },
         .on_message =
             [this, stream](Message message) {
               core_->copies()->OnAck(stream, std::get<v1::CopyAck>(message));
             },
         .on_closed =
             [this, stream](bool) {
               links_.erase(stream);
               core_->copies()->OnClosed(stream, Unavailable("the stream broke"));
             }});
  }
  void Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) override {
    const auto link = links_.find(stream);
    if (link == links_.end()) return;
    CopyMessage message{entry->entry, {entry->push, {}, nullptr}};
    for (const BufferRef& field : entry->payload) {
      Words words((field->size() + 7) / 8);
      std::copy_n(field->data(), field->size(), reinterpret_cast<uint8_t*>(words.data()));
      message.push.payload.emplace_back(std::move(words), field->size());
    }
    link->second->Send(Stream::kDialler, std::move(message));
  }
  void FlushSoon(uint64_t stream) override {
    OnTablets([this, stream] { core_->copies()->Flush(stream); });
  }
  void Close(uint64_t stream) override {
    const auto link = links_.find(stream);
    if (link == links_.end()) return;
    link->second->Close(Stream::kDialler);
    links_.erase(link);
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
  // Bytes of requests: of those that count against the limit, and of all that exist.
  struct RequestBytes {
    uint64_t held = 0;
    uint64_t there = 0;
    uint64_t begun = 0;             // unfinished requests so far
    std::set<uint64_t> unfinished;  // their numbers
  };
  // A request of a worker, which comes in messages.
  class Request : public WaitingRequest {
   public:
    Request(PsLife* ps, std::weak_ptr<Stream> stream)
        : ps_(ps), all_(ps->requests_), stream_(std::move(stream)) {}
    // It may outlive the server, with its stream.
    ~Request() override {
      all_->held -= held_;
      all_->there -= bytes_;
      all_->unfinished.erase(began_);
    }
    // Takes the next message. Returns false if the server holds too much.
    bool Add(DataRequest message);
    bool more() const { return kept_.back().header.more(); }
    void Finish() {
      view_ = &assembler_.Finish();
      all_->unfinished.erase(std::exchange(began_, 0));
    }

    const RequestView& view() const override { return *view_; }
    std::weak_ptr<const void> stream() const override { return stream_; }
    absl::Status Park() override;
    CopyLog::Answer Push() override;
    void Execute() override { ps_->Answer(this); }
    void SendLifeSign() override;
    void AnswerError(const absl::Status& status) override;

   private:
    friend class PsLife;
    bool Hold();
    void Send(v1::PushPullResponseHeader header);

    PsLife* const ps_;
    const std::shared_ptr<RequestBytes> all_;
    const std::weak_ptr<Stream> stream_;
    RequestAssembler assembler_;
    std::deque<DataRequest> kept_;
    const RequestView* view_ = nullptr;  // when it is complete
    bool pushed_ = false;
    DataPathScratch scratch_;
    v1::PushPullResponseHeader answer_;
    CopyMarks marks_;
    uint64_t bytes_ = 0;  // payload so far
    uint64_t held_ = 0;   // that count against the limit
    uint64_t began_ = 0;  // 0: it is not unfinished
  };
  struct Client {
    std::unique_ptr<Request> request;
  };

  // Reads a checkpoint as slowly as the disk is, and not always well.
  class Source : public ShardSource {
   public:
    Source(PsLife* ps, std::unique_ptr<ShardSource> source, std::string manifest)
        : ps_(ps), source_(std::move(source)), manifest_(std::move(manifest)) {}
    absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                          uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) override {
      ps_->UseDisk();
      if (fails_) return ErrnoStatus("cannot read", manifest_, EIO);
      return source_->ReadRows(variable, slot, dtype, row_begin, rows, out);
    }
    absl::StatusOr<RestoredTablet> Tablet(const v1::Layout& layout, uint32_t tablet) override {
      return source_->Tablet(layout, tablet);
    }

   private:
    PsLife* const ps_;
    const std::unique_ptr<ShardSource> source_;
    const std::string manifest_;
    const bool fails_ = ps_->DiskFails(&Statistics::read_errors);
  };

  static uint64_t LimitOf(const Plan& plan, int server) {
    if (plan.room == 0) return 0;
    uint64_t bytes = plan.ValueBytes(server);
    if (plan.moves > 0 || plan.replicas) {  // it may get all tablets
      for (int other = 0; other < plan.ps; ++other) bytes += plan.ValueBytes(other);
    }
    const auto values = static_cast<double>(bytes);
    // A quarter of a small limit is for what is not counted (ServerMemory::kUncounted).
    return static_cast<uint64_t>(values * (1 + plan.room) * 4 / 3);
  }
  static ParkedRequests::Options ParkedOptions(const World* world) {
    return {.life_sign_every = std::chrono::milliseconds(80),
            .delay = std::chrono::milliseconds(5),
            .patience = std::chrono::milliseconds(300),
            .snapshot_patience = std::chrono::milliseconds(60),
            .clock = world};
  }

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

  void AcceptPrimary(const std::shared_ptr<Stream>& stream) {
    stream->Set(Stream::kAcceptor,
                {.on_message = [this, number = core_->OnCopyStream(),
                                s = std::weak_ptr<Stream>(stream)](Message message) {
                  const auto open = s.lock();
                  if (open != nullptr) {
                    open->Send(Stream::kAcceptor, Replay(number, std::get<CopyMessage>(message)));
                  }
                }});
  }
  v1::CopyAck Replay(uint64_t stream, const CopyMessage& message) {
    std::vector<std::span<const uint8_t>> payload;
    for (const auto& [words, size] : message.push.payload) {
      payload.emplace_back(reinterpret_cast<const uint8_t*>(words.data()), size);
    }
    if (!message.entry.push())
      return core_->OnCopyEntry(message.entry, {.state = payload, .stream = stream});
    RequestAssembler assembler;
    const absl::Status added = assembler.Add(message.push.header, payload);
    if (!added.ok()) {
      cluster_->ledger.Violate("{}: an entry was refused: {}", node_->name(), added.ToString());
    }
    ++cluster_->ledger.statistics.replayed;
    return core_->OnCopyEntry(message.entry, {.push = &assembler.Finish(), .stream = stream});
  }

  void OnRequest(Client* client, const std::weak_ptr<Stream>& stream, DataRequest message) {
    std::unique_ptr<Request>& request = client->request;
    if (request == nullptr) request = std::make_unique<Request>(this, stream);
    if (!request->Add(std::move(message))) {
      ++cluster_->ledger.statistics.refused_requests;
      request = nullptr;
      if (const auto open = stream.lock()) open->Close(Stream::kAcceptor);
      return;
    }
    if (request->more()) return;
    request->Finish();
    const bool ignores_step = cluster_->plan.bug == PlantedBug::kPsPullIgnoresStep;
    if (ignores_step && core_->admission().Of(request->view()) == Admission::Wait::kStep) {
      std::exchange(request, nullptr)->Execute();
    } else {
      parked_->Execute(std::exchange(request, nullptr));
    }
    CheckMemory();
  }

  void PushOf(const RequestView& view, DataPathScratch* scratch, v1::PushPullResponseHeader* header,
              CopyMarks* marks) {
    if (view.has_push && view.push.step.sync()) {
      cluster_->steps.Pushed(view.push);
      // A step that drops late closures needs copies of all.
      const bool anyway = core_->admission().Of(view) == Admission::Wait::kEarly;
      if (anyway || view.push.step.partial) ++early_anyway_;
      if (anyway) ++answered_anyway_;
      most_early_ = std::max(most_early_, BytesOf(view));
    }
    core_->data_path()->HandlePushes(view, scratch, header, marks);
  }

  void Answer(Request* request) {
    const std::shared_ptr<Stream> stream = request->stream_.lock();
    if (stream == nullptr) return;
    request->Push();
    core_->data_path()->WriteLog(&request->scratch_.log_lines);
    const RequestView& view = request->view();
    v1::PushPullResponseHeader& header = request->answer_;
    std::vector<PayloadSlice> slices;
    CheckAnswer(view, header);
    core_->data_path()->HandlePulls(view, &header, &slices);
    uint64_t bytes = 0;
    for (const PayloadSlice& slice : slices) bytes += slice.bytes;
    std::shared_ptr<const void> counted;
    if (bytes > 0) {
      counted = core_->memory()->answers()->Begin(bytes, [] {});
      most_answer_ = std::max(most_answer_, bytes);
    }
    ForEachChunk(&header, slices, cluster_->plan.exchange.chunk_bytes,
                 [&](const v1::PushPullResponseHeader& part, std::span<PayloadSlice> values) {
                   DataResponse response{part, {}, counted};
                   for (const PayloadSlice& slice : values) {
                     Words words((slice.bytes + 7) / 8);
                     std::copy_n(slice.buffer->data() + slice.offset, slice.bytes,
                                 reinterpret_cast<uint8_t*>(words.data()));
                     response.payload.emplace_back(std::move(words), slice.bytes);
                   }
                   stream->Send(Stream::kAcceptor, std::move(response));
                 });
    CheckMemory();
  }

  static uint64_t BytesOf(const RequestView& view) {
    uint64_t bytes = 0;
    for (const PushSectionView& section : view.push_sections) {
      bytes += StagedStep::CopiedBytes(section.entries);
    }
    return bytes;
  }

  // No term of the memory exceeds its limit by more than one request, and one request may always
  // come.
  void CheckMemory() {
    const ServerMemory& memory = *core_->memory();
    if (cluster_->plan.room == 0) return;
    const uint64_t early = core_->data_path()->EarlyBytes();
    if (early == 0) early_anyway_ = 0;
    const uint64_t unsent = memory.answers()->bytes();
    if (unsent <= memory.most_answers()) answered_anyway_ = 0;
    CheckTerm("unsent answers", unsent, memory.most_answers(),
              most_answer_ * (1 + answered_anyway_));
    // Copies have those of their primaries besides, also the copy of a tablet that moves.
    if (!cluster_->plan.replicas && cluster_->plan.moves == 0) {
      CheckTerm("early gradients", early, memory.most_early(), most_early_ * (1 + early_anyway_));
    }
    CheckTerm("requests", requests_->there, memory.most_held_alone(), most_request_);
  }
  void CheckTerm(const char* what, uint64_t bytes, uint64_t most, uint64_t one_more) {
    if (bytes <= std::max(most, one_more) + one_more) return;
    cluster_->world->Trace("{}: {} have {} bytes", node_->name(), what, bytes);
    cluster_->ledger.Violate("{}: {} have {} bytes, above {} and the {} of one request",
                             node_->name(), what, bytes, most, one_more);
  }

  void KeepLedger() {
    ServerMemory* const memory = core_->memory();
    core_->copies()->Tick();
    memory->Note(requests_->held, core_->data_path()->EarlyBytes(), core_->superseded_bytes());
    if (!parked_->empty()) {
      parked_->SendLifeSigns();
      ReleaseLater();
    }
    node_->After(kLedgerUs, [this] { KeepLedger(); });
  }
  void ReleaseLater() {
    if (parked_->empty() || std::exchange(release_posted_, true)) return;
    OnTablets([this] {
      release_posted_ = false;
      parked_->Release();
    });
  }

  void OnTablets(std::function<void()> work) {
    node_->After(cluster_->world->chance.Between(1, 300), [this] { NextOnTablets(); });
    tablet_work_.push_back(std::move(work));
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

  // Runs functions one after another on a fiber, never inside the call.
  void Background(std::function<void()> work) {
    background_.push_back(std::move(work));
    if (background_.size() == 1) NextInBackground();
  }
  void NextInBackground() {
    node_->After(cluster_->world->chance.Between(200, 10'000), [this] {
      disk_ = std::make_unique<Fiber>([this] { background_.front()(); });
      ContinueDisk();
    });
  }
  void ContinueDisk() {
    disk_->Resume();
    if (!disk_->ended()) return;
    background_.pop_front();
    if (!background_.empty()) NextInBackground();
  }
  // On the fiber: lets the time pass that the disk takes for a block.
  void UseDisk() {
    const int64_t us = cluster_->plan.block_us;
    if (us == 0) return;
    node_->After(cluster_->world->chance.Between(us / 2, us * 3 / 2), [this] { ContinueDisk(); });
    Fiber::Suspend();
  }
  bool DiskFails(uint64_t Statistics::*count) {
    const uint64_t percent = cluster_->plan.faults.io_error_percent;
    if (cluster_->faults_over || percent == 0) return false;
    const bool fails = cluster_->world->chance.Percent(percent);
    cluster_->ledger.statistics.*count += fails ? 1 : 0;
    return fails;
  }

  Cluster* const cluster_;
  Node* const node_;
  const std::unique_ptr<Logger> log_;
  MetricsRegistry metrics_;
  std::map<Adoption::Connection, std::shared_ptr<Stream>> chiefs_;
  std::map<uint64_t, std::shared_ptr<Stream>> links_;  // to copies
  Adoption::Connection next_connection_ = 1;
  std::deque<std::function<void()>> background_;
  std::deque<std::function<void()>> tablet_work_;
  std::shared_ptr<const v1::CloseStep> noted_;  // the newest step that is in the ledger
  const std::shared_ptr<RequestBytes> requests_ = std::make_shared<RequestBytes>();
  // The largest request, answer and gradient so far.
  uint64_t most_request_ = 0;
  uint64_t most_answer_ = 0;
  uint64_t most_early_ = 0;
  uint64_t early_anyway_ = 0;     // gradients that were copied although they should have waited
  uint64_t answered_anyway_ = 0;  // answers to them, which nobody admitted
  bool release_posted_ = false;
  std::unique_ptr<PsCore> core_;
  std::unique_ptr<ParkedRequests> parked_;
  std::unique_ptr<Fiber> disk_;  // last: its end unwinds what uses the others
};

// ------------------------------------------------------------------ PsLife::Request

bool PsLife::Request::Add(DataRequest message) {
  kept_.push_back(std::move(message));
  const DataRequest& newest = kept_.back();
  std::vector<std::span<const uint8_t>> payload;
  uint64_t bytes = 0;
  for (const auto& [words, size] : newest.payload) {
    payload.emplace_back(reinterpret_cast<const uint8_t*>(words.data()), size);
    bytes += size;
  }
  bytes_ += bytes;
  all_->there += bytes;
  ps_->most_request_ = std::max(ps_->most_request_, bytes_);
  const absl::Status added = assembler_.Add(newest.header, payload);
  if (!added.ok()) {
    ps_->cluster_->ledger.Violate("{}: a request was refused: {}", ps_->node_->name(),
                                  added.ToString());
  }
  if (!newest.header.more()) return true;
  if (began_ == 0) all_->unfinished.insert(began_ = ++all_->begun);
  return Hold();
}

// As HeldBytes.
bool PsLife::Request::Hold() {
  const ServerMemory& memory = *ps_->core_->memory();
  const uint64_t others = all_->held - held_;
  const bool oldest = began_ != 0 && *all_->unfinished.begin() == began_;
  const bool alone = oldest || others <= memory.most_held() / 4;
  if (others + bytes_ > (alone ? memory.most_held_alone() : memory.most_held())) return false;
  all_->held = others + bytes_;
  held_ = bytes_;
  return true;
}

CopyLog::Answer PsLife::Request::Push() {
  if (!std::exchange(pushed_, true)) ps_->PushOf(*view_, &scratch_, &answer_, &marks_);
  return marks_.MayAnswer();
}

absl::Status PsLife::Request::Park() {
  Statistics& statistics = ps_->cluster_->ledger.statistics;
  ++(view_->has_push ? statistics.parked_pushes : statistics.parked_pulls);
  if (ps_->core_->admission().Of(*view_) != Admission::Wait::kStep) ++statistics.waited_for_memory;
  if (Hold()) return absl::OkStatus();
  ++statistics.refused_requests;
  return ResourceExhausted("requests hold all the memory that they may");
}

void PsLife::Request::Send(v1::PushPullResponseHeader header) {
  const std::shared_ptr<Stream> stream = stream_.lock();
  if (stream == nullptr) return;
  header.set_sequence(view_->sequence);
  header.set_generation(ps_->core_->data_path()->generation());
  stream->Send(Stream::kAcceptor, DataResponse{std::move(header), {}, nullptr});
}

void PsLife::Request::SendLifeSign() {
  ++ps_->cluster_->ledger.statistics.promises;
  v1::PushPullResponseHeader sign;
  sign.set_more(true);
  Send(std::move(sign));
}

void PsLife::Request::AnswerError(const absl::Status& status) {
  v1::PushPullResponseHeader header;
  StatusToProto(status, header.mutable_error());
  Send(std::move(header));
}

}  // namespace

std::unique_ptr<Life> StartPs(Cluster* cluster, Node* node) {
  return std::make_unique<PsLife>(cluster, node);
}

}  // namespace cohort::simulator
