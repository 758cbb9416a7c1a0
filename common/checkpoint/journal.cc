#include "common/checkpoint/journal.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/base/crash_point.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/format_version.h"
#include "common/checkpoint/journal_format.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kGenerationPrefix = "generation-";
constexpr std::string_view kJournalPrefix = "journal-";
constexpr std::string_view kNewSuffix = ".new";
// Claims of older generations that stay: a chief that listed the directory a while ago must not get
// a generation twice.
constexpr uint64_t kKeptClaims = 16;
constexpr uint64_t kMaxJournalBytes = uint64_t{4} << 30;

// The number after `prefix`; nullopt for any other name.
std::optional<uint64_t> NumberOf(std::string_view name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  uint64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<std::vector<uint64_t>> NumbersIn(const std::string& directory,
                                                std::initializer_list<std::string_view> prefixes) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    for (const std::string_view prefix : prefixes) {
      if (const auto number = NumberOf(name, prefix)) numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string JournalPath(const std::string& directory, uint64_t generation) {
  return JoinPath(directory, fmt::format("{}{}", kJournalPrefix, generation));
}

// The journal must be complete: with a part of it alone, ids would be given out a second time.
// Without all of it the job continues from a checkpoint, as with --fresh that keeps checkpoints.
std::string WayOut(const std::string& directory) {
  return fmt::format(
      "Put the file back as it was, or move all {}* out of {}: then the job continues from its "
      "newest checkpoint, or starts again if it has none",
      kJournalPrefix, directory);
}

absl::Status WithWayOut(const absl::Status& damage, const std::string& directory) {
  if (!absl::IsDataLoss(damage)) return damage;
  return DataLoss("{}. {}", std::string(damage.message()), WayOut(directory));
}

// What a claim contains from the moment that its journal exists.
constexpr std::string_view kBegun = "its journal was begun\n";

// One file that was read.
struct Segment {
  uint64_t generation = 0;
  std::string path;
  std::vector<v1::JournalRecord> records;
};

bool HasBase(const Segment& segment) {
  return !segment.records.empty() && segment.records.front().has_base();
}

// Segments are created with their first records, so one that lacks them is damaged.
absl::StatusOr<Segment> ReadSegment(const std::string& directory, uint64_t generation) {
  Segment segment{.generation = generation, .path = JournalPath(directory, generation)};
  COHORT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(segment.path, kMaxJournalBytes));
  COHORT_ASSIGN_OR_RETURN(segment.records, ParseJournal(bytes, segment.path, nullptr));
  if (!bytes.empty() && segment.records.empty()) {
    return DataLoss("{}: its first record is damaged or incomplete", segment.path);
  }
  return segment;
}

// The newest segment that starts with a base and those after it, oldest first; all if none does.
absl::StatusOr<std::vector<Segment>> ReadSegments(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto generations, NumbersIn(directory, {kJournalPrefix}));
  std::vector<Segment> segments;
  for (auto generation = generations.rbegin(); generation != generations.rend(); ++generation) {
    COHORT_ASSIGN_OR_RETURN(Segment segment, ReadSegment(directory, *generation));
    segments.push_back(std::move(segment));
    if (HasBase(segments.back())) break;
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

// Finds files that are missing after the first one. Those before it are not needed, or may have
// been moved away together, which CheckBeginning finds.
absl::Status CheckFiles(const std::string& directory, const std::vector<Segment>& segments,
                        const JournalPosition& held) {
  if (segments.empty()) return absl::OkStatus();
  const auto missing = [&](uint64_t generation) {
    return generation > segments.front().generation &&
           std::none_of(segments.begin(), segments.end(),
                        [&](const Segment& segment) { return segment.generation == generation; });
  };
  if (held.record > 0 && missing(held.generation)) {
    return DataLoss("{} is missing: {} names its record {}",
                    JournalPath(directory, held.generation), held.named_by, held.record);
  }
  COHORT_ASSIGN_OR_RETURN(const auto claims, NumbersIn(directory, {kGenerationPrefix}));
  for (const uint64_t generation : claims) {
    if (!missing(generation)) continue;
    const std::string claim =
        JoinPath(directory, fmt::format("{}{}", kGenerationPrefix, generation));
    COHORT_ASSIGN_OR_RETURN(const auto file, RandomFile::Open(claim));
    if (file->size() == 0) continue;
    // Another chief may have created it since the directory was listed.
    if (!absl::IsNotFound(RandomFile::Open(JournalPath(directory, generation)).status())) continue;
    return DataLoss("{} is missing: {} says that it was begun", JournalPath(directory, generation),
                    claim);
  }
  return absl::OkStatus();
}

// The file that a manifest names must not end before the manifest's record. A later generation's
// base stands for all records of an older file.
absl::Status CheckHeld(const Segment& segment, const JournalPosition& held) {
  if (segment.generation != held.generation) return absl::OkStatus();
  const uint64_t last = segment.records.empty() ? 0 : segment.records.back().number();
  if (last >= held.record) return absl::OkStatus();
  return DataLoss(
      "{}: ends {}, but {} was written when record {} was durable: the end of the file is "
      "missing",
      segment.path, last == 0 ? "before its first record" : fmt::format("with record {}", last),
      held.named_by, held.record);
}

// Checks that no record is missing before the first one (see Journal).
absl::Status CheckBeginning(const std::string& path,
                            const std::vector<v1::JournalRecord>& records) {
  if (records.empty() || records.front().number() == 1 || records.front().has_base()) {
    return absl::OkStatus();
  }
  for (const v1::JournalRecord& record : records) {
    if (record.has_rollback() || record.start().from_manifest()) return absl::OkStatus();
    if (record.has_start() || record.has_reserve()) continue;
    return DataLoss("{}: begins with record {}: the files before it are missing", path,
                    records.front().number());
  }
  return absl::OkStatus();
}

// Moves a segment's records after those in `all`.
absl::Status Join(Segment* segment, std::vector<v1::JournalRecord>* all) {
  if (segment->records.empty()) return absl::OkStatus();
  // Records that the previous chief appended after this one had read its file.
  const uint64_t first = segment->records.front().number();
  while (!all->empty() && all->back().number() >= first) all->pop_back();
  for (v1::JournalRecord& record : segment->records) {
    if (!all->empty() && record.number() != all->back().number() + 1) {
      return DataLoss("{}: has record {} where {} is due: a part of the journal is missing",
                      segment->path, record.number(), all->back().number() + 1);
    }
    all->push_back(std::move(record));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::JournalRecord>> ReadFiles(const std::string& directory,
                                                         const JournalPosition& held) {
  COHORT_ASSIGN_OR_RETURN(auto segments, ReadSegments(directory));
  COHORT_RETURN_IF_ERROR(CheckFiles(directory, segments, held));
  std::vector<v1::JournalRecord> all;
  for (Segment& segment : segments) {
    COHORT_RETURN_IF_ERROR(CheckHeld(segment, held));
    COHORT_RETURN_IF_ERROR(Join(&segment, &all));
  }
  if (!all.empty()) COHORT_RETURN_IF_ERROR(CheckBeginning(segments.front().path, all));
  return all;
}

template <typename Body>
void SetFormat(Body* body) {
  body->set_format_version(kJournalFormat);
  body->set_cohort_version(std::string(CohortVersion()));
}

// Appends the frame of one record. A start or a base gets the version of the format.
absl::Status EncodeRecord(const v1::JournalRecord& record, std::string* bytes) {
  if (!record.has_start() && !record.has_base()) return AppendJournalFrame(record, bytes);
  v1::JournalRecord stamped = record;
  if (stamped.has_start()) SetFormat(stamped.mutable_start());
  if (stamped.has_base()) SetFormat(stamped.mutable_base());
  return AppendJournalFrame(stamped, bytes);
}

// Appends the frames of `records` to `bytes`; the bytes of the first one.
absl::StatusOr<size_t> Encode(std::span<const v1::JournalRecord> records, std::string* bytes) {
  size_t first = 0;
  for (const v1::JournalRecord& record : records) {
    COHORT_RETURN_IF_ERROR(EncodeRecord(record, bytes));
    if (first == 0) first = bytes->size();
  }
  return first;
}

}  // namespace

absl::StatusOr<uint64_t> Journal::LastGeneration(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto taken,
                          NumbersIn(directory, {kGenerationPrefix, kJournalPrefix}));
  return taken.empty() ? 0 : taken.back();
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Create(const std::string& directory) {
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory));
  COHORT_ASSIGN_OR_RETURN(const auto taken,
                          NumbersIn(directory, {kGenerationPrefix, kJournalPrefix}));
  if (!taken.empty() && taken.back() == std::numeric_limits<uint64_t>::max()) {
    COHORT_ASSIGN_OR_RETURN(const auto claims, NumbersIn(directory, {kGenerationPrefix}));
    const bool claim = !claims.empty() && claims.back() == taken.back();
    return DataLoss(
        "{}/{}{}: no generation can follow it, and no chief can have taken it. Remove it",
        directory, claim ? kGenerationPrefix : kJournalPrefix, taken.back());
  }
  const uint64_t generation = taken.empty() ? 1 : taken.back() + 1;
  const std::string claim = JoinPath(directory, fmt::format("{}{}", kGenerationPrefix, generation));
  auto claimed = DurableFile::Create(claim, DurableFile::Mode::kExclusive);
  if (absl::IsAlreadyExists(claimed.status())) {
    return AlreadyExists("another chief has just taken generation {} in {}", generation, directory);
  }
  COHORT_RETURN_IF_ERROR(claimed.status());
  COHORT_RETURN_IF_ERROR((*claimed)->Sync());
  COHORT_ASSIGN_OR_RETURN(auto file, DurableFile::Create(JournalPath(directory, generation),
                                                         DurableFile::Mode::kExclusive));
  COHORT_RETURN_IF_ERROR(SyncDirectory(directory));
  COHORT_RETURN_IF_ERROR((*claimed)->Append(kBegun.data(), kBegun.size()));
  COHORT_RETURN_IF_ERROR((*claimed)->Sync());
  COHORT_RETURN_IF_ERROR((*claimed)->Close());
  return std::unique_ptr<Journal>(new Journal(directory, std::move(file), generation));
}

absl::StatusOr<std::vector<v1::JournalRecord>> Journal::ReadAll(const std::string& directory,
                                                                const JournalPosition& held) {
  auto records = ReadFiles(directory, held);
  if (!records.ok()) return WithWayOut(records.status(), directory);
  return records;
}

absl::StatusOr<std::string> Journal::Fingerprint(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto generations, NumbersIn(directory, {kJournalPrefix}));
  std::string fingerprint;
  for (const uint64_t generation : generations) {
    struct stat info = {};
    if (::stat(JournalPath(directory, generation).c_str(), &info) != 0 || info.st_size == 0) {
      continue;
    }
    fingerprint += fmt::format("{}:{}:{}:{} ", generation, info.st_dev, info.st_ino, info.st_size);
  }
  return fingerprint;
}

