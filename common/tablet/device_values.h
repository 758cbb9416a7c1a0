#ifndef COHORT_COMMON_TABLET_DEVICE_VALUES_H_
#define COHORT_COMMON_TABLET_DEVICE_VALUES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/optimizers/device_copies.h"
#include "common/tablet/device_sum.h"
#include "common/tablet/shard.h"
#include "common/tablet/tablet_values.h"
#include "common/tablet/variable_op_run.h"

namespace cohort {

// The values and slots of a tablet in the memory of devices, where steps read and update them. The
// blocks in the host's memory remain, and what needs them there, as a snapshot, fetches the newest
// values.
//
// Each update of a shard makes a new version, in the blocks or at home. A version is copied to the
// other places when they need it:
//
//   blocks ◄── ToHost ── home ── ToReader ──► other readers (values without slots)
//      └────── ToHome ──►
class DeviceValues : public TabletValues {
 public:
  // Makes room for all variables of the shards; their values are still in the blocks. `rules`: what
  // the rules of the shards belong to. Errors: ResourceExhausted: a device lacks memory;
  // AlreadyExists: it has another variable of a name.
  static absl::StatusOr<std::unique_ptr<DeviceValues>> Make(
      std::span<const std::unique_ptr<Shard>> shards, std::shared_ptr<const LayoutRules> rules,
      DeviceCopies copies, uint32_t tablet);

  const absl::Status& status() const override { return lost_; }
  void Lose(const absl::Status& why) override { lost_ = why; }
  absl::Status ToHost(size_t shard) override;
  bool Apply(size_t shard, std::span<const PushEntryView> entries, double weight,
             uint64_t step) override;
  std::shared_ptr<Device> home() const override;
  absl::Status ToHome(size_t shard) override;
  absl::Status ToReader(const DeviceParts& step) override;
  absl::Status Update(const DeviceParts& step, uint64_t number) override;
  absl::Status ApplyAtHome(size_t shard, const DeviceGradient& gradient, double weight,
                           uint64_t step) override;

 private:
  // The version that each place has; 0: none.
  struct Versions {
    uint64_t newest = 1;
    uint64_t blocks = 1;
    uint64_t home = 0;
    std::vector<uint64_t> readers;  // by reader, values alone
  };
  // The op that updates a shard with gradients at these addresses.
  struct ShardUpdate {
    DevicePush push;
    std::unique_ptr<VariableOpRun> run;
  };

  DeviceValues(std::span<const std::unique_ptr<Shard>> shards,
               std::shared_ptr<const LayoutRules> rules, DeviceCopies copies, uint32_t tablet);
  void HomeChanged(size_t shard);
  absl::Status MakeUpdate(size_t shard, const DevicePush& push);

  const std::span<const std::unique_ptr<Shard>> shards_;
  const std::shared_ptr<const LayoutRules> rules_;
  const DeviceCopies copies_;
  const uint32_t tablet_;
  bool is_cut_ = false;               // a variable is only partly here
  std::vector<Versions> versions_;    // by shard
  std::vector<ShardUpdate> updates_;  // by shard
  DeviceMemory scale_;                // at home: the factor of a gradient, a double
  absl::Status lost_;                 // why the values are undefined
  ApplyScratch scratch_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_DEVICE_VALUES_H_
