#include "tests/simulator/chief_life.h"

#include <utility>

#include "common/base/status.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kTickUs = 10'000;
constexpr int64_t kRedialUs = 20'000;

}  // namespace

ChiefLife::ChiefLife(Cluster* cluster, Node* node)
    : cluster_(cluster),
      node_(node),
      world_(cluster->world),
      state_([cluster](const std::string& path) { return cluster->disk.Manifest(path); }) {
  CoreOptions options = cluster->plan.core;
  options.chief_incarnation = node->incarnation();
  options.continued = !cluster->disk.ReadJournal().empty();
  core_ = std::make_unique<CoordinatorCore>(options, this);
  walk_ = std::make_unique<Fiber>([this] { Walk(); });
  ++cluster->ledger.statistics.chief_lives;
  node->After(0, [this] { walk_->Resume(); });
}

ChiefLife::~ChiefLife() {
  cluster_->ledger.statistics.Add(core_->counters());
  // Some of the records on their way to the disk may have arrived. A segment arrives whole.
  const auto arrives = [this] {
    return world_->chance.Percent(cluster_->plan.faults.keep_tail_percent);
  };
  if (base_.has_value() && arrives()) cluster_->disk.StartSegment(generation_, {*base_});
  if (!writing_.empty()) {
    size_t count = 0;
    while (count < writing_.size() && arrives()) ++count;
    if (journal_begun_ || count == writing_.size()) StoreJournal(count);
  }
  walk_.reset();
}

void ChiefLife::Input(const std::function<void(CoordinatorCore*)>& input) {
  input(core_.get());
  if (condition_ != nullptr && (*condition_)()) {
    condition_ = nullptr;
    walk_->Resume();
  }
}

void ChiefLife::Tick() {
  Input([this](CoordinatorCore* core) { core->Tick(world_->now_us()); });
  node_->After(kTickUs, [this] { Tick(); });
}

// ------------------------------------------------------------------ streams

void ChiefLife::Dial(Task task) {
  LinkOf(task).stream = cluster_->network.Dial(
      node_, cluster_->NodeOf(task), StreamKind::kControl,
      {.on_open = [this, task] { Input([&](CoordinatorCore* core) { core->OnConnected(task); }); },
       .on_message =
           [this, task](Message message) {
             Input([&](CoordinatorCore* core) {
               if (task.role == Role::kWorker) {
                 core->OnWorkerMessage(task.index, std::get<v1::WorkerToChief>(std::move(message)));
               } else {
                 core->OnPsMessage(task.index, std::get<v1::PsToChief>(message));
               }
             });
           },
       .on_closed = [this, task](bool) { OnClosed(task, "the stream broke"); }});
}

void ChiefLife::OnClosed(Task task, const std::string& why) {
  LinkOf(task).stream = nullptr;
  Input([&](CoordinatorCore* core) { core->OnDisconnected(task, why); });
  node_->After(kRedialUs, [this, task] { Dial(task); });
}

void ChiefLife::Reconnect(Task task, const std::string& why) {
  std::weak_ptr<Stream> aborted = LinkOf(task).stream;
  node_->After(0, [this, task, why, aborted] {
    const auto stream = aborted.lock();
    if (stream == nullptr || stream != LinkOf(task).stream) return;
    stream->Close(Stream::kDialler);
    OnClosed(task, why);
  });
}

void ChiefLife::SendToWorker(int worker, v1::ChiefToWorker message) {
  if (message.has_dispatch()) CheckPublished(message.dispatch().settled_watermark());
  const auto& stream = LinkOf(WorkerTask(worker)).stream;
  if (stream != nullptr) stream->Send(Stream::kDialler, std::move(message));
}

void ChiefLife::SendToPs(int ps, v1::ChiefToPs message) {
  if (message.has_watermark()) CheckPublished(message.watermark().settled_watermark());
  const auto& stream = LinkOf(PsTask(ps)).stream;
  if (stream != nullptr) stream->Send(Stream::kDialler, std::move(message));
}

// ------------------------------------------------------------------ disk

void ChiefLife::TakeGeneration(uint64_t heard) {
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this, heard] {
    generation_ = cluster_->disk.TakeGeneration(heard);
    Input([this](CoordinatorCore* core) { core->OnGeneration(generation_); });
  });
}

void ChiefLife::ReadJournal() {
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    Input([this](CoordinatorCore* core) { core->OnRecovered(RecoverJournal()); });
  });
}

absl::StatusOr<Recovered> ChiefLife::RecoverJournal() {
  for (const v1::JournalRecord& record : cluster_->disk.ReadJournal()) {
    COHORT_RETURN_IF_ERROR(state_.Apply(record));
  }
  return state_.Recover(cluster_->disk.Newest());
}

void ChiefLife::AppendJournal(v1::JournalRecord record) {
  queue_.push_back(std::move(record));
  if (!journal_busy_) WriteJournal();
}

