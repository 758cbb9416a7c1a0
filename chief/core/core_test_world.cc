#include "chief/core/core_test_world.h"

#include <algorithm>

#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

TestWorld::TestWorld(int n_workers, int n_ps, uint64_t seed)
    : workers(static_cast<size_t>(n_workers)), ps(static_cast<size_t>(n_ps)), random(seed) {
  options.job = "test";
  options.checkpoint_dir = "/ckpt";
  for (int i = 0; i < n_workers; ++i) options.workers.push_back(fmt::format("w{}:1", i));
  for (int i = 0; i < n_ps; ++i) options.ps.push_back(fmt::format("p{}:1", i));
  options.closures_in_flight = 4;
  options.server_grace_s = 1;
}

void TestWorld::StartChief() {
  options.continued = !durable.empty();
  core_ = std::make_unique<CoordinatorCore>(options, this);
  core_->Tick(now_us);
}

void TestWorld::KillChief() {
  core_.reset();
  writing.clear();
  take_generation_ = read_journal_ = false;
  resource_ = -1;
  manifest_.reset();
  reconnect_.clear();
  for (FakeWorker& w : workers) {
    w.connected = w.hears_chief = false;
    w.in.clear();
    w.out.clear();
  }
  for (FakePs& p : ps) {
    p.connected = false;
    p.in.clear();
    p.out.clear();
  }
}

void TestWorld::EmptyDirectory() {
  durable.clear();
  checkpoints.clear();
  snapshots.clear();
  newest.clear();
  generation = 0;
}

void TestWorld::Advance(int64_t us) {
  now_us += us;
  core_->Tick(now_us);
}

void TestWorld::Connect(Task task) {
  const size_t i = static_cast<size_t>(task.index);
  bool& connected = task.role == Role::kWorker ? workers[i].connected : ps[i].connected;
  const bool alive = task.role == Role::kWorker ? workers[i].alive : ps[i].alive;
  if (connected || !alive) return;
  connected = true;
  core_->OnConnected(task);
}

void TestWorld::Disconnect(Task task) {
  const size_t i = static_cast<size_t>(task.index);
  if (task.role == Role::kWorker) {
    if (!workers[i].connected) return;
    workers[i].connected = workers[i].hears_chief = false;
    workers[i].in.clear();
    workers[i].out.clear();
  } else {
    if (!ps[i].connected) return;
    ps[i].connected = false;
    ps[i].in.clear();
    ps[i].out.clear();
  }
  if (core_ != nullptr) core_->OnDisconnected(task, "the stream broke");
}

void TestWorld::ConnectAll() {
  for (size_t i = 0; i < ps.size(); ++i) Connect(PsTask(static_cast<int>(i)));
  for (size_t i = 0; i < workers.size(); ++i) Connect(WorkerTask(static_cast<int>(i)));
}

void TestWorld::KillWorker(int worker) {
  const uint64_t incarnation = workers[static_cast<size_t>(worker)].incarnation;
  Disconnect(WorkerTask(worker));
  FakeWorker fresh;
  fresh.incarnation = incarnation + 1;
  fresh.seen = std::move(workers[static_cast<size_t>(worker)].seen);
  workers[static_cast<size_t>(worker)] = std::move(fresh);
}

void TestWorld::KillPs(int i) {
  const uint64_t incarnation = ps[static_cast<size_t>(i)].incarnation;
  Disconnect(PsTask(i));
  ps[static_cast<size_t>(i)] = FakePs();
  ps[static_cast<size_t>(i)].incarnation = incarnation + 1;
}

// ------------------------------------------------------------------ effects

void TestWorld::SendToWorker(int worker, v1::ChiefToWorker message) {
  FakeWorker& w = workers[static_cast<size_t>(worker)];
  if (w.connected) w.in.push_back(std::move(message));
}

void TestWorld::SendToPs(int i, v1::ChiefToPs message) {
  FakePs& p = ps[static_cast<size_t>(i)];
  if (p.connected) p.in.push_back(std::move(message));
}

void TestWorld::Reconnect(Task task, const std::string&) { reconnect_.push_back(task); }

void TestWorld::ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult*) {
  done[token] = status;
  ++done_times[token];
}

void TestWorld::Note(const char* event, const std::string& what) {
  notes.push_back(fmt::format("{} {}", event, what));
}

// ------------------------------------------------------------------ disk

bool TestWorld::FlushJournal(size_t records) {
  if (writing.empty() || journal_stuck) return false;
  uint64_t number = 0;
  for (; records > 0 && !writing.empty(); --records) {
    number = writing.front().number();
    durable.push_back(std::move(writing.front()));
    writing.pop_front();
  }
  core_->OnJournaled(number);
  return true;
}