Journal::Journal(std::string directory, std::unique_ptr<DurableFile> file, uint64_t generation)
    : directory_(std::move(directory)), generation_(generation), file_(std::move(file)) {}

Journal::~Journal() = default;

absl::Status Journal::Sync(DurableFile* file) {
  fsyncs_.fetch_add(1, std::memory_order_relaxed);
  return file->Sync();
}

absl::Status Journal::AppendAll(std::span<const v1::JournalRecord> records) {
  if (file_->bytes() == 0) return StartSegment(records);
  if (broken()) return broken_;
  std::string bytes;
  COHORT_RETURN_IF_ERROR(Encode(records, &bytes).status());
  const uint64_t begin = file_->bytes();
  if (const absl::Status written = file_->Append(bytes.data(), bytes.size()); !written.ok()) {
    // A part of a record in the middle would make everything after it unreadable.
    if (const absl::Status cut = file_->Truncate(begin); !cut.ok()) {
      broken_ = Annotate(cut, "the journal's torn tail stays");
    }
    return written;
  }
  const absl::Status synced = Sync(file_.get());
  // The kernel may have dropped the dirty pages: a second fsync that succeeds would prove nothing.
  // If the disk is full, as some storage finds out only here, what is not durable is cut off and
  // can be written again.
  if (!synced.ok()) {
    broken_ = absl::IsResourceExhausted(synced) ? file_->Truncate(begin) : synced;
  }
  return synced;
}

