#ifndef COHORT_COMMON_TABLET_TABLET_LOG_H_
#define COHORT_COMMON_TABLET_TABLET_LOG_H_

#include <cstdint>

#include "common/tablet/push_pull_views.h"

namespace cohort {

struct TabletSnapshot;

// Hears from a tablet, under its lock and before it acts, what the tablet is about to do. Another
// tablet that does the same in this order has the same state (docs/design/copies.md). The calls
// must not wait.
class TabletLog {
 public:
  virtual ~TabletLog() = default;

  // This is its state, of which nothing is staged: see Tablet::BeginLog.
  virtual void OnBegin(TabletSnapshot state, uint64_t open_step, uint64_t step_try) = 0;

  // It applies or stages this push, with this watermark. The views are valid during the call.
  virtual void OnPush(uint64_t watermark, const PushHeaderView& header,
                      const PushSectionView& section) = 0;
  // It closes this synchronous step.
  virtual void OnClose(uint64_t step) = 0;
  // It drops what tries of this step before `step_try` have staged.
  virtual void OnAbandon(uint64_t step, uint64_t step_try) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLET_LOG_H_
