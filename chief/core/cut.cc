#include "chief/core/cut.h"

#include <algorithm>
#include <utility>

#include "chief/core/finished_closures.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

constexpr int64_t kSlowCutUs = 3'000'000;  // most cuts are faster

void Cut::Enter(State state, int64_t now_us, int64_t limit_us) {
  state_ = state;
  since_us_ = now_us;
  deadline_us_ = now_us + limit_us;
}

void Cut::Release(int64_t now_us) {
  if (holds_) counters_.held_us += now_us - begun_us_;
}

uint64_t Cut::Begin(bool finished, uint64_t timeline, int64_t now_us, bool holds) {
  Enter(State::kDraining, now_us, MicrosFromSeconds(options_->cut_deadline_s));
  begun_us_ = now_us_ = now_us;
  holds_ = holds;
  finish_committed_ = false;
  const uint64_t number = next_number_++;
  directory_ = fmt::format("{}/ckpt-{}-{}-{}", options_->checkpoint_dir, timeline,
                           outbox_->generation(), number);
  const size_t servers = options_->ps.size();
  requests_.assign(servers, 0);
  taken_.assign(servers, false);
  written_.assign(servers, false);
  manifest_.Clear();
  manifest_.set_job(options_->job);
  if (options_->identity != nullptr) *manifest_.mutable_identity() = *options_->identity;
  manifest_.set_timeline(timeline);
  manifest_.set_generation(outbox_->generation());
  manifest_.set_cut(number);
  manifest_.set_finished(finished);
  record_ = 0;
  return number;
}

bool Cut::drained(size_t training_in_flight, int64_t now_us) const {
  return state_ == State::kDraining && (training_in_flight == 0 || now_us >= deadline_us_);
}

// The last checkpoint of a job is copied and exported, so it has all rows.
std::string Cut::Base() const {
  const bool full = manifest_.finished() || increments_ + 1 >= options_->full_every;
  return full ? "" : committed_;
}

void Cut::Snapshot(v1::Manifest manifest, const std::set<int>& servers, int64_t now_us) {
  manifest_ = std::move(manifest);
  Enter(State::kSnapshotting, now_us, options_->snapshot_deadline_us);
  v1::ChiefToPs message;
  message.mutable_snapshot()->set_cut(manifest_.cut());
  message.mutable_snapshot()->set_timeline(manifest_.timeline());
  message.mutable_snapshot()->set_directory(directory_);
  base_ = Base();
  message.mutable_snapshot()->set_base(base_);
  message.mutable_snapshot()->set_increments(options_->full_every > 1);
  message.mutable_snapshot()->set_averages(manifest_.finished() && options_->ends_with_averages);
  for (size_t i = 0; i < requests_.size(); ++i) {
    const bool asked = servers.contains(static_cast<int>(i));
    taken_[i] = written_[i] = !asked;
    if (asked) requests_[i] = outbox_->AskPs(static_cast<int>(i), message);
  }
  progress_.assign(requests_.size(), ProgressWatch(now_us));
}

bool Cut::AllDone(const std::vector<bool>& done) const {
  return std::find(done.begin(), done.end(), false) == done.end();
}

bool Cut::OnPsMessage(int ps, const v1::PsToChief& message, int64_t now_us) {
  if (state_ != State::kSnapshotting && state_ != State::kWriting) return false;
  const size_t i = static_cast<size_t>(ps);
  const bool taken =
      message.has_snapshot_taken() && message.snapshot_taken().cut() == manifest_.cut();
  const bool written =
      message.has_snapshot_written() && message.snapshot_written().cut() == manifest_.cut();
  if (!taken && !written && (message.request() == 0 || message.request() != requests_[i])) {
    return false;
  }
  if (message.request() != 0 && message.request() != requests_[i]) return true;  // for an older cut
  const ProtocolFaults& faults = options_->test_faults;
  if (message.has_progress()) {
    if (!faults.ignores_progress) progress_[i].Note(message.progress().bytes(), now_us);
    return true;
  }
  const absl::Status status = StatusFromProto(message.status());
  if (!status.ok() && faults.commits_failed_files && state_ == State::kWriting) {
    written_[i] = true;
  } else if (!status.ok()) {
    Abandon(Annotate(status, ShortTaskName(*options_, PsTask(ps))));
    return true;
  }
  if (taken && !taken_[i]) {
    taken_[i] = true;
    for (const v1::TabletCut& taken_cut : message.snapshot_taken().tablets()) {
      v1::TabletCut* const tablet = manifest_.add_tablets();
      *tablet = taken_cut;
      DropFinished(manifest_.chief(), tablet->mutable_applied());
    }
    if (state_ == State::kSnapshotting && AllDone(taken_)) {
      Enter(State::kWriting, now_us, options_->write_deadline_us);
      progress_.assign(requests_.size(), ProgressWatch(now_us));
      Release(now_us);
      COHORT_CRASH_POINT("chief.cut.snapshotted");
    }
  }
  if (written && !written_[i]) {
    written_[i] = true;
    manifest_.mutable_files()->MergeFrom(message.snapshot_written().files());
  }
  if (state_ == State::kWriting && AllDone(written_)) Write();
  return true;
}

