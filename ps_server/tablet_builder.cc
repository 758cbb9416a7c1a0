#include "ps_server/tablet_builder.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/layout_check.h"
#include "common/tablet/row_tier.h"
#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr double kGiB = 1 << 30;

bool HasTables(const v1::Layout& layout, uint32_t ps) {
  return std::ranges::any_of(layout.shards(), [&](const v1::ShardSpec& shard) {
    if (!IsTable(layout.variables(static_cast<int>(shard.variable())).dims())) return false;
    return std::ranges::any_of(layout.tablets(), [&](const v1::TabletSpec& tablet) {
      return tablet.tablet() == shard.tablet() && tablet.ps() == ps;
    });
  });
}

// Those that the server answers for, and those whose copies it keeps.
std::vector<Tablet*> AllOf(const TabletSet& set) {
  std::vector<Tablet*> all;
  for (const auto& tablet : set.tablets) all.push_back(tablet.get());
  for (const auto& copy : set.copies) all.push_back(copy->tablet().get());
  return all;
}

}  // namespace

absl::Status TabletBuilder::CheckMemory(const v1::AssignTablets& assign,
                                        const LayoutRules& rules) const {
  double bytes = BytesOfServer(assign.layout(), assign.ps(), [&](const v1::VariableSpec& variable) {
    return RowBytes(variable, rules.Find(variable));
  });
  if (HasTables(assign.layout(), assign.ps())) {
    bytes += static_cast<double>(assign.table_memory_bytes());
  }
  env_.memory->SetServers(assign.servers_of_host());
  const auto most = static_cast<double>(env_.memory->limit());
  if (most == 0 || bytes <= most) return absl::OkStatus();
  return ResourceExhausted(
      "ps:{} would hold {:.1f} GiB of shards and slots, and may use {:.1f} GiB of memory: use more "
      "parameter servers",
      assign.ps(), bytes / kGiB, most / kGiB);
}

