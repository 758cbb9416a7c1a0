#ifndef COHORT_DEPLOY_PROFILE_PROFILE_OPTIONS_H_
#define COHORT_DEPLOY_PROFILE_PROFILE_OPTIONS_H_

#include <string>
#include <vector>

#include "common/device/devices.h"

namespace cohort {

class FlagSet;

// The flags of `cohort profile`.
struct ProfileOptions {
  std::string job;                   // path
  int steps = 20;                    // that are measured
  int warmup = 5;                    // steps before them
  int threads = 1;                   // for the kernels
  bool step_only = false;            // without the time of each kernel, which costs time itself
  DeviceOptions devices;             // that run the kernels
  bool variables_on_device = false;  // with the slots of optimizers
  std::string trace;                 // file for the Chrome trace; "": none
  std::vector<std::string> plugins;
  std::string data_dir;  // COHORT_DATA_DIR, no flag
};

// `options` must outlive `flags`.
void AddProfileFlags(FlagSet* flags, ProfileOptions* options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PROFILE_PROFILE_OPTIONS_H_
