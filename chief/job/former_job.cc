#include "chief/job/former_job.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "chief/job/stream_log.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr char kNoteName[] = "former_job";
constexpr std::string_view kPrefix = "former-";
constexpr uint64_t kMostNoteBytes = 4096;

// Three lines: "directory former-1", "checkpoint ckpt-1-1-4" and "moved yes".
absl::Status WriteNote(const std::string& checkpoint_dir, const FormerJob& job) {
  return WriteFileAtomically(JoinPath(checkpoint_dir, kNoteName),
                             fmt::format("directory {}\ncheckpoint {}\nmoved {}\n", job.directory,
                                         job.checkpoint.ToString(), job.moved ? "yes" : "no"));
}

// The text after `key` in the next line; nullopt if the line has another key.
std::optional<std::string> ValueOf(std::string_view key, std::istream* lines) {
  std::string line;
  if (!std::getline(*lines, line) || !line.starts_with(key)) return std::nullopt;
  return line.substr(key.size());
}

std::string UnusedName(const std::string& checkpoint_dir) {
  std::error_code unknown;
  for (int number = 1;; ++number) {
    std::string name = fmt::format("{}{}", kPrefix, number);
    if (!std::filesystem::exists(JoinPath(checkpoint_dir, name), unknown)) return name;
  }
}

}  // namespace

std::string FormerJob::CheckpointName() const { return JoinPath(directory, checkpoint.ToString()); }

absl::StatusOr<std::optional<FormerJob>> ReadFormerJob(const std::string& checkpoint_dir) {
  const std::string path = JoinPath(checkpoint_dir, kNoteName);
  const absl::StatusOr<std::string> text = ReadFile(path, kMostNoteBytes);
  if (absl::IsNotFound(text.status())) return std::optional<FormerJob>();
  COHORT_RETURN_IF_ERROR(text.status());
  std::istringstream lines(*text);
  const auto directory = ValueOf("directory ", &lines);
  const auto checkpoint = ValueOf("checkpoint ", &lines);
  const auto moved = ValueOf("moved ", &lines);
  const auto id = CheckpointId::Parse(checkpoint.value_or(""));
  const bool is_name = directory.has_value() && directory->starts_with(kPrefix) &&
                       directory->find('/') == std::string::npos;
  if (!is_name || !id.has_value() || (moved != "yes" && moved != "no")) {
    return DataLoss(
        "{} is damaged: it names the directory of the former job's checkpoints, former-N; move it "
        "away if all of them are there",
        path);
  }
  return std::optional<FormerJob>(
      FormerJob{.directory = *directory, .checkpoint = *id, .moved = moved == "yes"});
}

absl::StatusOr<FormerJob> SetJobAside(const std::string& checkpoint_dir,
                                      const CheckpointId& checkpoint, const MayWrite& may_write) {
  FormerJob job{.directory = UnusedName(checkpoint_dir), .checkpoint = checkpoint, .moved = false};
  COHORT_RETURN_IF_ERROR(may_write());
  COHORT_RETURN_IF_ERROR(WriteNote(checkpoint_dir, job));
  COHORT_RETURN_IF_ERROR(FinishSettingAside(checkpoint_dir, may_write, &job));
  return job;
}

absl::Status FinishSettingAside(const std::string& checkpoint_dir, const MayWrite& may_write,
                                FormerJob* job) {
  const std::string aside = JoinPath(checkpoint_dir, job->directory);
  COHORT_RETURN_IF_ERROR(MakeDirectories(aside));
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir));
  for (const CheckpointEntry& entry : entries) {
    COHORT_CRASH_POINT("chief.former.moving");
    COHORT_RETURN_IF_ERROR(may_write());
    const std::string target = JoinPath(aside, entry.id.ToString());
    if (std::rename(entry.directory.c_str(), target.c_str()) != 0) {
      return ErrnoStatus("cannot move to " + aside, entry.directory, errno);
    }
  }
  // The new job begins its stream again.
  const std::string stream = JoinPath(checkpoint_dir, kStreamDirectory);
  if (::access(stream.c_str(), F_OK) == 0) {
    COHORT_RETURN_IF_ERROR(may_write());
    const std::string target = JoinPath(aside, kStreamDirectory);
    if (std::rename(stream.c_str(), target.c_str()) != 0) {
      return ErrnoStatus("cannot move to " + aside, stream, errno);
    }
  }
  COHORT_RETURN_IF_ERROR(SyncDirectory(aside));
  COHORT_RETURN_IF_ERROR(SyncDirectory(checkpoint_dir));
  COHORT_CRASH_POINT("chief.former.moving");
  const std::string journal = JoinPath(checkpoint_dir, "journal");
  COHORT_RETURN_IF_ERROR(MakeDirectories(journal));
  COHORT_RETURN_IF_ERROR(DeleteJournals(journal, may_write));
  COHORT_RETURN_IF_ERROR(may_write());
  job->moved = true;
  return WriteNote(checkpoint_dir, *job);
}

absl::Status RemoveFormerNote(const std::string& checkpoint_dir, const MayWrite& may_write) {
  const std::string path = JoinPath(checkpoint_dir, kNoteName);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(may_write());
  return RemoveFile(path);
}

absl::Status DeleteJournals(const std::string& directory, const MayWrite& may_write) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (name.rfind("journal-", 0) != 0) continue;
    COHORT_RETURN_IF_ERROR(may_write());
    COHORT_RETURN_IF_ERROR(RemoveFile(JoinPath(directory, name)));
  }
  return SyncDirectory(directory);
}

}  // namespace cohort