absl::StatusOr<v1::Manifest> TestWorld::ManifestOf(const std::string& path) const {
  const auto found = checkpoints.find(path);
  if (found == checkpoints.end()) return NotFound("{}", path);
  return found->second.manifest;
}

bool TestWorld::Chores() {
  if (std::exchange(take_generation_, false)) {
    core_->OnGeneration(++generation);
    return true;
  }
  if (std::exchange(read_journal_, false)) {
    core_->OnRecovered(Recover(durable, [&](const std::string& path) { return ManifestOf(path); }));
    return true;
  }
  if (manifest_.has_value() && !manifest_stuck) {
    const v1::Manifest manifest = *std::exchange(manifest_, std::nullopt);
    const std::string dir = fmt::format("/ckpt/ckpt-{}-{}-{}", manifest.timeline(),
                                        manifest.generation(), manifest.cut());
    FakeCheckpoint checkpoint = snapshots[dir];
    checkpoint.manifest = manifest;
    newest = dir + "/manifest.json";
    checkpoints[newest] = std::move(checkpoint);
    core_->OnManifestWritten(manifest.cut(), absl::OkStatus(), newest);
    return true;
  }
  if (!reconnect_.empty()) {
    const Task task = reconnect_.back();
    reconnect_.pop_back();
    Disconnect(task);
    return true;
  }
  return false;
}

// ------------------------------------------------------------------ a worker

bool TestWorld::ToWorker(int worker) {
  FakeWorker& w = workers[static_cast<size_t>(worker)];
  if (w.in.empty()) return false;
  const v1::ChiefToWorker message = std::move(w.in.front());
  w.in.pop_front();
  bool answer = false;
  v1::WorkerToChief out = WorkerAnswer(worker, message, &answer);
  out.set_request(message.request());
  out.set_generation(w.generation);
  if (answer) w.out.push_back(std::move(out));
  return true;
}

void TestWorld::RaiseTimeline(FakeWorker* worker, uint64_t timeline) {
  if (timeline <= worker->timeline) return;
  worker->timeline = timeline;
  worker->watermark = 0;
  worker->kept.clear();
}

v1::WorkerToChief TestWorld::WorkerAnswer(int worker, const v1::ChiefToWorker& message,
                                          bool* answer) {
  FakeWorker& w = workers[static_cast<size_t>(worker)];
  v1::WorkerToChief out;
  const auto drop = [&](auto unwanted) {
    if (!w.hand.empty() && unwanted(w.hand.front())) w.pushed = 0;
    std::erase_if(w.hand, [&](const v1::Closure& c) {
      if (!unwanted(c)) return false;
      v1::WorkerToChief result;
      v1::ClosureResult* r = result.mutable_results()->add_results();
      r->set_id(c.id());
      r->set_attempt(c.attempt());
      r->mutable_status()->set_code(static_cast<int>(absl::StatusCode::kCancelled));
      r->set_not_started(message.cancel().queued_only());
      w.out.push_back(std::move(result));
      return true;
    });
  };
  switch (message.body_case()) {
    case v1::ChiefToWorker::kAdopt: {
      *answer = true;
      v1::WorkerHello* hello = out.mutable_hello();
      SetProtocolVersion(hello);
      hello->mutable_task()->set_type("worker");
      hello->mutable_task()->set_index(worker);
      hello->set_incarnation(w.incarnation);
      hello->set_heard_generation(w.generation);
      hello->set_hears_chief(w.hears_chief);
      hello->set_chief_lost(w.chief_lost);
      hello->set_timeline(w.timeline);
      for (const v1::Closure& c : w.hand) {
        hello->add_in_hand()->set_id(c.id());
        hello->mutable_in_hand()->rbegin()->set_attempt(c.attempt());
      }
      for (const auto& [id, result] : w.kept) *hello->add_results() = result;
      for (const auto& p : w.programs) hello->add_programs(p);
      for (const auto& r : w.resources) hello->add_resources(r);
      for (const auto& [name, reader] : w.readers) *hello->add_readers() = reader;
      if (message.adopt().probe()) break;
      w.generation = message.generation();
      w.hears_chief = true;
      break;
    }
    case v1::ChiefToWorker::kProgram:
      w.programs.insert(message.program().fingerprint());
      *answer = true;
      break;
    case v1::ChiefToWorker::kResource:
      w.resources.insert(message.resource().name());
      if (message.resource().visitation() == v1::INDEPENDENT) {
        v1::ReaderPosition& reader = w.readers[message.resource().name()];
        reader.set_resource(message.resource().name());
        reader.set_timeline(message.resource().timeline());
        reader.set_batches(message.resource().begin());
      }
      *answer = true;
      break;
    case v1::ChiefToWorker::kRoutes:
      RaiseTimeline(&w, message.routes().timeline());
      break;
    case v1::ChiefToWorker::kDispatch:
      w.watermark = std::max(w.watermark, message.dispatch().settled_watermark());
      std::erase_if(w.kept, [&](const auto& kept) { return kept.first < w.watermark; });
      for (const v1::Closure& c : message.dispatch().closures()) {
        if (c.id() < w.watermark) continue;
        if (const auto kept = w.kept.find(c.id()); kept != w.kept.end()) {
          kept->second.set_attempt(c.attempt());
          v1::WorkerToChief again;
          *again.mutable_results()->add_results() = kept->second;
          w.out.push_back(std::move(again));
          continue;
        }
        w.hand.push_back(c);
        w.seen.push_back(c);
      }
      break;
    case v1::ChiefToWorker::kCancel: {
      const v1::CancelClosures& cancel = message.cancel();
      std::set<uint64_t> ids(cancel.ids().begin(), cancel.ids().end());
      // The first one is running.
      if (cancel.queued_only() && !w.hand.empty()) ids.erase(w.hand.front().id());
      drop([&](const v1::Closure& c) {
        return ids.contains(c.id()) ||
               (cancel.all_training() && c.training() && c.timeline() < cancel.timeline());
      });
      if (cancel.all_training()) RaiseTimeline(&w, cancel.timeline());
      break;
    }
    default:
      break;
  }
  return out;
}

