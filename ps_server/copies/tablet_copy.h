#ifndef COHORT_PS_SERVER_COPIES_TABLET_COPY_H_
#define COHORT_PS_SERVER_COPIES_TABLET_COPY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/tablet.h"

namespace cohort {

namespace v1 {
class CloseStep;
class CopyEntry;
class CopyState;
}  // namespace v1

// A tablet that another server answers for. It follows the log of its primary: the entries of one
// term, each once and in order. Thread-safe.
class TabletCopy {
 public:
  // `fills`: the tablet is empty, and the log brings its state first.
  TabletCopy(std::shared_ptr<Tablet> tablet, uint64_t term, bool fills = false)
      : tablet_(std::move(tablet)), term_(term), fills_(fills) {}

  const std::shared_ptr<Tablet>& tablet() const { return tablet_; }
  uint64_t term() const;
  // True until it has the whole state.
  bool fills() const;

  struct Replayed {
    uint64_t done = 0;                        // the number up to which all is done
    uint64_t state = 0;                       // pieces of the state that it has
    std::vector<StagedStep::Member> applied;  // what the entry has applied
  };
  // What comes with an entry.
  struct Payload {
    const RequestView* push = nullptr;                  // if the entry is one
    std::span<const std::span<const uint8_t>> state{};  // if it is a piece of the state
    uint64_t stream = 0;                                // that brings it (PsCore::OnCopyStream)
  };
  // Does what an entry says, unless it did before. Errors: Aborted if the entry is of another term
  // or an earlier copy, or Stop was called; DataLoss if entries are missing, or the tablet does
  // something else than its primary.
  absl::StatusOr<Replayed> Replay(const v1::CopyEntry& entry, const Payload& payload);
  // The newest step that it has closed as a copy; null: none.
  std::shared_ptr<const v1::CloseStep> last_close() const;
  // Only later streams bring its log. Others may still bring that of an earlier copy here, whose
  // entries have the same numbers if the primary is the same.
  void RefuseStreamsUpTo(uint64_t stream);
  // It follows a log of this term from its beginning: the primary is another one.
  void BeginTerm(uint64_t term);
  // After the return, nothing is replayed.
  void Stop();

 private:
  absl::Status AddState(const v1::CopyState& piece, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Do(const v1::CopyEntry& entry, const RequestView* push,
                  std::vector<StagedStep::Member>* applied) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<Tablet> tablet_;
  mutable Mutex mu_;  // taken before the tablet's
  uint64_t term_ ABSL_GUARDED_BY(mu_);
  uint64_t refused_streams_ ABSL_GUARDED_BY(mu_) = 0;  // up to this one
  uint64_t done_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool fills_ ABSL_GUARDED_BY(mu_);
  uint64_t pieces_ ABSL_GUARDED_BY(mu_) = 0;  // that it has of the state
  std::shared_ptr<const v1::CloseStep> last_close_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_TABLET_COPY_H_
