#include "evaluator/checkpoint_watch.h"

#include <fstream>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<CheckpointWatch>> CheckpointWatch::Open(const Options& options) {
  std::unique_ptr<CheckpointWatch> watch(new CheckpointWatch(options));
  if (options.done_file.empty()) return watch;
  // Open it first: this refuses a FIFO, on which a read would wait.
  COHORT_ASSIGN_OR_RETURN(watch->file_, AppendFile::Open(options.done_file));
  std::ifstream lines(options.done_file);
  for (std::string name; std::getline(lines, name);) watch->done_.insert(name);
  if (!watch->file_->ends_with_newline()) COHORT_RETURN_IF_ERROR(watch->file_->Append("\n"));
  return watch;
}

absl::StatusOr<std::optional<RunNote>> CheckpointWatch::Note() const {
  COHORT_ASSIGN_OR_RETURN(std::optional<RunNote> note, ReadRunNote(options_.directory));
  const bool others =
      note.has_value() && !options_.launch.empty() && note->launch != options_.launch;
  return others ? std::optional<RunNote>() : std::move(note);
}

absl::StatusOr<std::optional<CheckpointEntry>> CheckpointWatch::Next(bool newest) {
  if (!options_.launch.empty()) {
    COHORT_ASSIGN_OR_RETURN(const auto note, Note());
    if (!note.has_value()) return std::nullopt;
  }
  COHORT_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries,
                          ListCheckpoints(options_.directory));
  if ((newest || options_.latest_only) && entries.size() > 1) {
    entries.erase(entries.begin(), entries.end() - 1);
  }
  for (CheckpointEntry& entry : entries) {
    if (done_.count(entry.id.ToString()) == 0) return std::move(entry);
  }
  return std::nullopt;
}

absl::Status CheckpointWatch::Done(const CheckpointEntry& entry) {
  done_.insert(entry.id.ToString());
  return file_ == nullptr ? absl::OkStatus() : file_->Append(entry.id.ToString() + "\n");
}

bool CheckpointWatch::finished() const {
  const auto entries = ListCheckpoints(options_.directory);
  if (!entries.ok() || entries->empty()) return false;
  if (done_.count(entries->back().id.ToString()) == 0) return false;
  const auto note = Note();
  if (!note.ok() || (!note->has_value() && !options_.launch.empty())) return false;
  if (note->has_value() && entries->back().id <= (*note)->begins_after) return false;
  const auto manifest = ReadManifest(entries->back().manifest);
  return manifest.ok() && manifest->finished();
}

}  // namespace cohort