bool TestWorld::FromWorker(int worker) {
  FakeWorker& w = workers[static_cast<size_t>(worker)];
  if (w.out.empty() || core_ == nullptr || !w.connected) return false;
  v1::WorkerToChief message = std::move(w.out.front());
  w.out.pop_front();
  core_->OnWorkerMessage(worker, std::move(message));
  return true;
}

bool TestWorld::Work(int worker) {
  FakeWorker& w = workers[static_cast<size_t>(worker)];
  if (w.hand.empty() || hold_work) return false;
  const v1::Closure& c = w.hand.front();
  v1::ClosureResult result;
  result.set_id(c.id());
  result.set_attempt(c.attempt());
  absl::Status status = outcome ? outcome(c) : absl::OkStatus();
  if (status.ok() && c.training() && w.pushed < ps.size()) {
    FakePs& p = ps[w.pushed];
    if (!p.alive || !p.has_tablet) return false;  // it waits for the server
    if (p.timeline != c.timeline() || p.generation > w.generation) {
      status = Aborted("fenced");
    } else {
      const bool closed = std::any_of(p.closed.begin(), p.closed.end(), [&](const auto& range) {
        return c.id() >= range.first && c.id() < range.second;
      });
      if (c.id() >= p.watermark && !closed && p.applied.insert(c.id()).second) {
        for (uint32_t i = 0; i < c.steps(); ++i) ++p.places[c.place() + i];
      }
      ++w.pushed;
      return true;
    }
  }
  w.pushed = 0;
  if (status.ok()) {
    result.set_steps(c.training() ? c.steps() : 0);
    v1::MetricValue* metric = result.add_metrics();
    metric->set_name("n");
    metric->set_total(c.steps());
    metric->set_count(1);
    w.kept[c.id()] = result;
  } else {
    result.mutable_status()->set_code(static_cast<int>(status.code()));
    result.mutable_status()->set_message(std::string(status.message()));
  }
  v1::WorkerToChief out;
  out.set_generation(w.generation);
  *out.mutable_results()->add_results() = result;
  if (const auto reader = w.readers.find(c.resource()); reader != w.readers.end() && status.ok()) {
    reader->second.set_batches(reader->second.batches() + c.steps());
    *out.mutable_results()->add_readers() = reader->second;
  }
  w.hand.pop_front();
  if (w.connected) w.out.push_back(std::move(out));
  return true;
}

// ------------------------------------------------------------------ a server

bool TestWorld::ToPs(int i) {
  FakePs& p = ps[static_cast<size_t>(i)];
  if (p.in.empty()) return false;
  const v1::ChiefToPs message = std::move(p.in.front());
  p.in.pop_front();
  PsHandle(i, message);
  return true;
}

void TestWorld::Restore(int i, const v1::AssignTablets& assign) {
  FakePs& p = ps[static_cast<size_t>(i)];
  p.places.clear();
  p.applied.clear();
  if (!assign.restore_from().empty()) {
    const FakePs& saved = checkpoints.at(assign.restore_from()).state.at(static_cast<uint64_t>(i));
    p.places = saved.places;
    p.applied = saved.applied;
  }
  p.has_tablet = true;
  p.timeline = assign.timeline();
  p.term = assign.term();
  p.learning_rates = assign.learning_rates();
  p.watermark = assign.floor().watermark();
  p.closed.clear();
  for (const v1::ClosureRange& range : assign.floor().closed()) {
    p.closed.emplace_back(range.begin(), range.end());
  }
}