// All that is queued shares one fsync. A new segment is started as JournalThread does, and at times
// for no reason, which stands for a segment that has grown too long.
void ChiefLife::WriteJournal() {
  journal_busy_ = true;
  writing_ = std::exchange(queue_, {});
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    const bool begins = !journal_begun_;
    StoreJournal(writing_.size());
    const std::vector<v1::JournalRecord> written = std::exchange(writing_, {});
    Input([&](CoordinatorCore* core) { core->OnJournaled(written.back().number()); });
    bool due = world_->chance.Percent(2);
    for (const v1::JournalRecord& record : written) {
      const absl::Status status = state_.Apply(record);
      if (!status.ok()) cluster_->ledger.Violate("the journal: {}", status.ToString());
      due = due || record.has_cut();
    }
    if (begins) {
      DeleteOlderSegments();
    } else if (due) {
      StartSegment();
    } else {
      EndWrite();
    }
  });
}

void ChiefLife::StoreJournal(size_t count) {
  std::vector<v1::JournalRecord> records(writing_.begin(),
                                         writing_.begin() + static_cast<int64_t>(count));
  if (journal_begun_) {
    for (v1::JournalRecord& record : records) {
      cluster_->disk.Append(generation_, std::move(record));
    }
    return;
  }
  if (auto base = state_.Base(); base.has_value()) records.insert(records.begin(), *base);
  cluster_->disk.StartSegment(generation_, std::move(records));
  journal_begun_ = true;
}

void ChiefLife::StartSegment() {
  base_ = state_.Base();
  if (!base_.has_value()) return EndWrite();  // the manifest of the rollback is gone
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    cluster_->disk.StartSegment(generation_, {*std::exchange(base_, std::nullopt)});
    ++cluster_->ledger.statistics.segments;
    DeleteOlderSegments();
  });
}

void ChiefLife::DeleteOlderSegments() {
  node_->After(world_->chance.Between(1, 500), [this] {
    cluster_->disk.DeleteOlderSegments(generation_);
    EndWrite();
  });
}

void ChiefLife::EndWrite() {
  journal_busy_ = false;
  if (!queue_.empty()) WriteJournal();
}

void ChiefLife::WriteManifest(v1::Manifest manifest) {
  if (manifest.chief().pending_size() > 0) ++cluster_->ledger.statistics.cuts_with_pending;
  node_->After(world_->chance.Between(200, 5'000), [this, manifest = std::move(manifest)] {
    const std::string directory =
        cluster_->plan.core.checkpoint_dir + "/" + IdOf(manifest).ToString();
    cluster_->disk.Commit(directory, manifest, cluster_->plan.keep_checkpoints);
    // Committed, and nobody has been told: a place to die.
    node_->After(world_->chance.Between(1, 2'000), [this, cut = manifest.cut(), directory] {
      Input([&](CoordinatorCore* core) {
        core->OnManifestWritten(cut, absl::OkStatus(), directory + "/" + kManifestName);
      });
    });
  });
}

// ------------------------------------------------------------------ what is told

std::string ChiefLife::Text() const {
  std::string text = fmt::format(
      "chief: the walk waits for {}; {}; served {}, timeline {}, next place {}, queued {}, in "
      "flight "
      "{}, error pending {}, cut {}, {} of {} unfinished scheduled\n",
      waits_for_, core_->WaitingFor(), core_->served(), core_->timeline(), core_->next_place(),
      core_->queued(), core_->in_flight(), core_->error_pending(), core_->cut_active(),
      next_unfinished_, unfinished_.size());
  for (const UnfinishedClosure& open : core_->Unfinished()) {
    text += fmt::format("  closure {} of place {} is not scheduled\n", open.id, open.place);
  }
  return text;
}

void ChiefLife::CheckPublished(uint64_t watermark) {
  const uint64_t timeline = core_->timeline();
  if (timeline == published_timeline_ && watermark <= published_) return;
  published_ = watermark;
  published_timeline_ = timeline;
  cluster_->ledger.events.push_back(
      {.closure = watermark, .timeline = timeline, .verdict = "published"});
  const auto recovered = cluster_->disk.RecoverNow();
  if (!recovered.ok() || recovered->timeline != timeline) return;
  if (recovered->watermark < watermark) {
    cluster_->ledger.Violate(
        "the chief published watermark {} of timeline {}; the journal holds no more than {}",
        watermark, timeline, recovered->watermark);
  }
}

void ChiefLife::CutDone(uint64_t cut, const absl::Status& status) {
  cuts_done_[cut] = status;
  ++(status.ok() ? cluster_->ledger.statistics.cuts : cluster_->ledger.statistics.cut_failures);
  world_->Trace("chief: cut {}: {}", cut, status.ToString());
}

void ChiefLife::Note(const char* event, const std::string& what) {
  world_->Trace("chief: {} {}", event, what);
}

std::unique_ptr<Life> StartChief(Cluster* cluster, Node* node) {
  return std::make_unique<ChiefLife>(cluster, node);
}

}  // namespace cohort::simulator
