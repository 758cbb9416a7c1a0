#include "chief/api/journal_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"

namespace cohort {

constexpr auto kTryEvery = std::chrono::milliseconds(500);  // on a disk that is full
constexpr auto kTellEvery = std::chrono::seconds(30);

namespace {

// What the newest checkpoint says that the journal has.
absl::StatusOr<JournalPosition> HeldBy(const std::string& checkpoint_dir) {
  v1::Manifest manifest;
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestReadable(checkpoint_dir, &manifest));
  if (!newest.has_value()) return JournalPosition();
  return JournalPosition{manifest.generation(), manifest.chief().durable_record(),
                         newest->manifest};
}

}  // namespace

absl::StatusOr<std::vector<v1::JournalRecord>> ReadJournalOf(const std::string& checkpoint_dir,
                                                             const std::string& directory) {
  // Before the records: a chief that lives still may add to both.
  COHORT_ASSIGN_OR_RETURN(const JournalPosition held, HeldBy(checkpoint_dir));
  return Journal::ReadAll(directory, held);
}

JournalThread::JournalThread(std::string checkpoint_dir, std::string directory, Callbacks callbacks)
    : checkpoint_dir_(std::move(checkpoint_dir)),
      directory_(std::move(directory)),
      callbacks_(std::move(callbacks)),
      thread_([this] {
        Run();
        MutexLock lock(&mu_);
        ended_ = true;
        end_reached_.Signal();
      }) {}

JournalThread::~JournalThread() {
  if (!EndUntil(TimePoint())) thread_.join();
}

bool JournalThread::EndUntil(TimePoint deadline) {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.Signal();
    while (!ended_) {
      if (!end_reached_.WaitUntil(&mu_, deadline) && !ended_) return false;
    }
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

void JournalThread::TakeGeneration(uint64_t heard) {
  MutexLock lock(&mu_);
  take_ = true;
  heard_ = heard;
  changed_.Signal();
}

void JournalThread::Read() {
  MutexLock lock(&mu_);
  read_ = true;
  changed_.Signal();
}

void JournalThread::Append(v1::JournalRecord record) {
  MutexLock lock(&mu_);
  queue_.push_back(std::move(record));
  changed_.Signal();
}

std::shared_ptr<Journal> JournalThread::journal() const {
  MutexLock lock(&mu_);
  return journal_;
}

int64_t JournalThread::fsyncs() const {
  const auto own = journal();
  return own == nullptr ? 0 : own->fsyncs();
}

bool JournalThread::Check() {
  if (lost_) return false;
  const absl::Status status = callbacks_.check ? callbacks_.check() : absl::OkStatus();
  if (status.ok()) return true;
  lost_ = true;
  callbacks_.on_lost(status);
  return false;
}

void JournalThread::Run() {
  while (true) {
    bool take = false;
    bool read = false;
    uint64_t heard = 0;
    std::vector<v1::JournalRecord> records;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !take_ && !read_ && !ending_) changed_.Wait(&mu_);
      if (ending_ && queue_.empty() && !take_ && !read_) return;
      take = std::exchange(take_, false);
      read = std::exchange(read_, false);
      heard = heard_;
      records.swap(queue_);
    }
    if (!Check()) continue;
    if (take) {
      auto generation = CreateJournal(heard);
      if (!generation.ok()) generation = RoomMayCome(generation.status());
      callbacks_.on_generation(std::move(generation));
    }
    if (read) callbacks_.on_recovered(ReadAll());
    if (!records.empty()) Write(&records);
  }
}

absl::StatusOr<uint64_t> JournalThread::CreateJournal(uint64_t heard) {
  // Tasks of this job, and its checkpoints, may know of generations that this directory does not
  // (it is another one, or was emptied): this chief's must be above them. A journal whose files are
  // all gone is told by this from one that lacks the file that a checkpoint names.
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory_));
  COHORT_ASSIGN_OR_RETURN(const uint64_t last, Journal::LastGeneration(directory_));
  COHORT_ASSIGN_OR_RETURN(const JournalPosition held, HeldBy(checkpoint_dir_));
  const uint64_t known = std::max(last, held.generation);
  if (TooFarAhead(heard, known)) {
    return OutOfRange("{} has none above {}, and so many chiefs there were not", directory_, known);
  }
  if (const uint64_t above = std::max(heard, known); above > last) {
    const std::string claim = JoinPath(directory_, fmt::format("generation-{}", above));
    auto file = DurableFile::Create(claim, DurableFile::Mode::kExclusive);
    if (file.ok()) {
      COHORT_RETURN_IF_ERROR((*file)->Close());
    } else if (!absl::IsAlreadyExists(file.status())) {
      return file.status();
    }
  }
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal, Journal::Create(directory_));
  const uint64_t generation = journal->generation();
  MutexLock lock(&mu_);
  journal_ = std::move(journal);
  return generation;
}

absl::StatusOr<Recovered> JournalThread::ReadAll() const {
  COHORT_ASSIGN_OR_RETURN(const auto records, ReadJournalOf(checkpoint_dir_, directory_));
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir_));
  if (!records.empty()) {
    return Recover(records, &ReadManifest, entries.empty() ? "" : entries.back().manifest);
  }
  if (entries.empty()) return Recovered();
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(entries.back().manifest));
  return RecoverFromManifest(manifest);
}

void JournalThread::Write(std::vector<v1::JournalRecord>* records) {
  const auto own = journal();
  if (own == nullptr) return;
  COHORT_CRASH_POINT("chief.journal.writing");
  auto tell_at = std::chrono::steady_clock::now();
  do {
    const absl::Status status = own->AppendAll(*records);
    if (status.ok()) {
      callbacks_.on_durable(records->back().number());
      return;
    }
    const bool broken = !absl::IsResourceExhausted(status);
    const auto now = std::chrono::steady_clock::now();
    if (broken || now >= tell_at) {
      tell_at = now + kTellEvery;
      callbacks_.on_error(status, broken);
    }
    if (broken) return;
    MutexLock lock(&mu_);
    const auto again = now + kTryEvery;
    while (!ending_ && changed_.WaitUntil(&mu_, again)) {
    }
    if (ending_) return;
  } while (Check());
}

}  // namespace cohort
