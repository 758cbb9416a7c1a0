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

constexpr auto kTryEvery = std::chrono::milliseconds(500);  // while the disk is full
constexpr auto kReportEvery = std::chrono::seconds(30);

namespace {

// Returns the record that the newest checkpoint names.
absl::StatusOr<JournalPosition> HeldBy(const std::string& checkpoint_dir) {
  v1::Manifest manifest;
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestReadable(checkpoint_dir, &manifest));
  if (!newest.has_value()) return JournalPosition();
  return JournalPosition{manifest.generation(), manifest.chief().durable_record(),
                         newest->manifest};
}

}  // namespace

absl::StatusOr<JournalContents> ReadJournalOf(const std::string& checkpoint_dir,
                                              const std::string& directory) {
  // Both are read before the records: a chief that is still alive may add to all three.
  COHORT_ASSIGN_OR_RETURN(const JournalPosition held, HeldBy(checkpoint_dir));
  JournalContents contents;
  COHORT_ASSIGN_OR_RETURN(contents.fingerprint, Journal::Fingerprint(directory));
  COHORT_ASSIGN_OR_RETURN(contents.records, Journal::ReadAll(directory, held));
  return contents;
}

JournalThread::JournalThread(std::string checkpoint_dir, std::string directory, Callbacks callbacks,
                             JournalContents contents)
    : checkpoint_dir_(std::move(checkpoint_dir)),
      directory_(std::move(directory)),
      callbacks_(std::move(callbacks)),
      contents_(std::move(contents)),
      state_([this](const std::string& path) { return ManifestOf(path); }),
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
      if (!generation.ok()) generation = TempFailIfDiskFull(generation.status());
      callbacks_.on_generation(std::move(generation));
    }
    if (read) callbacks_.on_recovered(ReadAll());
    if (!records.empty()) Write(records);
  }
}

absl::StatusOr<uint64_t> JournalThread::CreateJournal(uint64_t heard) {
  // Tasks and checkpoints may know generations that this directory does not know, because it is new
  // or was emptied. This chief's generation must be above them. The claim of the highest one
  // also distinguishes a journal whose files are all gone from one that lacks a single file.
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory_));
  COHORT_ASSIGN_OR_RETURN(const uint64_t last, Journal::LastGeneration(directory_));
  COHORT_ASSIGN_OR_RETURN(const JournalPosition held, HeldBy(checkpoint_dir_));
  const uint64_t known = std::max(last, held.generation);
  if (TooFarAhead(heard, known)) {
    return OutOfRange("generation {} is out of range; the newest in {} is {}", heard, directory_,
                      known);
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

absl::StatusOr<Recovered> JournalThread::ReadAll() {
  COHORT_ASSIGN_OR_RETURN(const std::string fingerprint, Journal::Fingerprint(directory_));
  if (fingerprint != contents_.fingerprint) {
    COHORT_ASSIGN_OR_RETURN(contents_, ReadJournalOf(checkpoint_dir_, directory_));
  }
  const std::vector<v1::JournalRecord> records = std::exchange(contents_, {}).records;
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir_));
  if (!records.empty()) {
    for (const v1::JournalRecord& record : records) COHORT_RETURN_IF_ERROR(state_.Apply(record));
    COHORT_ASSIGN_OR_RETURN(Recovered recovered,
                            state_.Recover(entries.empty() ? "" : entries.back().manifest));
    recovered_ = true;
    return recovered;
  }
  recovered_ = true;
  if (entries.empty()) return Recovered();
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(entries.back().manifest));
  return RecoverFromManifest(manifest);
}

// A running chief must not fail because it cannot read a manifest: a later checkpoint replaces it.
absl::StatusOr<v1::Manifest> JournalThread::ManifestOf(const std::string& path) const {
  auto manifest = ReadManifest(path);
  if (!manifest.ok() && recovered_) return NotFound("{}", std::string(manifest.status().message()));
  return manifest;
}

void JournalThread::Write(const std::vector<v1::JournalRecord>& records) {
  const auto own = journal();
  if (own == nullptr) return;
  COHORT_CRASH_POINT("chief.journal.writing");
  std::vector<v1::JournalRecord> first;  // the base, if the first segment starts with one
  if (const auto base = begun_ ? std::nullopt : state_.Base(); base.has_value()) {
    first.push_back(*base);
    first.insert(first.end(), records.begin(), records.end());
  }
  auto report_at = std::chrono::steady_clock::now();
  do {
    const absl::Status status = own->AppendAll(first.empty() ? records : first);
    if (status.ok()) {
      begun_ = true;
      callbacks_.on_durable(records.back().number());
      Follow(records, own.get());
      return;
    }
    const bool broken = !absl::IsResourceExhausted(status);
    const auto now = std::chrono::steady_clock::now();
    if (broken || now >= report_at) {
      report_at = now + kReportEvery;
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

void JournalThread::Follow(const std::vector<v1::JournalRecord>& records, Journal* own) {
  for (const v1::JournalRecord& record : records) {
    if (state_error_.ok()) state_error_ = state_.Apply(record);
    segment_due_ |= record.has_cut();
  }
  segment_due_ |= own->bytes_after_base() >= kSegmentBytes;
  const auto now = std::chrono::steady_clock::now();
  if (!segment_due_ || now < next_segment_try_) return;
  const absl::Status status = StartSegment(own);
  if (status.ok()) {
    segment_due_ = false;
    return;
  }
  next_segment_try_ = now + kReportEvery;
  if (callbacks_.on_segment_error) callbacks_.on_segment_error(status);
}

absl::Status JournalThread::StartSegment(Journal* own) {
  COHORT_RETURN_IF_ERROR(state_error_);
  const std::optional<v1::JournalRecord> base = state_.Base();
  if (!base.has_value()) {
    return Unavailable("the last rollback's manifest is missing; a later checkpoint replaces it");
  }
  return own->StartSegment({&*base, 1});
}

}  // namespace cohort
