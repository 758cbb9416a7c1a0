// Callbacks of Keras whose work is that of keys of a job.
#include <cstdlib>

#include "common/model/callbacks/callback.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// Sets a key that the job has not set. Errors: InvalidArgument if it has another value.
absl::Status SetText(std::string_view callback, std::string_view key, const std::string& value,
                     std::string* field) {
  if (field->empty()) *field = value;
  if (*field == value) return absl::OkStatus();
  return InvalidArgument("{} asks for `{}: {}`, and the job has \"{}\": leave out one of them",
                         callback, key, value, *field);
}

// The steps of Keras' `save_freq` and `update_freq`; 0: "epoch". -1: neither.
int64_t StepsOf(const std::string& frequency) {
  if (frequency == "epoch") return 0;
  char* end = nullptr;
  const int64_t steps = std::strtoll(frequency.c_str(), &end, 10);
  return *end == '\0' && steps > 0 ? steps : -1;
}

absl::Status CheckFrequency(std::string_view callback, std::string_view argument,
                            const std::string& frequency) {
  if (StepsOf(frequency) >= 0) return absl::OkStatus();
  return InvalidArgument("{}: {} must be \"epoch\" or a number of steps, not \"{}\"", callback,
                         argument, frequency.substr(0, 60));
}

// As SetText, for steps; `frequency` "epoch" asks for nothing.
absl::Status CheckSteps(std::string_view callback, std::string_view key,
                        const std::string& frequency, uint64_t steps) {
  const int64_t wanted = StepsOf(frequency);
  if (wanted <= 0 || static_cast<uint64_t>(wanted) == steps) return absl::OkStatus();
  return InvalidArgument("{} asks for `{}: {}`, and the job has {}: leave out one of them",
                         callback, key, wanted, steps);
}

absl::Status SaveEvery(std::string_view callback, const std::string& frequency,
                       v1::CheckpointSpec* checkpoint) {
  const int64_t steps = StepsOf(frequency);
  if (steps > 0 && checkpoint->every_steps() == 0) {
    checkpoint->set_every_steps(static_cast<uint64_t>(steps));
  }
  return CheckSteps(callback, "checkpoint.every_steps", frequency, checkpoint->every_steps());
}

Argument SaveFrequency() {
  return String("save_freq", "`epoch`, or steps: `checkpoint.every_steps`.").Default("epoch");
}

}  // namespace

CallbackClass ModelCheckpointCallback() {
  return {
      .schema =
          {.name = "ModelCheckpoint",
           .doc = "Sets keys of `checkpoint`. A checkpoint is a directory with the weights, the "
                  "optimizer's state and the place in the data.",
           .arguments = {String("filepath", "A directory: `checkpoint.directory`.").Optional(),
                         String("monitor", "With save_best_only: `checkpoint.keep_best`.")
                             .Default("val_loss"),
                         Int("verbose", "Has no effect.").Default(0),
                         Bool("save_best_only", "Keeps the best checkpoint beside the newest ones.")
                             .Default(false),
                         Bool("save_weights_only",
                              "Has no effect: a job continues from a checkpoint, so it has the "
                              "optimizer's state.")
                             .Default(false),
                         String("mode", "Which values are better.")
                             .Default("auto")
                             .OneOf({"auto", "min", "max"}),
                         SaveFrequency(),
                         Planned(Float("initial_value_threshold", "").Optional())}},
      .apply = [](const Config& config, v1::JobSpec* job) -> absl::Status {
        v1::CheckpointSpec* const checkpoint = job->mutable_checkpoint();
        if (!config.IsNone("filepath")) {
          COHORT_RETURN_IF_ERROR(SetText("ModelCheckpoint", "checkpoint.directory",
                                         config.String("filepath"),
                                         checkpoint->mutable_directory()));
        }
        COHORT_RETURN_IF_ERROR(
            SaveEvery("ModelCheckpoint", config.String("save_freq"), checkpoint));
        if (!config.Bool("save_best_only")) return absl::OkStatus();
        if (checkpoint->mode().empty()) checkpoint->set_mode(config.String("mode"));
        return SetText("ModelCheckpoint", "checkpoint.keep_best", config.String("monitor"),
                       checkpoint->mutable_keep_best());
      },
      .check = [](const Config& config) -> absl::Status {
        if (!config.IsNone("filepath")) {
          const std::string& path = config.String("filepath");
          if (path.ends_with(".keras") || path.ends_with(".h5") ||
              path.find('{') != std::string::npos) {
            return InvalidArgument(
                "ModelCheckpoint: a job writes checkpoints into a directory, and numbers them: "
                "write `filepath: checkpoints`, not \"{}\"",
                path);
          }
        }
        return CheckFrequency("ModelCheckpoint", "save_freq", config.String("save_freq"));
      }};
}

