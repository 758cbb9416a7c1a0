#ifndef COHORT_EVALUATOR_CHECKPOINT_WATCH_H_
#define COHORT_EVALUATOR_CHECKPOINT_WATCH_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/report/append_file.h"

namespace cohort {

// Which checkpoints of a directory are still to be looked at. What was done is remembered in a
// file, one checkpoint's name per line, so that an evaluator that is started again goes on where it
// was.
class CheckpointWatch {
 public:
  struct Options {
    std::string directory;
    bool latest_only = false;  // older ones that were not looked at in time are passed over
    std::string done_file;     // ""; nothing is remembered beyond this process
  };

  // Reads the file. Errors: those of AppendFile.
  static absl::StatusOr<std::unique_ptr<CheckpointWatch>> Open(const Options& options);

  // The next one to evaluate, oldest first; nullopt where there is none now.
  absl::StatusOr<std::optional<CheckpointEntry>> Next();
  // It is evaluated, or cannot be: it never comes again.
  absl::Status Done(const CheckpointEntry& entry);
  // Whether the newest checkpoint is the job's last, and was looked at.
  bool finished() const;

 private:
  explicit CheckpointWatch(const Options& options) : options_(options) {}

  const Options options_;
  std::set<std::string> done_;
  std::unique_ptr<AppendFile> file_;  // may be null
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_CHECKPOINT_WATCH_H_
