#include "common/data/stream_files.h"

#include <absl/strings/str_join.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/data/file_bytes.h"
#include "common/data/files/compression.h"
#include "common/data/files/file_list.h"
#include "common/data/source_class.h"
#include "proto/data.pb.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kDone = ".done";
constexpr std::string_view kSkip = ".skip";

absl::StatusOr<FileState> StateOf(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return WithExitCode(ErrnoStatus("cannot read the size of the stream's file", path, errno),
                        ExitCode::kNoInput);
  }
  if (!S_ISREG(status.st_mode)) return InvalidArgument("{} is no regular file", path);
  return FileState{static_cast<uint64_t>(status.st_size), NanosecondsOf(status.st_mtim)};
}

bool IsComplete(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return !name.starts_with('.') && !name.starts_with('_') && !name.ends_with(".tmp") &&
         !name.ends_with(kDone) && !name.ends_with(kSkip);
}

bool Exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0;
}

// glob(3) calls it for a directory that cannot be read. One that is missing has no files yet.
int OnUnreadable(const char*, int error) { return error == ENOENT ? 0 : error; }

absl::Status AddMatches(const std::string& pattern, const DataOptions& options,
                        std::vector<std::string>* files) {
  const std::string path = options.PathOf(pattern);
  const size_t folder = path.size() - pattern.size();
  glob_t found = {};
  const int result = ::glob(path.c_str(), 0, OnUnreadable, &found);
  std::vector<std::string> matches;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    matches.push_back(std::string(found.gl_pathv[i]).substr(folder));
  }
  ::globfree(&found);
  if (result == GLOB_NOSPACE) return ResourceExhausted("no memory for the files of {}", path);
  if (result == GLOB_ABORTED) return Unavailable("cannot read the directory of {}", path);
  std::sort(matches.begin(), matches.end());
  files->insert(files->end(), matches.begin(), matches.end());
  return absl::OkStatus();
}

v1::DatasetSpec SpecOfFile(const v1::DatasetSpec& spec, const std::string& path) {
  v1::DatasetSpec one = spec;
  auto& config = *one.mutable_source_class()->mutable_config();
  config.erase("files");
  config["path"].set_s(path);
  if (auto complete = CompleteConfig(Sources(), one.source_class()); complete.ok()) {
    *one.mutable_source_class() = *std::move(complete);
  }
  return one;
}

absl::StatusOr<bool> IsPacked(const std::string& path, const DataOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Open({path, "", ""}, options));
  std::string start(std::min<uint64_t>(4, file.size()), '\0');
  COHORT_RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span<char>(start))));
  return CompressionOf(start) != Compression::kNone;
}

}  // namespace

std::string StreamPlace(const v1::DatasetSpec& spec) {
  const auto patterns = PatternsOf(Config(spec.source_class()));
  return patterns.ok() ? absl::StrJoin(*patterns, ", ") : "";
}

absl::StatusOr<std::vector<std::string>> ListStreamFiles(const v1::DatasetSpec& spec,
                                                         const v1::StreamSpec& stream,
                                                         const DataOptions& options,
                                                         std::set<std::string>* left_out) {
  COHORT_ASSIGN_OR_RETURN(const auto patterns, PatternsOf(Config(spec.source_class())));
  std::vector<std::string> matches, markers;
  for (const std::string& pattern : patterns) {
    COHORT_RETURN_IF_ERROR(AddMatches(pattern, options, &matches));
    COHORT_RETURN_IF_ERROR(AddMatches(pattern + std::string(kSkip), options, &markers));
  }
  std::set<std::string> skipped;
  for (const std::string& marker : markers) {
    skipped.insert(marker.substr(0, marker.size() - kSkip.size()));
  }
  std::vector<std::string> files;
  std::set<std::string> seen;
  for (std::string& path : matches) {
    if (!IsComplete(path) || skipped.contains(path) || !seen.insert(path).second) continue;
    const std::string here = options.PathOf(path);
    if (stream.done_marker() && !Exists(here + std::string(kDone))) continue;
    struct stat status = {};
    if (::stat(here.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back(std::move(path));
  }
  if (left_out != nullptr) *left_out = std::move(skipped);
  return files;
}

bool IsLeftOut(const std::string& path, const DataOptions& options) {
  return Exists(options.PathOf(path) + std::string(kSkip));
}

absl::Status AdviseToSkip(absl::Status status, const std::string& path, const DataOptions& options,
                          std::string_view first) {
  if (status.ok()) return status;
  absl::Status advised(
      status.code(),
      fmt::format("{}; {}make {}{}, and the job leaves out what it has not read of the file",
                  std::string_view(status.message().data(), status.message().size()), first,
                  options.PathOf(path), kSkip));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { advised.SetPayload(url, payload); });
  return advised;
}

absl::StatusOr<v1::StreamFile> TakeStreamFile(const v1::DatasetSpec& spec, const std::string& path,
                                              const BlockCutter::Options& cut,
                                              const DataOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const SourceClass* source,
                          Sources().Find(spec.source_class().class_name()));
  if (!source->split) {
    return InvalidArgument("the source {} cannot be a stream", source->schema.name);
  }
  const std::string here = options.PathOf(path);
  COHORT_ASSIGN_OR_RETURN(const FileState before, StateOf(here));
  v1::StreamFile file;
  file.set_path(path);
  file.set_bytes(before.bytes);
  file.set_modified_ns(before.modified_ns);
  if (before.bytes == 0) return file;
  const v1::DatasetSpec one = SpecOfFile(spec, path);
  COHORT_ASSIGN_OR_RETURN(FileBlocks blocks,
                          source->split(Config(one.source_class()), {options}, cut));
  COHORT_ASSIGN_OR_RETURN(const bool packed, IsPacked(path, options));
  if (packed && !blocks.blocks.empty()) {
    FileBlocks::Block all{.bytes = before.bytes};
    for (const FileBlocks::Block& block : blocks.blocks) all.records += block.records;
    blocks = {.head = 0, .blocks = {all}};
  }
  file.set_head(blocks.head);
  for (const FileBlocks::Block& block : blocks.blocks) {
    file.add_block_bytes(block.bytes);
    file.add_block_records(block.records);
    file.set_places(file.places() + (block.records + cut.batch_size - 1) / cut.batch_size);
  }
  COHORT_RETURN_IF_ERROR(CheckStreamFile(file, options));
  return file;
}

absl::Status CheckStreamFile(const v1::StreamFile& file, const DataOptions& options) {
  const std::string here = options.PathOf(file.path());
  COHORT_ASSIGN_OR_RETURN(const FileState now, StateOf(here));
  return CheckSame(now, {file.bytes(), file.modified_ns()}, here);
}

PartDataset::PartDataset(const v1::DatasetSpec& whole, const v1::FilePart& part,
                         const DataOptions& base)
    : spec(std::make_unique<v1::DatasetSpec>(SpecOfFile(whole, part.path()))), options(base) {
  options.range = FileRange{.path = part.path(),
                            .bytes = part.bytes(),
                            .modified_ns = part.modified_ns(),
                            .head = part.head(),
                            .begin = part.begin(),
                            .end = part.end()};
}

}  // namespace cohort