absl::Status TabletBuilder::MakeDisk(const v1::AssignTablets& assign, TabletSet* set) const {
  if (assign.table_memory_bytes() == 0 || !HasTables(assign.layout(), assign.ps())) {
    return absl::OkStatus();
  }
  RowDisk::Options options;
  options.parent = assign.table_directory();
  options.memory_bytes = assign.table_memory_bytes();
  options.server = fmt::format("ps:{}", assign.ps());
  options.found_in_memory = env_.metrics->rows_found_in_memory;
  options.found_on_disk = env_.metrics->rows_found_on_disk;
  COHORT_ASSIGN_OR_RETURN(set->disk, RowDisk::Create(options));
  env_.log->Info("tables_on_disk",
                 {{"directory", set->disk->directory()}, {"memory_bytes", options.memory_bytes}});
  if (set->disk->in_memory()) {
    env_.log->Warning("tables_in_memory",
                      {{"directory", set->disk->directory()},
                       {"reason",
                        "it is a file system in memory, so the rows beyond "
                        "`strategy.table_memory_bytes` take memory, too"},
                       {"todo", "set `strategy.table_directory` to a directory on a disk"}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Tablet>> TabletBuilder::Make(
    const v1::Layout& layout, const std::shared_ptr<const LayoutRules>& rules, uint32_t number,
    RowDisk* disk) const {
  Tablet::Options options;
  options.tablet = number;
  options.limits = options_.applied_limits;
  options.shard = options_.shard;
  options.shard.disk = disk;
  options.test_faults = options_.test_faults;
  options.early_bytes = env_.early_bytes;
  options.version_gauge =
      env_.registry->AddGauge("cohort_ps_tablet_version", "Updates applied to a tablet.",
                              {{"tablet", std::to_string(number)}});
  return Tablet::Create(layout, rules, env_.pool, options);
}

absl::StatusOr<std::shared_ptr<TabletSet>> TabletBuilder::MakeCopies(
    const v1::AssignTablets& assign) const try {
  COHORT_ASSIGN_OR_RETURN(const std::shared_ptr<const LayoutRules> rules,
                          LayoutRules::Create(assign.layout()));
  COHORT_RETURN_IF_ERROR(CheckLayout(assign.layout()));
  rules->set_rates()->Set(assign.learning_rates());
  auto set = std::make_shared<TabletSet>();
  set->rules = rules;
  set->timeline = assign.timeline();
  set->term = assign.term();
  set->position = std::make_shared<const v1::StepPosition>(assign.position());
  for (const v1::TabletSpec& spec : assign.layout().tablets()) {
    if (spec.copy() != assign.ps() + 1) continue;
    COHORT_ASSIGN_OR_RETURN(std::shared_ptr<Tablet> tablet,
                            Make(assign.layout(), rules, spec.tablet(), nullptr));
    tablet->BeginTimeline(assign.timeline(), assign.term(), 0, 1);
    set->copies.push_back(
        std::make_shared<TabletCopy>(std::move(tablet), assign.term(), /*fills=*/true));
  }
  return set;
} catch (const std::bad_alloc&) {
  return ResourceExhausted("ps:{} has not enough memory for the copies of tablets", assign.ps());
}

absl::StatusOr<std::shared_ptr<TabletSet>> TabletBuilder::Build(const v1::AssignTablets& assign,
                                                                const Progress& progress) const
    try {
  const v1::Layout& layout = assign.layout();
  COHORT_ASSIGN_OR_RETURN(const std::shared_ptr<const LayoutRules> rules,
                          LayoutRules::Create(layout));
  COHORT_RETURN_IF_ERROR(CheckLayout(layout));
  COHORT_RETURN_IF_ERROR(CheckMemory(assign, *rules));
  auto set = std::make_shared<TabletSet>();
  set->rules = rules;
  COHORT_RETURN_IF_ERROR(MakeDisk(assign, set.get()));
  uint64_t initialized = 0;
  for (const v1::TabletSpec& spec : layout.tablets()) {
    const bool is_copy = spec.copy() == assign.ps() + 1;
    if (spec.ps() != assign.ps() && !is_copy) continue;
    COHORT_ASSIGN_OR_RETURN(std::shared_ptr<Tablet> tablet,
                            Make(layout, rules, spec.tablet(), set->disk.get()));
    if (assign.restore_from().empty()) {
      COHORT_RETURN_IF_ERROR(tablet->Initialize(layout));
      initialized += tablet->bytes();
      COHORT_RETURN_IF_ERROR(progress(initialized));
    }
    if (is_copy) {
      set->copies.push_back(std::make_shared<TabletCopy>(std::move(tablet), 0));
    } else {
      set->tablets.push_back(std::move(tablet));
    }
  }
  std::ranges::sort(set->tablets, {}, &Tablet::number);
  if (!assign.restore_from().empty()) {
    COHORT_RETURN_IF_ERROR(Restore(assign, set.get(), progress));
  } else if (!assign.initial_values().empty()) {
    COHORT_RETURN_IF_ERROR(ReadInitialValues(assign.initial_values(), *set, progress));
  }
  return set;
} catch (const std::bad_alloc&) {
  return ResourceExhausted("ps:{} has not enough memory for its shards", assign.ps());
}

std::string TabletBuilder::ContentsOf(const v1::AssignTablets& assign) {
  v1::AssignTablets contents;
  *contents.mutable_layout() = assign.layout();
  contents.set_ps(assign.ps());
  contents.set_restore_from(assign.restore_from());
  contents.set_initial_values(assign.initial_values());
  contents.set_servers_of_host(assign.servers_of_host());
  contents.set_table_memory_bytes(assign.table_memory_bytes());
  contents.set_table_directory(assign.table_directory());
  return StableBytes(contents);
}

absl::Status TabletBuilder::Finish(const v1::AssignTablets& assign, uint64_t generation,
                                   TabletSet* set) {
  set->timeline = assign.timeline();
  set->term = assign.term();
  set->position = std::make_shared<const v1::StepPosition>(assign.position());
  set->AdvanceWatermark(assign.floor().watermark());
  set->rules->set_rates()->Set(assign.learning_rates());
  for (const auto& copy : set->copies) copy->BeginTerm(assign.term());
  for (Tablet* const tablet : AllOf(*set)) {
    tablet->BeginTimeline(assign.timeline(), assign.term(), generation,
                          std::max<uint64_t>(assign.position().open_step(), 1));
    COHORT_RETURN_IF_ERROR(tablet->Restore(assign.floor(), 0));
  }
  return absl::OkStatus();
}

absl::Status TabletBuilder::ReadInitialValues(const std::string& path, const TabletSet& set,
                                              const Progress& progress) const {
  uint64_t bytes = 0;
  COHORT_ASSIGN_OR_RETURN(const auto values, env_.store->OpenValues(path));
  for (Tablet* const tablet : AllOf(set)) {
    COHORT_RETURN_IF_ERROR(tablet->Fill(
        [&](const ShardInfo& info, int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
          if (slot >= 0 && !info.slots[static_cast<size_t>(slot)].is_copy) return absl::OkStatus();
          bytes += out.size();
          COHORT_RETURN_IF_ERROR(progress(bytes));
          return values->ReadRows(info, row, rows, out);
        }));
    COHORT_RETURN_IF_ERROR(
        tablet->FillTables([&](const ShardInfo& info, Tablet::RowAdder add, Tablet::RowAdder) {
          return values->ReadTable(info, [&](auto rows, auto tensors) {
            bytes += rows.size() * info.held_row_bytes();
            COHORT_RETURN_IF_ERROR(progress(bytes));
            return add(rows, tensors);
          });
        }));
  }
  return absl::OkStatus();
}

absl::Status TabletBuilder::Restore(const v1::AssignTablets& assign, TabletSet* set,
                                    const Progress& progress) const {
  uint64_t bytes = 0;
  auto source = env_.store->Open(assign.restore_from());
  COHORT_RETURN_IF_ERROR(Annotate(source.status(), assign.restore_from()));
  for (Tablet* const tablet : AllOf(*set)) {
    absl::Status read = tablet->Fill(
        [&](const ShardInfo& info, int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
          bytes += out.size();
          COHORT_RETURN_IF_ERROR(progress(bytes));
          const std::string name = slot < 0 ? "" : info.slots[static_cast<size_t>(slot)].name;
          if (info.hashed.has_value()) {
            return (*source)->ReadHashedRows(info, name, row, rows, out);
          }
          return (*source)->ReadRows(info.variable, name, info.dtype,
                                     static_cast<uint64_t>(info.row_begin + row),
                                     static_cast<uint64_t>(rows), out);
        });
    COHORT_RETURN_IF_ERROR(Annotate(read, assign.restore_from()));
    auto start = (*source)->Tablet(assign.layout(), tablet->number());
    COHORT_RETURN_IF_ERROR(Annotate(start.status(), assign.restore_from()));
    COHORT_RETURN_IF_ERROR(tablet->Restore(*start->applied, start->version));
    // Behind it: rows without a clock get the tablet's.
    read = tablet->FillTables(
        [&](const ShardInfo& info, Tablet::RowAdder add, Tablet::RowAdder add_counts) {
          const auto add_and_report = [&](auto rows, auto tensors) {
            bytes += rows.size() * info.held_row_bytes();
            COHORT_RETURN_IF_ERROR(progress(bytes));
            return add(rows, tensors);
          };
          return (*source)->ReadTable(info, add_and_report, add_counts);
        });
    COHORT_RETURN_IF_ERROR(Annotate(read, assign.restore_from()));
    if (start->partially_applied == 0) continue;
    env_.metrics->partially_applied->Increment(start->partially_applied);
    env_.log->Warning("partially_applied_updates",
                      {{"tablet", tablet->number()}, {"updates", start->partially_applied}});
  }
  COHORT_CRASH_POINT("ps.restore.done");
  return absl::OkStatus();
}

}  // namespace cohort
