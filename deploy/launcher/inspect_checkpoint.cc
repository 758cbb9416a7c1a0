#include "deploy/launcher/inspect_checkpoint.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/best_checkpoint.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/placement/shard_plan.h"
#include "common/report/progress.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr char kBestName[] = "best";  // stands next to the checkpoints of a directory

std::string Head(const std::string& path, const v1::Manifest& manifest) {
  const auto seconds = static_cast<std::time_t>(manifest.unix_micros() / 1'000'000);
  return fmt::format(
      "checkpoint: {}\n"
      "job:        {}\n"
      "step:       {}\n"
      "epochs:     {} finished{}\n"
      "written:    {:%Y-%m-%d %H:%M:%S} UTC by cohort {}\n"
      "order:      timeline {}, generation {}, cut {}\n",
      path, manifest.job(), manifest.step(), manifest.epoch(),
      manifest.finished() ? "; the job is done" : "", fmt::gmtime(seconds),
      manifest.cohort_version(), manifest.timeline(), manifest.generation(), manifest.cut());
}

// Appends a line to `text` for each checkpoint that is not complete.
RefusedCallback LinesInto(std::string* text) {
  return [text](const std::string& manifest, const absl::Status& why) {
    const std::string message(why.message());
    const bool names_it = message.starts_with(fs::path(manifest).parent_path().string());
    *text += names_it ? fmt::format("refused: {}\n", message)
                      : fmt::format("refused: {}: {}\n", manifest, message);
  };
}

// Returns the metric of this checkpoint's validation, and the best checkpoint of its job.
absl::StatusOr<std::string> Best(const std::string& chosen, const v1::Manifest& manifest,
                                 std::string* refused) {
  std::string text;
  if (manifest.has_validated()) {
    const v1::Validated& validated = manifest.validated();
    text =
        fmt::format("validated:  {}\n", FormatMetrics({{validated.metric(), validated.value()}}));
  }
  if (!manifest.has_best()) return text;
  if (manifest.best().checkpoint() == IdOf(manifest).ToString()) {
    return text + fmt::format("best:       this one ({})\n", BestText(manifest.best()));
  }
  const std::string directory = fs::path(chosen).parent_path().string();
  // It was deleted after a better one was committed, or it was not copied.
  std::error_code unknown;
  if (!fs::exists(fs::path(directory) / manifest.best().checkpoint(), unknown) && !unknown) {
    return text + fmt::format("best:       {} ({}), which no longer exists\n",
                              manifest.best().checkpoint(), BestText(manifest.best()));
  }
  COHORT_ASSIGN_OR_RETURN(const auto best,
                          BestOf(directory, manifest, RuleOf(manifest), LinesInto(refused)));
  return text + (best.has_value()
                     ? fmt::format("best:       {} ({})\n", best->checkpoint(), BestText(*best))
                     : "best:       none that is whole\n");
}

std::string Tensors(const CheckpointReader& reader) {
  std::string text = "variables:\n";
  for (const auto& [key, tensor] : reader.tensors()) {
    if (!tensor.slot.empty()) continue;
    const auto slots = reader.Slots(tensor.variable);
    text += fmt::format("  {}  {}{}", tensor.variable, DTypeName(tensor.dtype),
                        DimsToString(tensor.dims));
    text += slots.empty() ? "\n" : fmt::format("  slots: {}\n", fmt::join(slots, ", "));
  }
  return text;
}

// Returns the positions at which the workers' readers continue (visitation independent).
std::string Readers(const v1::Manifest& manifest) {
  if (manifest.chief().readers().empty()) return "";
  std::string text = "readers (batches that each worker has had):\n";
  for (const v1::ReaderPositions& readers : manifest.chief().readers()) {
    text += fmt::format("  {} ", readers.resource());
    for (int i = 0; i < std::min(readers.workers_size(), readers.batches_size()); ++i) {
      text += fmt::format(" worker:{} {}", readers.workers(i), readers.batches(i));
    }
    text += "\n";
  }
  return text;
}

std::string Files(const v1::Manifest& manifest) {
  std::string text = "files (checksums agree):\n";
  for (const v1::SnapshotFile& file : manifest.files()) {
    text += fmt::format("  {}  {}\n", file.name(), FormatBytes(static_cast<int64_t>(file.bytes())));
  }
  return text;
}

// Returns the words that the job has learned, or that its file lists.
std::string Words(const v1::Manifest& manifest) {
  std::string text;
  for (const v1::WordsFile& file : manifest.words()) {
    text += fmt::format("  {}  {} words, {}:", file.name(), file.words(),
                        FormatBytes(static_cast<int64_t>(file.bytes())));
    for (const v1::WordsPlace& place : file.places()) {
      text += fmt::format(" data.{}.transforms[{}].{}", place.validation() ? "validation" : "train",
                          place.transform(), place.argument());
    }
    text += "\n";
  }
  return text;
}

std::string Others(const std::string& chosen) {
  const auto all = ListCheckpoints(fs::path(chosen).parent_path().string());
  if (!all.ok() || all->size() < 2) return "";
  std::string text = "beside it:\n";
  for (const CheckpointEntry& entry : *all) {
    if (fs::path(entry.directory).filename() != fs::path(chosen).filename()) {
      text += fmt::format("  {}\n", entry.id.ToString());
    }
  }
  return text;
}

absl::StatusOr<std::string> FindBestIn(const std::string& directory, std::string* refused) {
  COHORT_ASSIGN_OR_RETURN(const auto best, FindBest(directory, LinesInto(refused)));
  if (best.has_value()) return (fs::path(directory) / best->checkpoint()).string();
  return NotFound(
      "{} has no best checkpoint: its job has no `keep_best`, or none was validated and is whole",
      directory);
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& path, std::string* refused) {
  if (path.empty()) {
    return UsageError("\"\" names no checkpoint");
  }
  std::error_code ignored;
  // Without a working directory no relative path can be found.
  fs::path clean = fs::absolute(path, ignored).lexically_normal();
  if (clean.empty()) return NotFound("{} does not exist: nor does the working directory", path);
  if (!clean.has_filename()) clean = clean.parent_path();  // a slash at the end
  if (!fs::exists(path, ignored)) {
    if (clean.filename() == kBestName && fs::is_directory(clean.parent_path(), ignored)) {
      return FindBestIn(clean.parent_path().string(), refused);
    }
    return NotFound("{} does not exist", path);
  }
  if (clean.filename() == kManifestName) return clean.parent_path().string();
  if (fs::exists(clean / kManifestName, ignored)) return clean.string();
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestValid(clean.string(), LinesInto(refused)));
  if (newest.has_value()) return newest->directory;
  if (refused->empty()) {
    return NotFound("{} holds no checkpoint: name a ckpt-... directory, or the directory of such",
                    path);
  }
  const std::string why = std::exchange(*refused, "");
  return DataLoss("{} holds no whole checkpoint; take a copy of it, or an older one:\n{}", path,
                  std::string_view(why).substr(0, why.size() - 1));
}

absl::StatusOr<std::string> InspectCheckpoint(const std::string& path) {
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string directory, FindCheckpoint(path, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(directory, {}));
  const v1::Manifest& manifest = reader->manifest();
  COHORT_ASSIGN_OR_RETURN(const std::string best, Best(directory, manifest, &refused));
  return fmt::format("{}{}{}{}{}shard plan:\n{}{}{}{}", refused, Head(directory, manifest), best,
                     Readers(manifest), Tensors(*reader), ShardPlanText(manifest.layout()),
                     Files(manifest), Words(manifest), Others(directory));
}

}  // namespace cohort
