#ifndef COHORT_EVALUATOR_CHECKPOINT_WATCH_H_
#define COHORT_EVALUATOR_CHECKPOINT_WATCH_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/run_note.h"
#include "common/report/append_file.h"

namespace cohort {

// Finds the checkpoints of a directory that are not evaluated yet. It stores the names of evaluated
// ones in a file, one per line, so that a restarted evaluator continues there.
class CheckpointWatch {
 public:
  struct Options {
    std::string directory;
    std::string launch;        // nothing is read before its chief is ready (RunNote); "": any chief
    bool latest_only = false;  // skip all but the newest checkpoint
    std::string done_file;     // "": nothing is stored
  };

  // Reads the file. Errors: those of AppendFile.
  static absl::StatusOr<std::unique_ptr<CheckpointWatch>> Open(const Options& options);

  // Returns the next checkpoint to evaluate, the oldest first; nullopt if there is none now.
  // `newest`: the newest one, or none.
  absl::StatusOr<std::optional<CheckpointEntry>> Next(bool newest = false);
  // Records that a checkpoint is evaluated, or cannot be: Next never returns it again.
  absl::Status Done(const CheckpointEntry& entry);
  // Returns true if the newest checkpoint is the last one of the job, Done was called for it, and
  // the chief does not continue from it.
  bool finished() const;

 private:
  // nullopt: there is no note, or it is that of another launch.
  absl::StatusOr<std::optional<RunNote>> Note() const;
  explicit CheckpointWatch(const Options& options) : options_(options) {}

  const Options options_;
  std::set<std::string> done_;
  std::unique_ptr<AppendFile> file_;  // may be null
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_CHECKPOINT_WATCH_H_