absl::Status Journal::StartSegment(std::span<const v1::JournalRecord> records) {
  if (broken()) return broken_;
  std::string bytes;
  COHORT_ASSIGN_OR_RETURN(const size_t first, Encode(records, &bytes));
  const std::string path = file_->path();
  const std::string temporary = fmt::format("{}{}", path, kNewSuffix);
  std::unique_ptr<DurableFile> file;
  const auto replace = [&]() -> absl::Status {
    COHORT_ASSIGN_OR_RETURN(file, DurableFile::Create(temporary, DurableFile::Mode::kReplace));
    COHORT_RETURN_IF_ERROR(file->Append(bytes.data(), bytes.size()));
    COHORT_CRASH_POINT("chief.journal.segment_written");
    COHORT_RETURN_IF_ERROR(Sync(file.get()));
    COHORT_CRASH_POINT("chief.journal.segment_durable");
    return file->RenameTo(path);
  };
  if (absl::Status status = replace(); !status.ok()) {
    RemoveFile(temporary).IgnoreError();
    return status;
  }
  file_ = std::move(file);
  base_bytes_ = first;
  // Until the new name is durable, a crash may bring back the old segment, without later records.
  broken_ = SyncDirectory(directory_);
  if (broken()) return broken_;
  COHORT_CRASH_POINT("chief.journal.segment_started");
  if (records.front().has_base()) DeleteOlder();
  return absl::OkStatus();
}

// What cannot be deleted now is deleted with the next segment; no chief reads it.
void Journal::DeleteOlder() const {
  const auto names = ListDirectory(directory_);
  if (!names.ok()) return;
  for (std::string_view name : *names) {
    const std::string path = JoinPath(directory_, name);
    if (name.ends_with(kNewSuffix)) name.remove_suffix(kNewSuffix.size());
    auto generation = NumberOf(name, kJournalPrefix);
    if (const auto claimed = NumberOf(name, kGenerationPrefix)) generation = *claimed + kKeptClaims;
    if (generation.has_value() && *generation < generation_) RemoveFile(path).IgnoreError();
  }
}

}  // namespace cohort
