#ifndef COHORT_COMMON_TABLET_DEVICE_COPY_H_
#define COHORT_COMMON_TABLET_DEVICE_COPY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/optimizers/resident_variables.h"
#include "common/tablet/device_sum.h"
#include "common/tablet/shard.h"
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
//
// Not thread-safe: it belongs to its tablet.
class DeviceCopy {
 public:
  // Makes room for all variables of the shards; their values are still in the blocks. `rules`: what
  // the rules of the shards belong to. Errors: those of ResidentVariables::Reserve.
  static absl::StatusOr<std::unique_ptr<DeviceCopy>> Make(
      std::span<const std::unique_ptr<Shard>> shards, std::shared_ptr<const LayoutRules> rules,
      DevicePlaces places, uint32_t tablet);

  const std::shared_ptr<Device>& home() const { return home_variables().device(); }

  // Bring the newest version to a place. `shard`: an index. Errors: those of the device;
  // InvalidArgument for a reader that has no part here; that of an earlier update, which has left
  // the values undefined.
  absl::Status ToHost(size_t shard);
  absl::Status ToHome(size_t shard);
  absl::Status ToReader(const ResidentVariables* reader);
  absl::Status AllToHost();
  // The blocks have a new version, made from the newest one.
  void HostChanged(size_t shard);

  // Why the values are undefined: an update has failed. OK if they are not.
  const absl::Status& status() const { return lost_; }
  // The values must not be read any more.
  void Lose(const absl::Status& why) { lost_ = why; }

  // Applies what a step of the only reader has left on the device. Errors: Unimplemented for a
  // variable that other tablets have a part of; those of ToHome; those of `update`: then the values
  // are lost.
  absl::Status Update(ResidentUpdate* update, uint64_t step);
  // Updates a shard at home with a gradient there, as Shard::Apply does. ToHome precedes it.
  // Errors: those of the device; then the values are lost.
  absl::Status Apply(size_t shard, const DeviceGradient& gradient, double weight, uint64_t step);

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

  DeviceCopy(std::span<const std::unique_ptr<Shard>> shards,
             std::shared_ptr<const LayoutRules> rules, DevicePlaces places, uint32_t tablet);
  ResidentVariables& home_variables() const { return *places_.readers[places_.home]; }
  void HomeChanged(size_t shard);
  absl::Status MakeUpdate(size_t shard, const DevicePush& push);

  const std::span<const std::unique_ptr<Shard>> shards_;
  const std::shared_ptr<const LayoutRules> rules_;
  const DevicePlaces places_;
  const uint32_t tablet_;
  bool is_cut_ = false;               // a variable is only partly here
  std::vector<Versions> versions_;    // by shard
  std::vector<ShardUpdate> updates_;  // by shard
  DeviceMemory scale_;                // at home: the factor of a gradient, a double
  absl::Status lost_;                 // why the values are undefined
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_DEVICE_COPY_H_
