#include "chief/job/fake_cluster_test_util.h"

#include <algorithm>
#include <utility>

#include "proto/worker.pb.h"

namespace cohort::testing {

absl::Status LostServer() {
  absl::Status status = Unavailable("ps:0 is gone");
  SetFailure(&status, {.role = "ps", .retryable = true});
  return status;
}

absl::Status FakeCluster::Called(const std::string& call) {
  calls.push_back(call);
  return fail ? fail(call) : absl::OkStatus();
}

absl::Status FakeCluster::TakeError() { return std::exchange(error_, absl::OkStatus()); }

absl::StatusOr<RemoteValue> FakeCluster::Schedule(ClosureSpec spec) {
  COHORT_RETURN_IF_ERROR(TakeError());
  auto [token, value] = results_.New();
  v1::ClosureResult result;
  result.set_steps(spec.steps);
  if (spec.place.has_value()) {
    const uint64_t place = spec.place->place;
    error_ = Called(fmt::format("train {}+{}", place, spec.steps));
    std::erase_if(unfinished, [&](const UnfinishedClosure& u) { return u.place == place; });
    now.next_place = std::max(now.next_place, place + spec.steps);
    if (error_.ok()) now.steps += spec.steps;
    now.last_learning_rate = now.learning_rate;
    now.metrics = {MeanState("loss", 1, 2)};
  } else {
    error_ = Called(fmt::format("validate {}", spec.leases.at(0).begin));
    for (const auto& [name, mean] : validation) {
      v1::MetricValue* metric = result.add_metrics();
      metric->set_name(name);
      metric->set_total(mean * 2);
      metric->set_count(2);
    }
  }
  results_.Finish(token, error_, &result);
  return std::move(value);
}

absl::StatusOr<bool> FakeCluster::JoinFor(double seconds) {
  clock.Advance(FromSeconds(seconds));
  COHORT_RETURN_IF_ERROR(TakeError());
  return true;
}

absl::Status FakeCluster::Checkpoint(bool finished) {
  COHORT_RETURN_IF_ERROR(Called(finished ? "last checkpoint" : "checkpoint"));
  v1::Manifest manifest;
  manifest.set_timeline(now.timeline);
  manifest.set_generation(1);
  manifest.set_cut(next_cut_++);
  manifest.set_epoch(now.epoch);
  manifest.set_step(now.next_place);
  manifest.set_finished(finished);
  if (keeper != nullptr) keeper->Complete(&manifest);
  if (callbacks != nullptr) callbacks->Complete(&manifest);
  newest_ = PathOf(IdOf(manifest).ToString());
  manifests.push_back(manifest);
  if (keeper != nullptr) keeper->Committed(manifest);
  ++now.counters.cuts;
  return absl::OkStatus();
}

absl::Status FakeCluster::RestoreFrom(const std::string& checkpoint) {
  COHORT_RETURN_IF_ERROR(Called("restore " + checkpoint));
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest from, Read(checkpoint));
  GoTo(from);
  return absl::OkStatus();
}

absl::Status FakeCluster::Restore() {
  COHORT_RETURN_IF_ERROR(Called("restore"));
  const v1::Manifest from = manifests.empty() ? v1::Manifest() : manifests.back();
  GoTo(from);
  if (manifests.empty()) newest_ = "";
  return absl::OkStatus();
}

void FakeCluster::GoTo(const v1::Manifest& from) {
  ++now.timeline;
  history.clear();
  now.epoch = from.epoch();
  now.steps = now.next_place = from.step();
  newest_ = PathOf(IdOf(from).ToString());
}

absl::Status FakeCluster::SetLearningRate(double rate, bool) {
  now.learning_rate = rate;
  return Called(fmt::format("set learning rate {}", rate));
}

absl::Status FakeCluster::EndEpoch(const v1::EpochRecord* record) {
  ++now.epoch;
  if (record != nullptr) history.push_back(*record);
  now.metrics.clear();
  return Called(fmt::format("end epoch {}", now.epoch));
}

absl::StatusOr<v1::Manifest> FakeCluster::Read(const std::string& checkpoint) const {
  for (const v1::Manifest& manifest : manifests) {
    if (PathOf(IdOf(manifest).ToString()) == checkpoint) return manifest;
  }
  return NotFound("{}", checkpoint);
}

absl::StatusOr<std::optional<v1::Manifest>> FakeCluster::NewestManifest() const {
  return manifests.empty() ? std::nullopt : std::optional<v1::Manifest>(manifests.back());
}

absl::StatusOr<std::optional<v1::BestCheckpoint>> FakeCluster::BestUpTo(
    const v1::Manifest& last, const BestRule&, const RefusedCallback& refused) const {
  if (!last.has_best()) return std::optional<v1::BestCheckpoint>();
  const std::string path = PathOf(last.best().checkpoint());
  if (Read(path).ok()) return std::optional<v1::BestCheckpoint>(last.best());
  refused(path, NotFound("it is gone"));
  return std::optional<v1::BestCheckpoint>();
}

Console::Console(const Clock* clock)
    : log(*Logger::Create(
          {.to_stderr = false, .sink = [this](std::string_view text) { log_text.append(text); }})),
      line(clock, {}, [this](std::string_view text) { lines.emplace_back(text); }),
      console(&line),
      metrics(&console, log.get()) {}

bool Console::Has(const std::string& text) const {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace cohort::testing
