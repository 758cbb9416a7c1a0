#include "common/checkpoint/journal.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/journal_format.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kGenerationPrefix = "generation-";
constexpr std::string_view kJournalPrefix = "journal-";
constexpr uint64_t kMaxJournalBytes = uint64_t{4} << 30;

// The number behind `prefix`; nullopt of any other name.
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

// What can be done about a journal that is damaged: as Cohort itself does for --fresh, but for the
// checkpoints. Without a part of it alone, ids would be given out a second time.
std::string WayOut(const std::string& directory) {
  return fmt::format(
      "Put the file back as it was, or move all {}* out of {}: the job goes on from its newest "
      "checkpoint then (anew, where it has none)",
      kJournalPrefix, directory);
}

absl::Status WithWayOut(const absl::Status& damage, const std::string& directory) {
  if (!absl::IsDataLoss(damage)) return damage;
  return DataLoss("{}. {}", std::string(damage.message()), WayOut(directory));
}

// Of a generation whose journal is there, durably.
constexpr std::string_view kBegun = "its journal was begun\n";

// Whether a file behind the first that is there is missing. Those before it may have been moved
// away together; the records tell.
absl::Status CheckFiles(const std::string& directory, const std::vector<uint64_t>& journals,
                        const JournalPosition& held) {
  if (journals.empty()) return absl::OkStatus();
  const auto missing = [&](uint64_t generation) {
    return generation > journals.front() &&
           !std::binary_search(journals.begin(), journals.end(), generation);
  };
  if (held.record > 0 && missing(held.generation)) {
    return DataLoss("{} is missing: {} names its record {}",
                    JournalPath(directory, held.generation), held.said_by, held.record);
  }
  COHORT_ASSIGN_OR_RETURN(const auto claims, NumbersIn(directory, {kGenerationPrefix}));
  for (const uint64_t generation : claims) {
    if (!missing(generation)) continue;
    const std::string claim =
        JoinPath(directory, fmt::format("{}{}", kGenerationPrefix, generation));
    COHORT_ASSIGN_OR_RETURN(const auto file, RandomFile::Open(claim));
    if (file->size() == 0) continue;
    // Another chief may have begun it since.
    if (!absl::IsNotFound(RandomFile::Open(JournalPath(directory, generation)).status())) continue;
    return DataLoss("{} is missing: {} says that it was begun", JournalPath(directory, generation),
                    claim);
  }
  return absl::OkStatus();
}

// Whether the file of `held`, whole records `records`, still has it.
absl::Status CheckHeld(const std::string& path, const std::vector<v1::JournalRecord>& records,
                       const JournalPosition& held) {
  const uint64_t last = records.empty() ? 0 : records.back().number();
  if (last >= held.record) return absl::OkStatus();
  return DataLoss(
      "{}: ends {}, but {} was written when record {} was durable: the end of the file is "
      "missing",
      path, last == 0 ? "before its first record" : fmt::format("with record {}", last),
      held.said_by, held.record);
}

// What begins with a higher record than the first must say, before all else, from which checkpoint.
absl::Status CheckBeginning(const std::string& path,
                            const std::vector<v1::JournalRecord>& records) {
  if (records.empty() || records.front().number() == 1) return absl::OkStatus();
  for (const v1::JournalRecord& record : records) {
    if (record.has_rollback() || record.start().from_manifest()) return absl::OkStatus();
    if (record.has_start() || record.has_reserve()) continue;
    return DataLoss("{}: begins with record {}: the files before it are missing", path,
                    records.front().number());
  }
  return absl::OkStatus();
}

