#ifndef COHORT_CHIEF_CORE_JOURNAL_STATE_H_
#define COHORT_CHIEF_CORE_JOURNAL_STATE_H_

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "chief/core/recovery.h"

namespace cohort {

// The state that the journal's records describe. A chief that starts applies the records that it
// reads; from then on it applies its own records when they are durable. So the base record of a new
// segment comes from the same code that recovers a chief, and
//
//   Apply(1) ... Apply(n), Base()      gives a record that stands for records 1 to n:
//   Apply(base), Apply(n + 1) ...      leads to the same state as Apply(1), Apply(2) ...
//
// Not thread-safe.
class JournalState {
 public:
  explicit JournalState(ManifestReader read_manifest) : read_manifest_(std::move(read_manifest)) {}

  // Errors: DataLoss if the record makes no sense here; those of the reader other than NotFound.
  absl::Status Apply(const v1::JournalRecord& record);

  // What the records say. `newest`: see Recover. Errors: NotFound if a rollback's manifest is gone
  // and no later one takes its place.
  absl::StatusOr<Recovered> Recover(const std::string& newest);

  // The record that stands for all records so far; nullopt if there is none, or while a rollback's
  // manifest is missing.
  std::optional<v1::JournalRecord> Base() const;

 private:
  void OnReserve(const v1::ReserveClosures& block);
  void OnSettle(const v1::Settle& settle);
  absl::Status OnRollback(const v1::Rollback& rollback);
  absl::Status OnCut(const v1::CutCommitted& cut);
  void OnBase(const v1::JournalBase& base);
  void OpenPending(const v1::ChiefCut& cut);
  void Open(const UnfinishedClosure& closure);

  const ManifestReader read_manifest_;
  Recovered state_;          // without `unfinished` and `watermark`, which follow from open_
  uint64_t generation_ = 0;  // of the chief that wrote the newest record
  absl::btree_map<uint64_t, UnfinishedClosure> open_;  // by id
  absl::btree_map<uint64_t, uint64_t> by_place_;       // place -> id, of open_

  // Not OK while the manifest of the last rollback is missing. Meanwhile the rest is kept: the ids
  // that were settled since, the watermark, and the last record that says so.
  absl::Status missing_;
  std::set<uint64_t> settled_;
  uint64_t settled_below_ = 0;
  uint64_t settle_record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOURNAL_STATE_H_
