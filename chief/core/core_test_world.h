#ifndef COHORT_CHIEF_CORE_CORE_TEST_WORLD_H_
#define COHORT_CHIEF_CORE_CORE_TEST_WORLD_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "chief/core/coordinator_core.h"

namespace cohort {

// A whole cluster of fake peers around the real core, on a virtual clock, for the core's own tests.
// Links keep the order of messages. The test chooses the next event, or a seed determines it.

// A tablet server with one tablet. It records the places in its state, and their ids.
struct FakePs {
  bool alive = true;
  bool connected = false;
  uint64_t incarnation = 1;
  uint64_t generation = 0;
  std::string job;
  uint64_t timeline = 0;
  uint64_t term = 0;
  uint64_t watermark = 0;
  bool has_tablet = false;
  std::map<uint64_t, int> places;  // place -> times applied
  std::set<uint64_t> applied;      // ids
  std::vector<std::pair<uint64_t, uint64_t>> closed;
  std::deque<v1::ChiefToPs> in;
  std::deque<v1::PsToChief> out;
  v1::LearningRates learning_rates;
  bool refuse_snapshots = false;  // a full disk
};

struct FakeWorker {
  bool alive = true;
  bool connected = false;
  uint64_t incarnation = 1;
  uint64_t generation = 0;
  bool hears_chief = false;
  bool chief_lost = false;
  uint64_t timeline = 0;
  uint64_t watermark = 0;
  std::set<std::string> programs;
  std::set<std::string> resources;
  std::map<std::string, v1::ReaderPosition> readers;  // readers of the independent resources
  std::deque<v1::Closure> hand;
  size_t pushed = 0;  // how many servers have the push of the first closure in `hand`
  std::map<uint64_t, v1::ClosureResult> kept;
  std::deque<v1::ChiefToWorker> in;
  std::deque<v1::WorkerToChief> out;
  std::vector<v1::Closure> seen;  // every closure that was ever dispatched here
};

// The contents of a manifest and the shard files.
struct FakeCheckpoint {
  v1::Manifest manifest;
  std::map<uint64_t, FakePs> state;  // by ps: at its snapshot
};

class TestWorld : public CoreEffects {
 public:
  TestWorld(int workers, int ps, uint64_t seed = 1);

  CoordinatorCore& core() { return *core_; }
  CoreOptions options;  // options of the next StartChief
  std::vector<FakeWorker> workers;
  std::vector<FakePs> ps;
  std::map<uint64_t, absl::Status> done;  // by token
  std::map<uint64_t, int> done_times;     // by token
  std::vector<absl::Status> cuts_done;
  std::vector<absl::Status> rollbacks_done;
  std::vector<v1::JournalRecord> durable;
  std::deque<v1::JournalRecord> writing;
  std::map<std::string, FakeCheckpoint> checkpoints;  // by manifest path
  std::map<std::string, FakeCheckpoint> snapshots;    // by directory, not committed
  std::string newest;
  bool journal_stuck = false;
  bool manifest_stuck = false;
  uint64_t generation = 0;
  std::vector<std::string> notes;
  std::vector<std::string> dialed;  // "worker:2 at host:1", "worker:2" when it is hung up

  // Starts a new incarnation of the chief: everything that was not durable is lost.
  void StartChief();
  void KillChief();
  // Reads a committed checkpoint, as Recover does.
  absl::StatusOr<v1::Manifest> ManifestOf(const std::string& path) const;
  // Removes journal and checkpoints, like another directory or --fresh.
  void EmptyDirectory();
  void Advance(int64_t us);
  void Connect(Task task);
  void Disconnect(Task task);
  void ConnectAll();
  void KillWorker(int worker);  // and bring it back as a new process without a stream
  void KillPs(int ps);

  // Delivers one message or runs one closure; the peers take turns. Returns false if there is no
  // work.
  bool DeliverOne();
  // Calls DeliverOne until there is no work.
  void Quiesce();
  // Starts the chief and connects all tasks, until the variables are served.
  void StartServing();
  void Serve();  // SetLayout, then Resume, or RollBack to the newest checkpoint
  // The dataset "data", read independently, feeds what is scheduled from now on.
  void ReadData() {
    v1::CreateResource resource;
    resource.set_name("data");
    resource.set_visitation(v1::INDEPENDENT);
    resource_ = core_->setup()->AddResource(std::move(resource));
  }
  uint64_t ReaderOf(int worker) const {
    const auto& readers = workers[static_cast<size_t>(worker)].readers;
    return readers.contains("data") ? readers.at("data").batches() : 0;
  }
  absl::StatusOr<uint64_t> ScheduleJob(uint64_t place, uint32_t steps, uint64_t end);
  // What a job runner does: schedules what is unfinished, then the rest.
  void ScheduleAll(uint64_t places);
  absl::StatusOr<uint64_t> ScheduleUser(bool training = true);

  // Single events, for random schedules.
  bool FlushJournal(size_t records);
  bool ToWorker(int worker);
  bool FromWorker(int worker);
  bool ToPs(int ps);
  bool FromPs(int ps);
  bool Work(int worker);  // sends one push of the first closure, or its result
  std::function<absl::Status(const v1::Closure&)> outcome;  // decides how a closure ends; null: OK
  bool hold_work = false;

  std::mt19937_64 random;
  int64_t now_us = 1'000'000;

  // CoreEffects
  void SendToWorker(int worker, v1::ChiefToWorker message) override;
  void SendToPs(int ps, v1::ChiefToPs message) override;
  void Reconnect(Task task, const std::string& why) override;
  void TakeGeneration(uint64_t heard) override {
    take_generation_ = true;
    generation = std::max(generation, heard);
  }
  void ReadJournal() override { read_journal_ = true; }
  void AppendJournal(v1::JournalRecord record) override { writing.push_back(std::move(record)); }
  void WriteManifest(v1::Manifest manifest) override { manifest_ = std::move(manifest); }
  void ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult*) override;
  void CutDone(uint64_t, const absl::Status& status) override { cuts_done.push_back(status); }
  void RollbackDone(const absl::Status& status) override { rollbacks_done.push_back(status); }
  void Note(const char* event, const std::string& what) override;
  void DialJoined(Task task, const std::string& address) override {
    dialed.push_back(task.ToString() + " at " + address);
  }
  void HangUp(Task task) override { dialed.push_back(task.ToString()); }

 private:
  bool Chores();
  static void RaiseTimeline(FakeWorker* worker, uint64_t timeline);
  v1::WorkerToChief WorkerAnswer(int worker, const v1::ChiefToWorker& message, bool* answer);
  void PsHandle(int ps, const v1::ChiefToPs& message);
  void Restore(int ps, const v1::AssignTablets& assign);

  std::unique_ptr<CoordinatorCore> core_;
  bool take_generation_ = false;
  bool read_journal_ = false;
  std::optional<v1::Manifest> manifest_;
  std::vector<Task> reconnect_;
  uint64_t next_token_ = 1;
  int resource_ = -1;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_TEST_WORLD_H_