// Appends what `path` has to `all`.
absl::Status Join(const std::string& path, std::vector<v1::JournalRecord> records,
                  std::vector<v1::JournalRecord>* all) {
  if (records.empty()) return absl::OkStatus();
  // What the former chief wrote after this one had taken over.
  while (!all->empty() && all->back().number() >= records.front().number()) all->pop_back();
  for (v1::JournalRecord& record : records) {
    if (!all->empty() && record.number() != all->back().number() + 1) {
      return DataLoss("{}: has record {} where {} is due: a part of the journal is missing", path,
                      record.number(), all->back().number() + 1);
    }
    all->push_back(std::move(record));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::JournalRecord>> ReadFiles(const std::string& directory,
                                                         const JournalPosition& held) {
  COHORT_ASSIGN_OR_RETURN(const auto generations, NumbersIn(directory, {kJournalPrefix}));
  COHORT_RETURN_IF_ERROR(CheckFiles(directory, generations, held));
  std::vector<v1::JournalRecord> all;
  for (const uint64_t generation : generations) {
    const std::string path = JournalPath(directory, generation);
    COHORT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxJournalBytes));
    COHORT_ASSIGN_OR_RETURN(auto records, ParseJournal(bytes, path, nullptr));
    if (generation == held.generation) COHORT_RETURN_IF_ERROR(CheckHeld(path, records, held));
    COHORT_RETURN_IF_ERROR(Join(path, std::move(records), &all));
  }
  if (!all.empty()) {
    COHORT_RETURN_IF_ERROR(CheckBeginning(JournalPath(directory, generations.front()), all));
  }
  return all;
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
    return DataLoss("{}/{}{}: no generation can follow it, and no chief has come so far: remove it",
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
  return std::unique_ptr<Journal>(new Journal(std::move(file), generation));
}

absl::StatusOr<std::vector<v1::JournalRecord>> Journal::ReadAll(const std::string& directory,
                                                                const JournalPosition& held) {
  auto records = ReadFiles(directory, held);
  if (!records.ok()) return WithWayOut(records.status(), directory);
  return records;
}

Journal::Journal(std::unique_ptr<DurableFile> file, uint64_t generation)
    : generation_(generation), file_(std::move(file)) {}

Journal::~Journal() = default;

absl::Status Journal::Append(const v1::JournalRecord& record) { return AppendAll({&record, 1}); }

absl::Status Journal::AppendAll(std::span<const v1::JournalRecord> records) {
  std::string bytes;
  for (const v1::JournalRecord& record : records) {
    COHORT_RETURN_IF_ERROR(AppendJournalFrame(record, &bytes));
  }
  MutexLock lock(&mu_);
  COHORT_RETURN_IF_ERROR(Write(bytes));
  return SyncTo(file_->bytes());
}

absl::Status Journal::Write(const std::string& bytes) {
  if (!broken_.ok()) return broken_;
  const uint64_t begin = file_->bytes();
  const absl::Status written = file_->Append(bytes.data(), bytes.size());
  if (written.ok()) return written;
  // A part of a record in the middle would make everything behind it unreadable.
  if (const absl::Status cut = file_->Truncate(begin); !cut.ok()) {
    broken_ = Annotate(cut, "the journal's torn tail stays");
  }
  return written;
}

// The kernel may have dropped the dirty pages: a second fsync that succeeds would prove nothing.
// Where there was no room, as some storage finds only now, what is not durable goes, to be written
// anew.
void Journal::OnSyncFailed(const absl::Status& status) {
  if (!broken_.ok()) return;
  broken_ = absl::IsResourceExhausted(status) ? file_->Truncate(durable_bytes_) : status;
  if (!broken_.ok()) return;
  why_cut_ = status;
  for (Waiting* waiting : waiting_) waiting->cut |= waiting->end > durable_bytes_;
}

absl::Status Journal::SyncTo(uint64_t end) {
  Waiting own{.end = end};
  waiting_.push_back(&own);
  while (broken_.ok() && !own.cut && durable_bytes_ < end) {
    if (syncing_) {
      synced_.Wait(&mu_);
      continue;
    }
    syncing_ = true;
    const uint64_t covered = file_->bytes();
    mu_.Unlock();
    const absl::Status status = file_->Sync();
    mu_.Lock();
    syncing_ = false;
    fsyncs_.fetch_add(1, std::memory_order_relaxed);
    if (status.ok()) {
      durable_bytes_ = std::max(durable_bytes_, covered);
    } else {
      OnSyncFailed(status);
    }
    synced_.SignalAll();
  }
  waiting_.remove(&own);
  if (own.cut) return why_cut_;
  return durable_bytes_ >= end ? absl::OkStatus() : broken_;
}

}  // namespace cohort
