#ifndef COHORT_PS_SERVER_ADMISSION_H_
#define COHORT_PS_SERVER_ADMISSION_H_

#include <cstdint>

#include "common/tablet/push_pull_views.h"
#include "common/tablet/tablet.h"
#include "ps_server/data_path.h"
#include "ps_server/pending_snapshots.h"
#include "ps_server/server_memory.h"

namespace cohort {

// Decides which requests wait, so that the memory of a server has a bound. A request that waits is
// kept as it came; its client keeps the gradient, too, and sends nothing more meanwhile.
// Thread-safe.
class Admission {
 public:
  enum class Wait : uint8_t {
    kNone,
    kStep,      // the step that it pulls for is not open
    kEarly,     // its gradient came before its turn, and many others did
    kAnswers,   // its values would be sent behind too many others
    kSnapshot,  // its push would copy more than a snapshot may keep
    kCopies,    // copies of tablets do not have its push yet (ParkedRequests)
    kShort,     // memory is short: its push is answered a little later; nothing else delays it
  };

  // All outlive this.
  Admission(const DataPath* data_path, const PendingSnapshots* snapshots, ServerMemory* memory,
            const TabletTestFaults& faults = {})
      : data_path_(data_path), snapshots_(snapshots), memory_(memory), faults_(faults) {}

  // `promised`: bytes of answers that were admitted just before and do not count yet.
  Wait Of(const RequestView& request, uint64_t promised = 0) const;
  // The same for a request whose pushes are executed.
  Wait OfAnswer(const RequestView& request, uint64_t promised) const {
    return MayAnswer(request, promised) ? Wait::kNone : Wait::kAnswers;
  }
  // The bytes of values that the request pulls.
  uint64_t AnswerBytes(const RequestView& request) const {
    return data_path_->PulledBytes(request);
  }
  // True if older values that take `more` bytes may be kept beside those that are; then they count.
  bool MayCopy(uint64_t more) const;

  ServerMemory* memory() const { return memory_; }

 private:
  bool MayAnswer(const RequestView& request, uint64_t promised) const;

  const DataPath* const data_path_;
  const PendingSnapshots* const snapshots_;
  ServerMemory* const memory_;
  const TabletTestFaults faults_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_ADMISSION_H_
