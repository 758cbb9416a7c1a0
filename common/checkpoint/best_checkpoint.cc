#include "common/checkpoint/best_checkpoint.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/report/progress.h"

namespace cohort {
namespace {

bool IsComparable(const BestRule& rule, const v1::Manifest& manifest) {
  return rule.comparable == nullptr || rule.comparable(manifest);
}

// Checks that the checkpoint is complete, matches its name, and is comparable.
absl::Status Check(const std::string& directory, const std::string& name, const BestRule& rule) {
  const auto id = CheckpointId::Parse(name);
  if (!id.has_value()) return DataLoss("\"{}\" is not the name of a checkpoint", name);
  COHORT_ASSIGN_OR_RETURN(const CheckpointEntry entry, CheckpointAt(JoinPath(directory, name)));
  if (entry.id != *id) {
    return DataLoss("{}: is the manifest of {}", entry.manifest, entry.id.ToString());
  }
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(entry.manifest));
  if (IsComparable(rule, manifest)) return absl::OkStatus();
  return FailedPrecondition("its {} is of another validation set", rule.metric);
}

bool Counts(const std::string& directory, const std::string& name, const BestRule& rule,
            const RefusedCallback& refused) {
  const absl::Status status = Check(directory, name, rule);
  if (!status.ok() && refused) {
    refused(JoinPath(JoinPath(directory, name), kManifestName), status);
  }
  return status.ok();
}

// The validated checkpoints of the timeline of `last`, up to it; the best first, and of equal ones
// the older first.
absl::StatusOr<std::vector<v1::BestCheckpoint>> Candidates(const std::string& directory,
                                                           const v1::Manifest& last,
                                                           const BestRule& rule) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(directory));
  std::vector<v1::BestCheckpoint> out;
  for (const CheckpointEntry& entry : entries) {
    if (entry.id.timeline != last.timeline() || entry.id > IdOf(last)) continue;
    const auto manifest = ReadManifest(entry.manifest);
    if (!manifest.ok() || !manifest->has_validated()) continue;
    const v1::Validated& validated = manifest->validated();
    if (validated.metric() != rule.metric || !rule.Better(validated.value(), nullptr)) continue;
    if (manifest->epoch() < rule.first_epoch) continue;
    if (!IsComparable(rule, *manifest)) continue;
    out.push_back(AsBest(*manifest, rule));
    out.back().set_checkpoint(entry.id.ToString());
  }
  BestRule any = rule;
  any.min_delta = 0;
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto& a, const auto& b) { return any.Better(a.value(), &b); });
  return out;
}

}  // namespace

bool BestRule::Better(double value, const v1::BestCheckpoint* best) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double than = best != nullptr ? best->value() : highest ? -kInfinity : kInfinity;
  return highest ? value - min_delta > than : value + min_delta < than;
}

bool BestRule::Chose(const v1::BestCheckpoint& best) const {
  return best.metric() == metric && best.mode() == mode() && best.epoch() >= first_epoch;
}

BestRule RuleOf(const v1::Manifest& manifest) {
  const auto set_of = [](const v1::Manifest& of) {
    v1::DatasetSpec validation = of.job_spec().data().validation();
    validation.clear_reads();  // they follow from the model
    return StableBytes(validation) + StableBytes(of.validation_data());
  };
  return {.metric = manifest.best().metric(),
          .highest = manifest.best().mode() == "max",
          .comparable = [set = set_of(manifest), set_of](const v1::Manifest& other) {
            return set_of(other) == set;
          }};
}

v1::BestCheckpoint AsBest(const v1::Manifest& manifest, const BestRule& rule) {
  v1::BestCheckpoint best;
  best.set_checkpoint(IdOf(manifest).ToString());
  best.set_metric(rule.metric);
  best.set_mode(std::string(rule.mode()));
  best.set_value(manifest.validated().value());
  best.set_step(manifest.step());
  best.set_epoch(manifest.epoch());
  return best;
}

absl::StatusOr<std::optional<v1::BestCheckpoint>> BestOf(const std::string& directory,
                                                         const v1::Manifest& last,
                                                         const BestRule& rule,
                                                         const RefusedCallback& refused) {
  std::string named;
  if (last.has_best() && rule.Chose(last.best())) {
    named = last.best().checkpoint();
    if (Counts(directory, named, rule, refused)) return std::optional(last.best());
  }
  COHORT_ASSIGN_OR_RETURN(const auto candidates, Candidates(directory, last, rule));
  for (const v1::BestCheckpoint& next : candidates) {
    if (next.checkpoint() == named) continue;
    if (Counts(directory, next.checkpoint(), rule, refused)) return std::optional(next);
  }
  return std::optional<v1::BestCheckpoint>();
}

absl::StatusOr<std::optional<v1::BestCheckpoint>> FindBest(const std::string& directory,
                                                           const RefusedCallback& refused) {
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestValid(directory, refused));
  if (!newest.has_value()) return std::optional<v1::BestCheckpoint>();
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(newest->manifest));
  if (!manifest.has_best()) return std::optional<v1::BestCheckpoint>();
  return BestOf(directory, manifest, RuleOf(manifest), refused);
}

std::string BestText(const v1::BestCheckpoint& best) {
  return fmt::format("{}, epoch {}", FormatMetrics({{best.metric(), best.value()}}), best.epoch());
}

}  // namespace cohort