void Cut::Write() {
  Enter(State::kCommitting, now_us_, options_->commit_deadline_us);
  const bool increment =
      std::ranges::any_of(manifest_.files(), [](const auto& file) { return file.increment(); });
  manifest_.set_base(increment ? base_ : "");
  manifest_.set_increments(increment ? increments_ + 1 : 0);
  COHORT_CRASH_POINT("chief.cut.shards_written");
  outbox_->effects()->WriteManifest(manifest_);
}

bool Cut::OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path) {
  if (state_ != State::kCommitting || cut != manifest_.cut()) return false;
  if (!status.ok()) {
    Abandon(status);
    return false;
  }
  COHORT_CRASH_POINT("chief.cut.manifest_written");
  finish_committed_ = manifest_.finished();
  committed_ = directory_.substr(directory_.rfind('/') + 1);
  increments_ = manifest_.increments();
  Enter(State::kJournaling, now_us_, options_->commit_deadline_us);
  v1::JournalRecord record;
  record.mutable_cut()->set_cut(manifest_.cut());
  record.mutable_cut()->set_timeline(manifest_.timeline());
  record.mutable_cut()->set_manifest(path);
  record.mutable_cut()->set_step(manifest_.step());
  record_ = outbox_->Append(std::move(record));
  return true;
}

void Cut::OnJournaled(uint64_t record) {
  if (state_ != State::kJournaling || record < record_) return;
  state_ = State::kIdle;
  Finish(absl::OkStatus());
}

void Cut::Finish(const absl::Status& status) {
  ++(status.ok() ? counters_.cuts : counters_.cut_failures);
  outbox_->effects()->CutDone(manifest_.cut(), status);
}

void Cut::Tick(int64_t now_us) {
  now_us_ = now_us;
  if ((state_ == State::kCommitting || state_ == State::kJournaling) && now_us >= deadline_us_) {
    Abandon(
        DeadlineExceeded("cut {}: {}/manifest.json was not written in {} s: the storage does "
                         "not answer",
                         manifest_.cut(), directory_, options_->commit_deadline_us / 1'000'000));
  }
  if (state_ == State::kSnapshotting && now_us >= deadline_us_) {
    std::string late;
    for (const int ps : Late()) {
      late += (late.empty() ? "" : ", ") + ShortTaskName(*options_, PsTask(ps));
    }
    Abandon(DeadlineExceeded("cut {}: {} did not take a snapshot in time", manifest_.cut(), late));
  }
  for (const int ps : Late()) {
    const ProgressWatch& progress = progress_[static_cast<size_t>(ps)];
    if (state_ != State::kWriting || now_us - progress.moved_us() < options_->write_deadline_us) {
      continue;
    }
    Abandon(DeadlineExceeded("cut {}: {} has written {}: does its storage answer?", manifest_.cut(),
                             ShortTaskName(*options_, PsTask(ps)), progress.ToString(now_us)));
  }
}

std::vector<int> Cut::Late() const {
  std::vector<int> late;
  if (state_ != State::kSnapshotting && state_ != State::kWriting) return late;
  const auto& done = state_ == State::kSnapshotting ? taken_ : written_;
  for (size_t i = 0; i < done.size(); ++i) {
    if (!done[i]) late.push_back(static_cast<int>(i));
  }
  return late;
}

void Cut::LoseServer(const absl::Status& why) {
  if (state_ != State::kCommitting) Abandon(why);
}

void Cut::Abandon(const absl::Status& why) {
  if (state_ == State::kIdle) return;
  const bool servers_know = state_ != State::kDraining;
  const bool held = holds_dispatch();
  // A committed checkpoint exists, even if its record is never written.
  const bool committed = state_ == State::kJournaling;
  state_ = State::kIdle;
  if (held) Release(now_us_);
  if (servers_know && !committed) {
    v1::ChiefToPs message;
    message.mutable_drop_snapshot()->set_cut(manifest_.cut());
    for (size_t i = 0; i < requests_.size(); ++i) outbox_->ToPs(static_cast<int>(i), message);
  }
  Finish(committed ? absl::OkStatus() : why);
}

std::string Cut::Waiting(size_t training_in_flight, int64_t now_us) const {
  const int64_t us = now_us - since_us_;
  if (state_ == State::kIdle || us < kSlowCutUs) return "";
  std::string servers;
  for (const int ps : Late()) {
    servers += (servers.empty() ? "" : ", ") + TaskName(*options_, PsTask(ps));
  }
  std::string what;
  switch (state_) {
    case State::kIdle:
      break;
    case State::kDraining:
      what = fmt::format("{} closures in flight to end", training_in_flight);
      break;
    case State::kSnapshotting:
      what = servers + " to take a snapshot";
      break;
    case State::kWriting:
      what = servers + " to write a snapshot";
      break;
    case State::kCommitting:
      what = "the storage to take its manifest";
      break;
    case State::kJournaling:
      what = "the journal to have it";
      break;
  }
  return fmt::format("waiting for checkpoint {}: {}, {} s", directory_, what, us / 1'000'000);
}

}  // namespace cohort
