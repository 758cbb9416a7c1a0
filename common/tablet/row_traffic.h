#ifndef COHORT_COMMON_TABLET_ROW_TRAFFIC_H_
#define COHORT_COMMON_TABLET_ROW_TRAFFIC_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/row_figures/hot_keys.h"
#include "common/tablet/shard.h"

namespace cohort {

namespace v1 {
class TaskFigures;
}

// What steps ask of the shards of a tablet that they read by rows. One thread at a time counts; any
// thread reads, and waits for no work on the tablet.
class RowTraffic {
 public:
  // `shards` outlive this.
  explicit RowTraffic(std::span<const std::unique_ptr<Shard>> shards);

  // A step has pulled these rows of a shard (its index), or has pushed gradients for some.
  void Pulled(size_t shard, std::span<const int64_t> rows);
  void Pushed(size_t shard, uint64_t rows);

  // Adds the figures of each variable (common/row_figures/row_figures.h).
  void AddTo(v1::TaskFigures* figures) const;

 private:
  struct OfShard {
    std::atomic<uint64_t> pulled{0};
    std::atomic<uint64_t> pushed{0};
    mutable Mutex mu;
    HotKeys hot ABSL_GUARDED_BY(mu);
  };

  const std::span<const std::unique_ptr<Shard>> shards_;
  std::vector<OfShard> of_shards_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_ROW_TRAFFIC_H_
