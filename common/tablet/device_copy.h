#ifndef COHORT_COMMON_TABLET_DEVICE_COPY_H_
#define COHORT_COMMON_TABLET_DEVICE_COPY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "common/optimizers/resident_variables.h"
#include "common/tablet/shard.h"

namespace cohort {

// The second place of a tablet's values and slots: the memory of a device, where steps read and update
// them. Their blocks in the host's memory remain, and what needs them there, as a snapshot, fetches them.
//
//   kHost ── ToDevice ──► kBoth ── an update on the device ──► kDevice
//     ▲                    │  ▲                                   │
//     └─ a push of values ─┘  └────────────── ToHost ─────────────┘
//
// Not thread-safe: it belongs to its tablet.
class DeviceCopy {
 public:
  // Makes room for all variables of the shards; their values are still in the host's memory. `rules`:
  // what the rules of the shards belong to. Errors: Unimplemented for a variable of which the shards have
  // only some rows; those of ResidentVariables::Reserve.
  static absl::StatusOr<std::unique_ptr<DeviceCopy>> Make(
      std::span<const std::unique_ptr<Shard>> shards, std::shared_ptr<const LayoutRules> rules,
      std::shared_ptr<ResidentVariables> variables, uint32_t tablet);

  // Bring the newest values to one of the places, if they are not there. Errors: those of the device, and
  // that of an earlier Update, which has left the values undefined.
  absl::Status ToDevice();
  absl::Status ToHost();
  // Brings the values to the device and updates them there. Errors: those of ToDevice; then nothing has
  // changed. Those of `update`; then the values are lost.
  absl::Status Update(ResidentUpdate* update, uint64_t step);
  // The blocks are the newest from now on. To be called after ToHost.
  void HostChanged() { newest_ = Newest::kHost; }

 private:
  enum class Newest : uint8_t { kHost, kBoth, kDevice };

  DeviceCopy(std::span<const std::unique_ptr<Shard>> shards,
             std::shared_ptr<ResidentVariables> variables, uint32_t tablet)
      : shards_(shards), variables_(std::move(variables)), tablet_(tablet) {}

  const std::span<const std::unique_ptr<Shard>> shards_;
  const std::shared_ptr<ResidentVariables> variables_;
  const uint32_t tablet_;  // the group of the variables
  Newest newest_ = Newest::kHost;
  absl::Status lost_;  // why the values are undefined
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_DEVICE_COPY_H_
