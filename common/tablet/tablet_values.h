#ifndef COHORT_COMMON_TABLET_TABLET_VALUES_H_
#define COHORT_COMMON_TABLET_TABLET_VALUES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/tablet/device_sum.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard.h"

namespace cohort {

struct DeviceParts;

// Where the values of a tablet are, with their slots, and how updates change them. All bodies have
// the blocks of the shards in the host's memory: BlockValues nothing else, DeviceValues
// (device_values.h) the memory of devices, too. `shard`: an index. Not thread-safe: they belong to
// their tablet.
class TabletValues {
 public:
  virtual ~TabletValues() = default;

  // Why the values are undefined: an update has failed. OK if they are not.
  virtual const absl::Status& status() const = 0;
  // The values must not be read any more.
  virtual void Lose(const absl::Status& why) = 0;

  // The newest values of a shard are in its blocks when this returns. Errors: status(); those of a
  // device.
  virtual absl::Status ToHost(size_t shard) = 0;
  // Applies entries to the blocks, after ToHost. See Shard::Apply.
  virtual bool Apply(size_t shard, std::span<const PushEntryView> entries, double weight,
                     uint64_t step) = 0;

  // The device where gradients are summed and updates applied. Null: there is none, and the
  // functions below return FailedPrecondition.
  virtual std::shared_ptr<Device> home() const = 0;
  // The newest values of a shard are at home when this returns. Errors: those of ToHost.
  virtual absl::Status ToHome(size_t shard) = 0;
  // The newest values of all shards are where this step reads them. Errors: those of ToHost;
  // InvalidArgument for a reader that has no part here.
  virtual absl::Status ToReader(const DeviceParts& step) = 0;
  // Applies what a step of the only reader has left on the device. Errors: Unimplemented for a
  // variable that other tablets have a part of; those of ToHome; those of the update: then the
  // values are lost.
  virtual absl::Status Update(const DeviceParts& step, uint64_t number) = 0;
  // Updates a shard at home with a gradient there, as Shard::Apply does. ToHome precedes it.
  // Errors: those of the device; then the values are lost.
  virtual absl::Status ApplyAtHome(size_t shard, const DeviceGradient& gradient, double weight,
                                   uint64_t step) = 0;
};

// Values in the host's memory alone.
class BlockValues : public TabletValues {
 public:
  // `not_on_device`: what the functions about a device return.
  BlockValues(std::span<const std::unique_ptr<Shard>> shards, absl::Status not_on_device)
      : shards_(shards), not_on_device_(std::move(not_on_device)) {}

  const absl::Status& status() const override { return lost_; }
  void Lose(const absl::Status& why) override { lost_ = why; }
  absl::Status ToHost(size_t /*shard*/) override { return lost_; }
  bool Apply(size_t shard, std::span<const PushEntryView> entries, double weight,
             uint64_t step) override {
    return shards_[shard]->Apply(entries, weight, step, &scratch_);
  }
  std::shared_ptr<Device> home() const override { return nullptr; }
  absl::Status ToHome(size_t /*shard*/) override { return not_on_device_; }
  absl::Status ToReader(const DeviceParts& /*step*/) override { return not_on_device_; }
  absl::Status Update(const DeviceParts& /*step*/, uint64_t /*number*/) override {
    return not_on_device_;
  }
  absl::Status ApplyAtHome(size_t /*shard*/, const DeviceGradient& /*gradient*/, double /*weight*/,
                           uint64_t /*step*/) override {
    return not_on_device_;
  }

 private:
  const std::span<const std::unique_ptr<Shard>> shards_;
  const absl::Status not_on_device_;
  absl::Status lost_;
  ApplyScratch scratch_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLET_VALUES_H_
