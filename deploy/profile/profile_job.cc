#include "deploy/profile/profile_job.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "deploy/profile/local_steps.h"
#include "deploy/profile/profile_text.h"

namespace cohort {
namespace {

constexpr int kMostSteps = 100'000;  // their events are kept in memory

absl::Status WriteTrace(const std::string& path, const StepProfile& profile) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << profile.ChromeTrace();
  file.close();
  if (file.good()) return absl::OkStatus();
  return Unavailable("{}: the trace cannot be written there; choose another --trace", path);
}

}  // namespace

absl::StatusOr<std::string> ProfileJob(const ProfileOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("--steps", options.steps, 1, kMostSteps));
  COHORT_RETURN_IF_ERROR(CheckBetween("--warmup", options.warmup, 0, kMostSteps));
  COHORT_RETURN_IF_ERROR(CheckBetween("--threads", options.threads, 1, kMostThreads));
  CompileOptions compile{.intra_op_threads = options.threads};
  COHORT_ASSIGN_OR_RETURN(compile.devices, OpenDevices(options.devices));
  COHORT_ASSIGN_OR_RETURN(const auto steps, LocalSteps::Open(options.job, {options.data_dir},
                                                             compile, options.variables_on_device));
  StepProfile profile(&steps->program());
  for (int i = 0; i < options.warmup; ++i) COHORT_RETURN_IF_ERROR(steps->Run(&profile));
  profile.Clear();
  if (!options.step_only) steps->executable()->SetObserver(&profile);
  for (int i = 0; i < options.steps; ++i) COHORT_RETURN_IF_ERROR(steps->Run(&profile));
  steps->executable()->SetObserver(nullptr);
  std::string text = fmt::format("{}: {} steps of batch {}, {} thread{}, after {} steps\n",
                                 options.job, options.steps, steps->batch_size(), options.threads,
                                 options.threads == 1 ? "" : "s", options.warmup);
  if (!steps->no_data().empty()) {
    text += fmt::format("batches are made up, because the training data is not here: {}\n",
                        steps->no_data());
  }
  for (const std::shared_ptr<Device>& device : compile.devices) {
    text += fmt::format("on {} ({}), whose kernels are not timed one by one\n", device->name(),
                        device->info().model);
  }
  if (!compile.devices.empty()) {
    text += fmt::format("a step copies {} bytes between host and devices\n",
                        steps->executable()->transfer_bytes());
    if (options.variables_on_device) text += "variables live on the device\n";
  }
  text += ProfileText(profile, steps->batch_size(), steps->update_bytes());
  if (options.trace.empty()) return text;
  COHORT_RETURN_IF_ERROR(WriteTrace(options.trace, profile));
  return text + fmt::format("\ntrace: {} (open it in ui.perfetto.dev or chrome://tracing)\n",
                            options.trace);
}

}  // namespace cohort