CallbackClass BackupAndRestoreCallback() {
  return {
      .schema =
          {.name = "BackupAndRestore",
           .doc = "What every job does: it continues from its newest checkpoint, and a chief that "
                  "is restarted from the step where it was.",
           .arguments = {String("backup_dir", "A directory: `checkpoint.directory`.").Optional(),
                         SaveFrequency(),
                         Bool("double_checkpoint",
                              "Has no effect: `checkpoint.max_to_keep` says how many are kept.")
                             .Default(false),
                         Bool("delete_checkpoint", "Has no effect: a finished job keeps them.")
                             .Default(true)}},
      .apply = [](const Config& config, v1::JobSpec* job) -> absl::Status {
        COHORT_RETURN_IF_ERROR(
            SaveEvery("BackupAndRestore", config.String("save_freq"), job->mutable_checkpoint()));
        if (config.IsNone("backup_dir")) return absl::OkStatus();
        return SetText("BackupAndRestore", "checkpoint.directory", config.String("backup_dir"),
                       job->mutable_checkpoint()->mutable_directory());
      },
      .check = [](const Config& config) -> absl::Status {
        return CheckFrequency("BackupAndRestore", "save_freq", config.String("save_freq"));
      }};
}

CallbackClass TensorBoardCallback() {
  return {
      .schema =
          {.name = "TensorBoard",
           .doc =
               "Sets keys of `report`: files of TensorBoard with the metrics. With it TensorBoard "
               "also shows the hyper-parameters, the graph, histograms and embeddings.",
           .arguments =
               {String("log_dir", "`report.log_dir`; none: that of the job, or `logs`.").Optional(),
                Int("histogram_freq",
                    "Epochs between histograms of all variables, which are made of the "
                    "checkpoints at the end of epochs; 0: none.")
                    .Default(0)
                    .AtLeast(0),
                Bool("write_graph", "Shows the graph of the layers.").Default(true),
                Planned(Bool("write_images", "").Default(false)),
                Bool("write_steps_per_second", "Has no effect: the speed is always written.")
                    .Default(false),
                String("update_freq", "`epoch`, or steps: `report.every_steps`.").Default("epoch"),
                Planned(Int("profile_batch", "").Default(0)),
                Int("embeddings_freq",
                    "Epochs between copies of the embeddings for the projector, made of "
                    "checkpoints, too; 0: none.")
                    .Default(0)
                    .AtLeast(0),
                String("embeddings_metadata",
                       "A file with a line for each row of all embeddings, relative to log_dir.")
                    .Optional()}},
      .apply = [](const Config& config, v1::JobSpec* job) -> absl::Status {
        v1::ReportSpec* const report = job->mutable_report();
        const std::string& frequency = config.String("update_freq");
        if (!report->has_every_steps() && StepsOf(frequency) > 0) {
          report->set_every_steps(static_cast<uint64_t>(StepsOf(frequency)));
        }
        COHORT_RETURN_IF_ERROR(
            CheckSteps("TensorBoard", "report.every_steps", frequency, report->every_steps()));
        if (config.IsNone("log_dir")) {
          if (report->log_dir().empty()) report->set_log_dir("logs");
          return absl::OkStatus();
        }
        return SetText("TensorBoard", "report.log_dir", config.String("log_dir"),
                       report->mutable_log_dir());
      },
      .check = [](const Config& config) -> absl::Status {
        return CheckFrequency("TensorBoard", "update_freq", config.String("update_freq"));
      }};
}

CallbackClass RemoteMonitorCallback() {
  return {
      .schema = {.name = "RemoteMonitor",
                 .doc = "Not supported: scrape `/metrics` of the chief.",
                 .arguments = {String("root", "Not supported.").Default("http://localhost:9000"),
                               String("path", "Not supported.").Default("/publish/epoch/end/"),
                               String("field", "Not supported.").Default("data"),
                               String("headers", "Not supported.").Optional(),
                               Bool("send_as_json", "Not supported.").Default(false)}},
      .refused =
          "RemoteMonitor is not supported: scrape `/metrics` of the chief "
          "(`--admin_port`) with Prometheus, or follow metrics.jsonl in "
          "`report.log_dir`"};
}

CallbackClass LambdaCallbackCallback() {
  return {.schema = {.name = "LambdaCallback",
                     .doc = "Not supported: a job runs no functions of Python.",
                     .arguments = {}},
          .refused =
              "LambdaCallback is not supported: a job runs no functions of Python; follow "
              "metrics.jsonl in `report.log_dir`, or write a chief of your own "
              "(docs/cpp_api.md)"};
}

}  // namespace cohort
