#include "common/model/job_file.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/model/job_check.h"
#include "common/model/job_defaults.h"
#include "common/model/job_reader.h"

namespace cohort {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

absl::Status ParseError(std::string_view file, const YAML::Exception& error) {
  const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
  // yaml-cpp reports BAD_FILE for nesting beyond its limit. A text cannot be a bad file otherwise.
  if (error.msg == YAML::ErrorMsg::BAD_FILE) {
    return InvalidArgument("{}:{}: lists or mappings are nested too deeply", file, line);
  }
  return InvalidArgument("{}:{}: not YAML: {}", file, line, error.msg);
}

// YAML 1.2 allows them, but the parser reads the whole file as one line.
bool HasOnlyCarriageReturns(std::string_view text) {
  const size_t first = text.find('\r');
  return first < text.size() - 1 && text.find('\n') == std::string_view::npos;
}

absl::Status Read(JobFile* job) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(job->yaml);
  const std::string& file = job->lines.file;
  if (documents.empty() || documents[0].IsNull()) {
    return InvalidArgument("{}:1: the file is empty", file);
  }
  if (documents.size() > 1) {
    return InvalidArgument("{}:{}: a job is one YAML document", file, documents[1].Mark().line + 1);
  }
  SetJobDefaults(&job->spec);
  JobReader reader(&job->lines);
  COHORT_RETURN_IF_ERROR(reader.ReadMessage(documents[0], "", &job->spec));
  CompleteDefaults(&job->spec);
  return CheckJob(job->spec, job->lines);
}

}  // namespace

std::string JobLines::Where(std::string_view path) const {
  for (;;) {
    const auto it = keys.find(path);
    if (it != keys.end()) return fmt::format("{}:{}", file, it->second);
    const size_t end = path.find_last_of(".[");
    if (end == std::string_view::npos) return fmt::format("{}:1", file);
    path = path.substr(0, end);
  }
}

absl::StatusOr<JobFile> ParseJob(std::string_view yaml, std::string_view file_name) {
  JobFile job;
  job.yaml = std::string(yaml);
  job.lines.file = std::string(file_name);
  if (yaml.size() > kMaxBytes) {
    return InvalidArgument("{}:1: the file has {} bytes; a job has at most {}", file_name,
                           yaml.size(), kMaxBytes);
  }
  if (HasOnlyCarriageReturns(yaml)) {
    return InvalidArgument("{}:1: the lines end with CR alone: save the file with LF or CR LF",
                           file_name);
  }
  try {
    COHORT_RETURN_IF_ERROR(Read(&job));
  } catch (const YAML::Exception& error) {
    return ParseError(file_name, error);
  }
  return job;
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot be opened: {}", path, std::strerror(errno));
  // A directory can be opened but not read.
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return NotFound("{}: is a directory, not a job file", path);
  }
  // A device may never end, so reading stops at the largest size of a job.
  std::string text;
  std::array<char, 1 << 16> block;
  while (text.size() <= kMaxBytes && in.read(block.data(), block.size()).gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(in.gcount()));
  }
  if (text.size() > kMaxBytes) {
    return InvalidArgument("{}:1: the file has more than {} bytes, the limit of a job", path,
                           kMaxBytes);
  }
  if (in.bad()) return NotFound("{}: cannot be read", path);
  return ParseJob(text, path);
}

}  // namespace cohort
