#ifndef COHORT_COMMON_EXEC_LOCAL_DEVICES_H_
#define COHORT_COMMON_EXEC_LOCAL_DEVICES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/device/devices.h"
#include "common/exec/segment_runner.h"

namespace cohort {

// The devices of this machine. Devices of the CPU have no cores of their own: "cpu:1" computes with
// the threads of the process, in memory of its own.
class LocalDevices : public SegmentDevices {
 public:
  // `own`: those that the process has opened; nodes without a device run on the first one, without
  // any on the CPU. Others are opened with `options` when a program names them. `threads`: of a
  // segment on the CPU.
  LocalDevices(std::vector<std::shared_ptr<Device>> own, const DeviceOptions& options, int threads);

  // "cpu:0" is the CPU of the program itself. Devices of other workers are as if they were here.
  std::string Resolve(const std::string& device) const override;
  absl::StatusOr<std::unique_ptr<SegmentRunner>> MakeRunner(const std::string& device,
                                                            Segment segment) override;

 private:
  absl::StatusOr<std::shared_ptr<Device>> Open(const std::string& name);

  const std::string own_;
  const DeviceOptions options_;
  const int threads_;
  Mutex mu_;
  std::map<std::string, std::shared_ptr<Device>> devices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_LOCAL_DEVICES_H_
