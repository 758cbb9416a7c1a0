#ifndef COHORT_PS_SERVER_CORE_TEST_UTIL_H_
#define COHORT_PS_SERVER_CORE_TEST_UTIL_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock_test_util.h"
#include "common/cluster/protocol_version.h"
#include "common/tablet/tablet_test_util.h"
#include "ps_server/ps_core.h"
#include "ps_server/request_assembler.h"

// For tests alone.
namespace cohort::ps_test {

// A PushPull message that owns its payload, aligned as the core wants it.
struct TestRequest {
  v1::PushPullHeader header;
  std::vector<std::vector<uint64_t>> memory;
  std::vector<std::span<const uint8_t>> payload;

  template <typename T>
  void Add(const std::vector<T>& values) {
    std::vector<uint64_t>& words = memory.emplace_back((values.size() * sizeof(T) + 7) / 8 + 1);
    std::memcpy(words.data(), values.data(), values.size() * sizeof(T));
    payload.emplace_back(reinterpret_cast<const uint8_t*>(words.data()), values.size() * sizeof(T));
  }
};

// Stands still, or runs by `per_look` whenever somebody looks at it.
class LookedAtClock : public ManualClock {
 public:
  TimePoint Now() const override { return ManualClock::Now() + ++looks_ * per_look; }
  Duration per_look = Duration::zero();

 private:
  mutable std::atomic<int64_t> looks_{0};  // threads of tests look, too
};

// A parameter server without network, disk or threads. The test decides when background work runs.
class TestCore : public ChiefSink, public ShardStore {
 public:
  explicit TestCore(uint32_t index = 0, ShardStore* store = nullptr, ApplyLog* apply_log = nullptr,
                    const ShardOptions& shard = {.block_bytes = 64}, PsCore::Options options = {}) {
    options.index = index;
    options.incarnation = 1000 + index;
    options.cores = 2;
    options.shard = shard;
    PsCore::Environment environment;
    environment.clock = &clock;
    environment.store = store == nullptr ? this : store;
    environment.metrics = &registry;
    environment.log = log_.get();
    environment.apply_log = apply_log;
    environment.sink = this;
    environment.background = [this](std::function<void()> f) {
      background.push_back(std::move(f));
    };
    environment.tablet_work = [this](std::function<void()> f) {
      tablet_work.push_back(std::move(f));
    };
    environment.figures = [] {
      v1::TaskFigures figures;
      figures.set_pushes(3);
      return figures;
    };
    environment.on_shutdown = [this](bool finished, const std::string&) { ended = finished; };
    core = std::make_unique<PsCore>(options, std::move(environment));
  }

  // The newest message to this connection; the others before it are dropped.
  v1::PsToChief Last(uint64_t connection) {
    REQUIRE(!sent[connection].empty());
    v1::PsToChief message = sent[connection].back();
    sent[connection].clear();
    return message;
  }

  // Delivers a message, and does the work on tablets that follows from it.
  void Deliver(uint64_t connection, const v1::ChiefToPs& message) {
    core->OnMessage(connection, message);
    while (!tablet_work.empty()) {
      auto function = std::move(tablet_work.front());
      tablet_work.pop_front();
      function();
    }
  }

  v1::PsToChief Adopt(uint64_t connection, uint64_t generation, uint64_t incarnation = 7,
                      bool probe = false, bool takeover = false, const std::string& job = "job") {
    v1::ChiefToPs message;
    message.set_generation(generation);
    message.set_request(++request);
    v1::AdoptPs* adopt = message.mutable_adopt();
    SetProtocolVersion(adopt);
    adopt->set_job(job);
    adopt->set_chief_incarnation(incarnation);
    adopt->set_probe(probe);
    adopt->set_takeover(takeover);
    adopt->set_checkpoint_dir(checkpoint_dir);
    adopt->set_directory_token(directory_token);
    Deliver(connection, message);
    return Last(connection);
  }

  void Assign(uint64_t connection, const v1::Layout& layout, uint64_t timeline = 1,
              const std::string& restore_from = "", uint64_t generation = 1) {
    v1::ChiefToPs message;
    message.set_generation(generation);
    message.set_request(++request);
    v1::AssignTablets* assign = message.mutable_assign();
    *assign->mutable_layout() = layout;
    assign->set_ps(index);
    assign->set_timeline(timeline);
    assign->set_term(timeline);
    assign->set_restore_from(restore_from);
    assign->set_initial_values(initial_values);
    *assign->mutable_floor() = floor;
    Deliver(connection, message);
  }

