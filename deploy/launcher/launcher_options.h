#ifndef COHORT_DEPLOY_LAUNCHER_LAUNCHER_OPTIONS_H_
#define COHORT_DEPLOY_LAUNCHER_LAUNCHER_OPTIONS_H_

#include <string>

#include "common/device/devices.h"
#include "deploy/launcher/check_job.h"
#include "deploy/launcher/control_job.h"
#include "deploy/launcher/evaluate_checkpoint.h"
#include "deploy/launcher/export_checkpoint.h"
#include "deploy/launcher/generate_data.h"
#include "deploy/launcher/local_cluster.h"
#include "deploy/launcher/make_certificates.h"
#include "deploy/launcher/report_run.h"
#include "deploy/launcher/train_plan.h"
#include "deploy/predict/predict_options.h"
#include "deploy/profile/profile_options.h"
#include "deploy/tf_config/tf_config_command.h"

namespace cohort {

class FlagSet;

// The flags of all commands of `cohort` except `run`, which has RunFlags.
struct LauncherOptions {
  TrainOptions train;
  LocalOptions local;
  CheckOptions check;
  std::vector<std::string> plugins;  // for check and reference
  bool ops = false;                  // for reference
  bool json = false;                 // for reference and inspect
  std::string inspect;               // path of a checkpoint
  EvaluateOptions evaluate;
  ExportOptions export_checkpoint;
  GenerateOptions generate;
  ControlOptions control;
  ReportOptions report;
  CompareOptions compare;
  CertificateOptions certificates;
  PredictOptions predict;
  ProfileOptions profile;
  DeviceOptions doctor;
  TfConfigOptions tf_config;
};

// Adds --fresh, --plugin and the flags of directories.
void AddRunDirectoryFlags(FlagSet* flags, LocalOptions* options);
// Adds the flags of `cohort local` to the command or program `flags`.
void AddLocalFlags(FlagSet* flags, LocalOptions* options);
// Adds the commands train, local, ctl, certs, check, profile, predict, doctor, tf-config, inspect,
// evaluate, report, compare, reference, export and generate. `options` must outlive `flags`.
void AddLauncherCommands(FlagSet* flags, LauncherOptions* options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_LAUNCHER_OPTIONS_H_