void TestWorld::PsHandle(int i, const v1::ChiefToPs& message) {
  FakePs& p = ps[static_cast<size_t>(i)];
  v1::PsToChief out;
  out.set_request(message.request());
  switch (message.body_case()) {
    case v1::ChiefToPs::kAdopt: {
      if (!message.adopt().probe()) p.generation = message.generation();
      v1::PsHello* hello = out.mutable_hello();
      SetProtocolVersion(hello);
      hello->mutable_task()->set_type("ps");
      hello->mutable_task()->set_index(i);
      hello->set_incarnation(p.incarnation);
      hello->set_job(p.job);
      hello->set_heard_generation(p.generation);
      hello->set_timeline(p.timeline);
      hello->set_term(p.term);
      if (p.has_tablet) hello->add_tablets(static_cast<uint32_t>(i));
      hello->set_sees_checkpoint_dir(true);
      break;
    }
    case v1::ChiefToPs::kAssign:
      if (message.assign().timeline() < p.timeline) {
        out.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
        out.mutable_status()->set_message("an older timeline");
        break;
      }
      Restore(i, message.assign());
      p.job = options.job;
      out.mutable_assigned()->set_timeline(p.timeline);
      break;
    case v1::ChiefToPs::kWatermark:
      p.watermark = std::max(p.watermark, message.watermark().settled_watermark());
      return;
    case v1::ChiefToPs::kSnapshot: {
      if (p.refuse_snapshots) {
        out.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
        out.mutable_status()->set_message("disk full");
        break;
      }
      snapshots[message.snapshot().directory()].state[static_cast<uint64_t>(i)] = p;
      out.mutable_snapshot_taken()->set_cut(message.snapshot().cut());
      p.out.push_back(out);
      out.mutable_snapshot_written()->set_cut(message.snapshot().cut());
      out.mutable_snapshot_written()->add_files()->set_name(fmt::format("ps{}", i));
      break;
    }
    case v1::ChiefToPs::kLearningRates:
      p.learning_rates = message.learning_rates();
      break;
    default:
      return;
  }
  p.out.push_back(std::move(out));
}

bool TestWorld::FromPs(int i) {
  FakePs& p = ps[static_cast<size_t>(i)];
  if (p.out.empty() || core_ == nullptr || !p.connected) return false;
  const v1::PsToChief message = std::move(p.out.front());
  p.out.pop_front();
  core_->OnPsMessage(i, message);
  return true;
}

// ------------------------------------------------------------------ time passes

bool TestWorld::DeliverOne() {
  if (Chores() || FlushJournal(1)) return true;
  for (size_t k = 0; k < ps.size(); ++k) {
    const int i = static_cast<int>(k);
    if (ToPs(i) || FromPs(i)) return true;
  }
  for (size_t k = 0; k < workers.size(); ++k) {
    const int i = static_cast<int>(k);
    if (ToWorker(i) || FromWorker(i) || Work(i)) return true;
  }
  return false;
}

void TestWorld::Quiesce() {
  while (DeliverOne()) {
  }
}

void TestWorld::Serve() {
  v1::Layout layout;
  for (size_t i = 0; i < ps.size(); ++i) {
    v1::TabletSpec* tablet = layout.add_tablets();
    tablet->set_tablet(static_cast<uint32_t>(i));
    tablet->set_ps(static_cast<uint32_t>(i));
  }
  core_->setup()->AddProgram("program", v1::Program());
  core_->SetLayout(layout, 7);
  if (core_->view().variables.CanResume()) {
    core_->Resume();
    return;
  }
  const v1::Manifest* manifest = newest.empty() ? nullptr : &checkpoints.at(newest).manifest;
  core_->RollBack(manifest, newest).IgnoreError();
}

void TestWorld::StartServing() {
  StartChief();
  ConnectAll();
  Quiesce();
  Advance(1);
  Quiesce();
  Serve();
  Quiesce();
}

absl::StatusOr<uint64_t> TestWorld::ScheduleJob(uint64_t place, uint32_t steps, uint64_t end) {
  return core_->Schedule({.step = {.program = 0},
                          .dataset = {.resource = resource_},
                          .steps = steps,
                          .place = JobPlace{place, end},
                          .token = next_token_++});
}

void TestWorld::ScheduleAll(uint64_t places) {
  for (const UnfinishedClosure& c : core_->view().Unfinished()) {
    REQUIRE(ScheduleJob(c.place, c.steps, places).ok());
  }
  while (core_->view().scheduler.next_place() < places) {
    REQUIRE(ScheduleJob(core_->view().scheduler.next_place(), 1, places).ok());
  }
}

absl::StatusOr<uint64_t> TestWorld::ScheduleUser(bool training) {
  return core_->Schedule({.step = {.program = 0}, .training = training, .token = next_token_++});
}

}  // namespace cohort
