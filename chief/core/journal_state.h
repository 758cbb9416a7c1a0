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
// reads. After that it applies each of its own records when the record is durable. So the same code
// recovers a chief and makes the base record of a new segment:
//
//   Apply(1) ... Apply(n), Base()      returns a record that replaces records 1 to n
//   Apply(base), Apply(n + 1) ...      leads to the same state as Apply(1), Apply(2) ...
//
// Not thread-safe.
class JournalState {
 public:
  explicit JournalState(ManifestReader read_manifest) : read_manifest_(std::move(read_manifest)) {}

  // Errors: DataLoss if the record contradicts the earlier ones; those of the reader except
  // NotFound.
  absl::Status Apply(const v1::JournalRecord& record);

  // Returns the state that the records describe. It gives up the ids of blocks that do not belong
  // to the job runner, because their meaning is unknown. The manifest of a rollback may be missing
  // (NotFound) if there is a later cut of the same timeline. That cut is in a record, or it is
  // `newest`, the path of the newest checkpoint on disk ("": none): a chief may die before it
  // writes the record. Errors: NotFound if no later cut replaces the missing manifest; those of the
  // reader.
  absl::StatusOr<Recovered> Recover(const std::string& newest);

  // The record that replaces all records so far; nullopt if there are none, or while a rollback's
  // manifest is missing.
  std::optional<v1::JournalRecord> Base() const;

 private:
  void OnReserve(const v1::ReserveClosures& block);
  void OnSettle(const v1::Settle& settle);
  absl::Status OnRollback(const v1::Rollback& rollback);
  absl::Status OnCut(const v1::CutCommitted& cut);
  void OnBase(const v1::JournalBase& base);
  void OpenPending(const v1::ChiefCut& cut);
  void MoveMode(const v1::ChiefCut& cut);
  void Open(const UnfinishedClosure& closure);

  const ManifestReader read_manifest_;
  Recovered state_;          // without `unfinished` and `watermark`: open_ gives them
  uint64_t generation_ = 0;  // generation of the chief that wrote the newest record
  absl::btree_map<uint64_t, UnfinishedClosure> open_;  // by id
  absl::btree_map<uint64_t, uint64_t> by_place_;       // place -> id, of open_

  // Not OK while the manifest of the last rollback is missing. Meanwhile the members below keep the
  // ids that were settled since, the watermark, and the last record that settled ids.
  absl::Status missing_;
  std::set<uint64_t> settled_;
  uint64_t settled_below_ = 0;
  uint64_t settle_record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOURNAL_STATE_H_