  void AdvanceWatermark(uint64_t connection, uint64_t watermark, uint64_t generation = 1) {
    v1::ChiefToPs message;
    message.set_generation(generation);
    message.mutable_watermark()->set_settled_watermark(watermark);
    Deliver(connection, message);
  }

  void TakeSnapshot(uint64_t connection, uint64_t cut, const std::string& directory,
                    uint64_t timeline = 1, uint64_t generation = 1) {
    v1::ChiefToPs message;
    message.set_generation(generation);
    message.set_request(++request);
    message.mutable_snapshot()->set_cut(cut);
    message.mutable_snapshot()->set_timeline(timeline);
    message.mutable_snapshot()->set_directory(directory);
    Deliver(connection, message);
  }

  void RunBackground() {
    while (!background.empty()) {
      auto function = std::move(background.front());
      background.pop_front();
      function();
    }
  }

  v1::PushPullResponseHeader Handle(const TestRequest& request) {
    RequestAssembler assembler;
    const absl::Status status = assembler.Add(request.header, request.payload);
    INFO(status);
    REQUIRE(status.ok());
    DataPathScratch scratch;
    v1::PushPullResponseHeader header;
    payload.clear();
    core->data_path()->Handle(assembler.Finish(), &scratch, &header, &payload);
    return header;
  }

  // A push of one dense gradient.
  v1::PushResult Push(uint32_t tablet, uint32_t shard, uint64_t closure,
                      const std::vector<float>& gradient, uint64_t timeline = 1,
                      uint64_t generation = 1, uint64_t watermark = 0,
                      const StepMembership& step = {}) {
    TestRequest request;
    request.header.set_generation(generation);
    request.header.set_settled_watermark(watermark);
    v1::PushPart* push = request.header.mutable_push();
    if (step.sync()) step.ToProto(push->mutable_step());
    push->mutable_id()->set_closure(closure);
    push->set_timeline(timeline);
    push->set_place(closure);
    push->set_weight(1);
    v1::PushSection* section = push->add_sections();
    section->set_tablet(tablet);
    section->set_term(timeline);
    v1::PushEntry* entry = section->add_entries();
    entry->set_shard(shard);
    entry->set_kind(v1::GRADIENT);
    entry->set_count(gradient.size());
    request.Add(gradient);
    const auto header = Handle(request);
    REQUIRE(header.pushes_size() == 1);
    return header.pushes(0);
  }

  // A push of a synchronous step to shard 0 of tablet 0.
  void PushStaged(uint64_t closure, const StepMembership& step,
                  const std::vector<float>& gradient) {
    REQUIRE(Push(0, 0, closure, gradient, 1, 1, 0, step).status() == v1::STAGED);
  }

  std::vector<float> Pull(uint32_t tablet, uint32_t shard) {
    TestRequest request;
    v1::PullSection* section = request.header.mutable_pull()->add_sections();
    section->set_tablet(tablet);
    section->add_entries()->set_shard(shard);
    const auto header = Handle(request);
    REQUIRE(header.pulls_size() == 1);
    pull_status = header.pulls(0).status();
    return TestTablet::Values<float>(payload);
  }

  void Send(Adoption::Connection connection, const v1::PsToChief& message) override {
    sent[connection].push_back(message);
  }
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) override {
    if (!write_status.ok()) return write_status;
    v1::SnapshotFile file;
    file.set_name("ps-file");
    written_values = SnapshotValues(job->tablets.at(0).shards.at(0));
    return std::vector<v1::SnapshotFile>{file};
  }
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string&) override {
    return NotFound("no such manifest");
  }
  absl::Status CheckDirectory(const std::string& directory, const std::string&) override {
    return directory == "/shared" ? absl::OkStatus() : FailedPrecondition("not shared");
  }

  LookedAtClock clock;
  MetricsRegistry registry;
  std::deque<std::function<void()>> background;
  std::deque<std::function<void()>> tablet_work;
  std::map<uint64_t, std::vector<v1::PsToChief>> sent;
  std::vector<PayloadSlice> payload;
  std::vector<float> written_values;
  absl::Status write_status;
  v1::AppliedSetProto floor;
  std::string initial_values;  // Assign sends it
  // Adopt sends these.
  std::string checkpoint_dir = "/shared";
  std::string directory_token = "token";
  uint32_t index = 0;
  uint64_t request = 0;
  int pull_status = 0;
  std::optional<bool> ended;
  std::unique_ptr<PsCore> core;

 private:
  std::unique_ptr<Logger> log_ = Logger::Discard();
};

}  // namespace cohort::ps_test

#endif  // COHORT_PS_SERVER_CORE_TEST_UTIL_H_
