// The part of PsCore that makes tablets: AssignTablets, by initializers or out of a cut.
//
//   1. OnAssign: what was served is served no more; its snapshots are dropped.
//   2. Build (background): the shards of this server's tablets, Initialize or Restore.
//   3. OnBuilt: unless a newer assignment has come, they are served and the chief is told.
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/placement/layout_check.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/ps_core.h"

namespace cohort {

constexpr double kGiB = 1 << 30;

void PsCore::OnAssign(const Asker& asker, const v1::AssignTablets& assign) {
  if (assign.ps() != options_.index) {
    AnswerError(asker, FailedPrecondition("tablets of ps:{} assigned to ps:{}", assign.ps(),
                                          options_.index));
    return;
  }
  const auto now = data_path_.tablets();
  if (now != nullptr && assign.timeline() < now->timeline) {
    AnswerError(asker, FailedPrecondition("timeline {} assigned, but {} is served",
                                          assign.timeline(), now->timeline));
    return;
  }
  env_.log->Info("assigning", {{"timeline", assign.timeline()},
                               {"term", assign.term()},
                               {"restore_from", assign.restore_from()}});
  CancelSnapshots();
  data_path_.Serve(nullptr);
  const uint64_t assignment = ++assignment_;
  auto copy = std::make_shared<const v1::AssignTablets>(assign);
  env_.background([this, asker, assignment, copy] {
    OnBuilt(asker, assignment, Build(*copy, asker.generation));
  });
}

absl::StatusOr<std::shared_ptr<TabletSet>> PsCore::Build(const v1::AssignTablets& assign,
                                                         uint64_t generation) try {
  const v1::Layout& layout = assign.layout();
  std::shared_ptr<const OptimizerRule> rule;
  if (!layout.optimizer().class_name().empty()) {
    COHORT_ASSIGN_OR_RETURN(rule, OptimizerRule::Create(layout.optimizer()));
  }
  COHORT_RETURN_IF_ERROR(CheckLayout(layout));
  const double bytes =
      BytesOfServer(layout, options_.index, rule == nullptr ? 0 : rule->slots().size());
  if (options_.memory_bytes > 0 && bytes > static_cast<double>(options_.memory_bytes)) {
    return ResourceExhausted(
        "ps:{} would hold {:.1f} GiB of shards and slots, and may use {:.1f} GiB of memory: "
        "use more parameter servers",
        options_.index, bytes / kGiB, static_cast<double>(options_.memory_bytes) / kGiB);
  }
  auto set = std::make_shared<TabletSet>();
  set->timeline = assign.timeline();
  set->term = assign.term();
  set->AdvanceWatermark(assign.floor().watermark());
  for (const v1::TabletSpec& spec : layout.tablets()) {
    if (spec.ps() != options_.index) continue;
    Tablet::Options options;
    options.tablet = spec.tablet();
    options.timeline = assign.timeline();
    options.term = assign.term();
    options.generation = generation;
    options.limits = options_.applied_limits;
    options.shard = options_.shard;
    options.test_faults = options_.test_faults;
    options.version_gauge =
        env_.metrics->AddGauge("cohort_ps_tablet_version", "Updates applied to a tablet.",
                               {{"tablet", std::to_string(spec.tablet())}});
    COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Tablet> tablet,
                            Tablet::Create(layout, rule, pool_.get(), options));
    if (assign.restore_from().empty()) {
      COHORT_RETURN_IF_ERROR(tablet->Initialize(layout));
    }
    set->tablets.push_back(std::move(tablet));
  }
  std::sort(set->tablets.begin(), set->tablets.end(),
            [](const auto& a, const auto& b) { return a->number() < b->number(); });
  if (!assign.restore_from().empty()) COHORT_RETURN_IF_ERROR(Restore(assign, set.get()));
  for (const auto& tablet : set->tablets) {
    COHORT_RETURN_IF_ERROR(tablet->Restore(assign.floor(), 0));
  }
  return set;
} catch (const std::bad_alloc&) {
  return ResourceExhausted("ps:{} has not enough memory for its shards", options_.index);
}

absl::Status PsCore::Restore(const v1::AssignTablets& assign, TabletSet* set) {
  auto source = env_.store->Open(assign.restore_from());
  COHORT_RETURN_IF_ERROR(Annotate(source.status(), assign.restore_from()));
  for (const auto& tablet : set->tablets) {
    absl::Status read = tablet->Fill(
        [&](const ShardInfo& info, int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
          const std::string name = slot < 0 ? "" : info.slots[static_cast<size_t>(slot)].name;
          return (*source)->ReadRows(info.variable, name, info.dtype,
                                     static_cast<uint64_t>(info.row_begin + row),
                                     static_cast<uint64_t>(rows), out);
        });
    COHORT_RETURN_IF_ERROR(Annotate(read, assign.restore_from()));
    auto start = (*source)->Tablet(assign.layout(), tablet->number());
    COHORT_RETURN_IF_ERROR(Annotate(start.status(), assign.restore_from()));
    COHORT_RETURN_IF_ERROR(tablet->Restore(*start->applied, start->version));
    if (start->partially_applied == 0) continue;
    metrics_.partially_applied->Increment(start->partially_applied);
    env_.log->Warning("partially_applied_updates",
                      {{"tablet", tablet->number()}, {"updates", start->partially_applied}});
  }
  COHORT_CRASH_POINT("ps.restore.done");
  return absl::OkStatus();
}

void PsCore::OnBuilt(const Asker& asker, uint64_t assignment,
                     absl::StatusOr<std::shared_ptr<TabletSet>> tablets) {
  MutexLock lock(&mu_);
  if (assignment != assignment_) {
    AnswerError(asker, Aborted("a newer assignment has come"));
    return;
  }
  if (!tablets.ok()) {
    env_.log->Failure(LogLevel::kError, "assignment_failed", tablets.status());
    AnswerError(asker, tablets.status());
    return;
  }
  v1::PsToChief message;
  message.mutable_assigned()->set_timeline((*tablets)->timeline);
  for (const auto& tablet : (*tablets)->tablets) {
    message.mutable_assigned()->add_tablets(tablet->number());
  }
  env_.log->Info("serving",
                 {{"timeline", (*tablets)->timeline}, {"tablets", (*tablets)->tablets.size()}});
  data_path_.Serve(*std::move(tablets));
  // A chief that took over while they were built.
  data_path_.Fence(adoption_.generation());
  Answer(asker, &message);
}

}  // namespace cohort
