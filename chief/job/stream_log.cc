#include "chief/job/stream_log.h"

#include <absl/strings/numbers.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::string_view kSegmentSuffix = ".json";
constexpr uint64_t kMostSegmentBytes = uint64_t{1} << 32;

// 0: it is not the name of a segment.
uint64_t NumberOf(std::string_view name) {
  if (!name.starts_with(kSegmentPrefix) || !name.ends_with(kSegmentSuffix)) return 0;
  name.remove_prefix(kSegmentPrefix.size());
  name.remove_suffix(kSegmentSuffix.size());
  uint64_t number = 0;
  return absl::SimpleAtoi(absl::string_view(name.data(), name.size()), &number) ? number : 0;
}

absl::StatusOr<std::vector<uint64_t>> Segments(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    if (const uint64_t number = NumberOf(name); number > 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

StreamLog::StreamLog(const Options& options)
    : options_(options), directory_(JoinPath(options.directory, kStreamDirectory)) {}

absl::StatusOr<std::unique_ptr<StreamLog>> StreamLog::Open(const Options& options) {
  std::unique_ptr<StreamLog> log(new StreamLog(options));
  COHORT_RETURN_IF_ERROR(options.may_write());
  COHORT_RETURN_IF_ERROR(MakeDirectories(log->directory_));
  COHORT_RETURN_IF_ERROR(log->Read());
  return log;
}

std::string StreamLog::PathOf(uint64_t number) const {
  return JoinPath(directory_, fmt::format("{}{:012}{}", kSegmentPrefix, number, kSegmentSuffix));
}

absl::Status StreamLog::Read() {
  COHORT_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Segments(directory_));
  for (const uint64_t number : numbers) {
    const std::string path = PathOf(number);
    COHORT_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMostSegmentBytes));
    v1::StreamSegment segment;
    if (!google::protobuf::util::JsonStringToMessage(json, &segment).ok() ||
        segment.number() != number) {
      return DataLoss(
          "{} is damaged: it lists files of the stream, so the records that the job has read are "
          "not known; give another checkpoint directory",
          path);
    }
    if (segment.batch_size() != options_.batch_size) {
      return WithExitCode(
          FailedPrecondition("the files of the stream were cut into batches of {} records, as {} "
                             "says: restore this `data.batch_size` ({} now), or give another "
                             "checkpoint directory",
                             segment.batch_size(), path, options_.batch_size),
          ExitCode::kConfig);
    }
    Take(segment);
  }
  return absl::OkStatus();
}

void StreamLog::Take(const v1::StreamSegment& segment) {
  if (segment.base()) {
    files_.clear();
    by_path_.clear();
    segments_ = 0;
  }
  ++segments_;
  for (const v1::StreamFile& file : segment.files()) {
    by_path_[file.path()] = files_.size();
    files_.push_back(file);
  }
  last_segment_ = segment.number();
  next_block_ = segment.next_block();
  next_place_ = segment.next_place();
}

const v1::StreamFile* StreamLog::Find(const std::string& path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : &files_[found->second];
}

absl::Status StreamLog::Write(v1::StreamSegment segment) {
  segment.set_number(last_segment_ + 1);
  segment.set_batch_size(options_.batch_size);
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(segment, &json).ok()) {
    return Internal("the list of the stream's files has no JSON form");
  }
  COHORT_RETURN_IF_ERROR(options_.may_write());
  const std::string path = PathOf(segment.number());
  // Chiefs in containers may have one process id, so the name is random.
  const std::string draft = JoinPath(directory_, fmt::format("draft-{:016x}", RandomIncarnation()));
  COHORT_ASSIGN_OR_RETURN(const auto file,
                          DurableFile::Create(draft, DurableFile::Mode::kExclusive));
  absl::Status written = file->Append(json.data(), json.size());
  if (written.ok()) written = file->Sync();
  if (written.ok()) written = file->Close();
  if (written.ok() && ::link(draft.c_str(), path.c_str()) != 0) {
    written = errno == EEXIST
                  ? Aborted("{} exists already: another chief has taken files of the stream", path)
                  : ErrnoStatus("cannot create", path, errno);
  }
  RemoveFile(draft).IgnoreError();
  if (written.ok()) written = SyncDirectory(directory_);
  COHORT_RETURN_IF_ERROR(written);
  Take(segment);
  return absl::OkStatus();
}

absl::Status StreamLog::Append(std::vector<v1::StreamFile> files) {
  v1::StreamSegment segment;
  segment.set_next_block(next_block_);
  segment.set_next_place(next_place_);
  for (v1::StreamFile& file : files) {
    file.set_first_block(segment.next_block());
    file.set_first_place(segment.next_place());
    segment.set_next_block(segment.next_block() + static_cast<uint64_t>(file.block_records_size()));
    segment.set_next_place(segment.next_place() + file.places());
    *segment.add_files() = std::move(file);
  }
  return Write(std::move(segment));
}

absl::Status StreamLog::Compact(absl::FunctionRef<bool(const v1::StreamFile&)> drop) {
  v1::StreamSegment base;
  base.set_base(true);
  base.set_next_block(next_block_);
  base.set_next_place(next_place_);
  for (const v1::StreamFile& file : files_) {
    if (!drop(file)) *base.add_files() = file;
  }
  COHORT_RETURN_IF_ERROR(Write(std::move(base)));
  COHORT_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Segments(directory_));
  for (const uint64_t number : numbers) {
    if (number >= last_segment_) break;
    COHORT_RETURN_IF_ERROR(options_.may_write());
    COHORT_RETURN_IF_ERROR(RemoveFile(PathOf(number)));
  }
  return SyncDirectory(directory_);
}

absl::Status DeleteStreamLog(const std::string& checkpoint_dir, const MayWrite& may_write) {
  const std::string directory = JoinPath(checkpoint_dir, kStreamDirectory);
  COHORT_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Segments(directory));
  // The newest first: what is left is a list that ends earlier.
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    COHORT_RETURN_IF_ERROR(may_write());
    COHORT_RETURN_IF_ERROR(RemoveFile(
        JoinPath(directory, fmt::format("{}{:012}{}", kSegmentPrefix, *number, kSegmentSuffix))));
  }
  return numbers.empty() ? absl::OkStatus() : SyncDirectory(directory);
}

}  // namespace cohort
