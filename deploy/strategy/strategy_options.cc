#include "deploy/strategy/strategy_options.h"

#include <fmt/ranges.h>

#include "common/base/flags.h"
#include "common/device/devices.h"
#include "common/model/strategies.h"

namespace cohort {

void AddStrategyFlags(FlagSet* flags, std::string* strategy, StrategyOptions* options) {
  flags->Add("strategy", strategy, fmt::format("{}", fmt::join(StrategyNames(), ", ")));
  AddDeviceFlags(flags, &options->devices);
  flags->Add("workers", &options->workers, "workers of a cluster in this process");
  flags->Add("ps", &options->parameter_servers, "parameter servers of a cluster in this process");
  flags->Add("num_replicas_in_sync", &options->num_replicas_in_sync,
             "shares of a global batch; 0: one for each replica");
  flags->Add("deterministic", &options->deterministic,
             "refuse tasks that calculate otherwise than the others");
  flags->Add("directory", &options->directory,
             "directory of checkpoints and logs, seen by every task; default: a temporary one");
  flags->Add("data_dir", &options->data_dir, "base directory of relative dataset paths");
  AddRoleFlags(flags, &options->role);
}

}  // namespace cohort
