#include "common/checkpoint/journal.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/directory_lock.h"
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
  return DataLoss("{}. {}", std::string(damage.message()), WayOut(directory));
}

}  // namespace

absl::Status JournalSink::AppendAll(std::span<const v1::JournalRecord> records) {
  for (const v1::JournalRecord& record : records) COHORT_RETURN_IF_ERROR(Append(record));
  return absl::OkStatus();
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
  COHORT_RETURN_IF_ERROR((*claimed)->Close());
  COHORT_ASSIGN_OR_RETURN(auto file, DurableFile::Create(JournalPath(directory, generation),
                                                         DurableFile::Mode::kExclusive));
  COHORT_RETURN_IF_ERROR(SyncDirectory(directory));
  return std::unique_ptr<Journal>(new Journal(std::move(file), generation));
}

absl::StatusOr<std::vector<v1::JournalRecord>> Journal::ReadAll(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto generations, NumbersIn(directory, {kJournalPrefix}));
  std::vector<v1::JournalRecord> all;
  for (const uint64_t generation : generations) {
    const std::string path = JournalPath(directory, generation);
    COHORT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxJournalBytes));
    auto parsed = ParseJournal(bytes, path, nullptr);
    if (!parsed.ok()) return WithWayOut(parsed.status(), directory);
    std::vector<v1::JournalRecord> records = *std::move(parsed);
    if (records.empty()) continue;
    // What the former chief wrote after this one had taken over.
    while (!all.empty() && all.back().number() >= records.front().number()) all.pop_back();
    for (v1::JournalRecord& record : records) {
      if (!all.empty() && record.number() != all.back().number() + 1) {
        return WithWayOut(
            DataLoss("{}: has record {} where {} is due: a part of the journal is missing", path,
                     record.number(), all.back().number() + 1),
            directory);
      }
      all.push_back(std::move(record));
    }
  }
  return all;
}

Journal::Journal(std::unique_ptr<DurableFile> file, uint64_t generation)
    : generation_(generation), file_(std::move(file)) {}

Journal::~Journal() = default;

absl::Status Journal::Check(const std::string& checkpoint_dir) const {
  const Named named = file_->NamedNow();
  if (named == Named::kNoAnswer) return absl::OkStatus();
  if (named != Named::kIt) return DirectoryGone(checkpoint_dir, path(), named);
  MutexLock lock(&mu_);
  // Of one that is broken the length is not known; its next Append says so.
  if (!broken_.ok() || file_->Whole()) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition("{} was emptied, cut or written to by another while the job ran: it has "
                         "not the {} bytes that this chief has written. {}. Only "
                         "then start the chief again",
                         path(), file_->bytes(), WayOut(path().substr(0, path().rfind('/')))),
      ExitCode::kIo);
}

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
