#include "deploy/profile/profile_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddProfileFlags(FlagSet* flags, ProfileOptions* options) {
  flags->Add("steps", &options->steps, "steps that are measured");
  flags->Add("warmup", &options->warmup, "steps before them");
  flags->Add("threads", &options->threads, "threads of the kernels");
  flags->Add("step_only", &options->step_only,
             "only the time of a step: timing each kernel costs time itself");
  AddDeviceFlags(flags, &options->devices);
  flags->Add(
      "resident_variables", &options->variables_on_device,
      "variables and the state of optimizers live on the only device, and steps update them there");
  flags->Add("trace", &options->trace,
             "file for the Chrome trace (ui.perfetto.dev shows it); default: none");
  flags->Add("plugin", &options->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  flags->AddPositional("JOB.yaml", &options->job, "the job", true);
}

}  // namespace cohort
