#include "deploy/launcher/launcher_options.h"

#include "common/base/flags.h"
#include "common/cluster/role_flags.h"
#include "common/model/strategies.h"

namespace cohort {

namespace {

constexpr char kRunHelp[] =
    "the run directory of cohort local or train, a log directory, or a checkpoint directory";

void AddPluginFlag(FlagSet* flags, std::vector<std::string>* plugins) {
  flags->Add("plugin", plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
}

void AddControlFlags(FlagSet* flags, ControlOptions* o) {
  flags->AddPositional("RUN", &o->run,
                       "the run directory of cohort local, or the checkpoint directory of a "
                       "cohort-chief on this host",
                       true);
  flags->AddPositional("COMMAND", &o->command,
                       "status; checkpoint: take one; stop: take one, then end; set-mode MODE; set "
                       "learning_rate VALUE; add-ps HOST:PORT: one more server; drain-ps N, "
                       "return-ps N, rebalance: move variables to other servers; fence TASK, "
                       "unfence TASK: take the work from a slow worker or server; pause; resume; "
                       "extend --epochs N",
                       true);
  flags->AddPositional(
      "MODE", &o->mode,
      "for set-mode: async, sync or bounded_staleness; for set: learning_rate; for "
      "drain-ps and return-ps: the number of the server; for add-ps: its address; for fence and "
      "unfence: worker:N or ps:N",
      false);
  flags->AddPositional("VALUE", &o->value, "for set: the new learning rate", false);
  flags->Add("epochs", &o->epochs, "extend: how many epochs the job has then in all");
  flags->Add("json", &o->json, "print the answer as JSON");
  flags->Add("closures_per_step", &o->closures_per_step,
             "set-mode: closures of a step; -1: as before, or the number of workers");
  flags->Add("staleness", &o->staleness,
             "set-mode bounded_staleness: steps that workers may be apart; -1: as before");
  flags->Add("backup_work", &o->backup_work,
             "set-mode sync: none, speculative or drop; default: as before");
  flags->Add("replicas_to_aggregate", &o->replicas_to_aggregate,
             "set-mode sync with drop: closures that close a step; -1: as before");
}

void AddGenerateFlags(FlagSet* flags, GenerateOptions* o) {
  flags->Add("records", &o->records, "records to write; required");
  flags->Add("output", &o->output, "the CSV file to write; required");
  flags->Add("seed", &o->seed, "seeds the records and the hidden model");
  flags->Add("begin", &o->begin,
             "the number of the first record: another part of the records of a seed");
  flags->Add("vocabulary", &o->vocabulary,
             "ids of each table: one number, or 26 that commas separate");
  flags->Add("hashed", &o->hashed, "ids are hashes of 63 bits instead of numbers from 0");
  flags->Add("bags", &o->bags, "C1 to C3 are lists of 0 to 20 ids, which | separates");
  flags->AddPositional("KIND", &o->kind,
                       "criteo: clicks with 13 numbers and 26 categories, by a hidden model", true);
}

}  // namespace

void AddRunDirectoryFlags(FlagSet* flags, LocalOptions* o) {
  flags->Add("fresh", &o->fresh,
             "delete the checkpoints of earlier runs and start from the beginning");
  flags->Add("checkpoint_dir", &o->checkpoint_dir, "default: checkpoints/ in the run's directory");
  flags->Add("log_dir", &o->log_dir, "metrics and TensorBoard files; default: logs/ there");
  flags->Add("run_dir", &o->run_dir,
             "the run's directory; default: --log_dir, or a new one in /tmp");
  AddPluginFlag(flags, &o->plugins);
}

void AddLocalFlags(FlagSet* flags, LocalOptions* o) {
  flags->Add("strategy", &o->strategy,
             NamesOfStrategies(/*local=*/false) + "; replicas own the variables, without a ps");
  flags->Add("ps", &o->ps, "parameter servers");
  flags->Add("workers", &o->workers, "workers");
  flags->Add("evaluator", &o->evaluator, "an evaluator too, which evaluates every checkpoint");
  flags->Add("restart", &o->restart, "restart a task that died");
  flags->Add("in_process", &o->in_process, "run all tasks in one process, without restarts");
  flags->Add("transport", &o->transport,
             "how workers reach the ps: unix (sockets and shared memory) or tcp, as between hosts");
  flags->Add("tls_dir", &o->tls_dir,
             "the directory that `cohort certs` has made: TCP is mutual TLS");
  AddRunDirectoryFlags(flags, o);
  flags->Add("bin_dir", &o->bin_dir, "where the daemons are; default: beside this program");
  flags->Add("task_flag", &o->task_flags, "TASK=FLAG, a flag for one task or a role; repeatable");
  flags->AddSeconds("grace_s", &o->grace_s, "seconds between asking a task to end and killing it");
  flags->AddPositional("JOB.yaml", &o->job, "the job", true);
  AddPlannedRoleFlags(flags);
}

void AddLauncherCommands(FlagSet* flags, LauncherOptions* options) {
  AddTrainFlags(flags->AddCommand("train", "run a job in one process, on all its devices"),
                &options->train);
  AddLocalFlags(flags->AddCommand("local", "run a job on a whole cluster on this machine"),
                &options->local);

  AddControlFlags(flags->AddCommand("ctl", "ask a running job for its status, or change it"),
                  &options->control);

  FlagSet* certs = flags->AddCommand("certs", "make a CA and certificates for a cluster");
  certs->Add("days", &options->certificates.days, "how long the certificates are valid");
  certs->Add("by_role", &options->certificates.by_role,
             "one certificate per role, for all its tasks, as Kubernetes mounts them");
  certs->Add("renew", &options->certificates.renew,
             "replace the certificates that are there; the CA stays");
  certs->AddPositional("CLUSTER.yaml", &options->certificates.cluster_file,
                       "the cluster: its name, and the addresses as in TF_CONFIG", true);
  certs->AddPositional("DIR", &options->certificates.directory,
                       "gets a directory for each task, for its --tls_dir", true);

  FlagSet* check = flags->AddCommand("check", "validate a job; print its model and shard plan");
  check->Add("ps", &options->check.ps, "parameter servers to plan for");
  check->Add("workers", &options->check.workers,
             "workers of the cluster, whose devices layers may name; 0: any");
  check->Add("threads", &options->check.threads, "threads of each: how many tablets it may have");
  check->Add("strict", &options->check.strict, "end with 65 if there is a warning");
  AddPluginFlag(check, &options->plugins);
  check->AddPositional("JOB.yaml", &options->check.job, "the job", true);

  AddProfileFlags(
      flags->AddCommand("profile", "time a few steps of a job in one process, by layer and op"),
      &options->profile);

  AddPredictFlags(
      flags->AddCommand("predict", "write what the model of a checkpoint predicts for records"),
      &options->predict);

  AddDeviceFlags(
      flags->AddCommand("doctor", "print what this build and this machine offer; test the GPUs"),
      &options->doctor);

  AddTfConfigFlags(flags->AddCommand("tf-config", "write the TF_CONFIG of each task of a cluster"),
                   &options->tf_config);

  FlagSet* inspect = flags->AddCommand("inspect", "print what a checkpoint holds, and verify it");
  inspect->AddPositional("CHECKPOINT", &options->inspect,
                         "a checkpoint, DIRECTORY of them, or DIRECTORY/best", true);
  inspect->Add("json", &options->json, "print the job and its layers as JSON, for programs");

  FlagSet* evaluate = flags->AddCommand("evaluate", "evaluate a checkpoint on its job's data");
  evaluate->Add("log_dir", &options->evaluate.log_dir,
                "where the figures go; default: only printed");
  evaluate->Add("threads", &options->evaluate.threads, "threads that work; 0: the cores");
  AddPluginFlag(evaluate, &options->evaluate.plugins);
  evaluate->AddPositional("CHECKPOINT", &options->evaluate.checkpoint,
                          "a checkpoint, DIRECTORY of them, or DIRECTORY/best", true);

  FlagSet* report = flags->AddCommand("report", "print what a run gave, or make a page of it");
  report->Add("html", &options->report.html, "write the page to this file: curves and all figures");
  report->AddPositional("RUN", &options->report.run, kRunHelp, true);

  FlagSet* compare = flags->AddCommand("compare", "compare the figures and settings of runs");
  compare->Add("html", &options->compare.html, "write a page with the curves of all runs");
  compare->AddPositionals("RUN", &options->compare.runs, kRunHelp);

  FlagSet* reference = flags->AddCommand("reference", "print the classes that a job file may name");
  AddPluginFlag(reference, &options->plugins);
  reference->Add("ops", &options->ops, "print the ops of programs, docs/ops.md, instead");
  reference->Add("json", &options->json, "print the classes as JSON, for programs");

  FlagSet* exported = flags->AddCommand("export", "write a trained model for other programs");
  exported->Add(
      "format", &options->export_checkpoint.format,
      "safetensors; with Python's package also keras, weights_h5, saved_model, onnx, torch");
  exported->Add("out", &options->export_checkpoint.out,
                "the file to write; default: model.safetensors, model.keras, ...");
  exported->Add("no_preprocessing", &options->export_checkpoint.no_preprocessing,
                "leave the transforms of columns out of a model of keras, saved_model and onnx");
  exported->Add("changed_since", &options->export_checkpoint.changed_since,
                "a step of a checkpoint: write only what has changed since then (safetensors)");
  exported->AddPositional("CHECKPOINT", &options->export_checkpoint.checkpoint,
                          "a checkpoint, DIRECTORY of them, or DIRECTORY/best", true);

  AddGenerateFlags(flags->AddCommand("generate", "write data to try models and clusters with"),
                   &options->generate);
}

}  // namespace cohort
