#include <algorithm>
#include <deque>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/data/batch_maker.h"
#include "common/data/dataset.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// `queue_` holds the announced leases in the order in which they will be read. The thread makes the
// batches of the first `capacity` leases. The states of a lease:
//
//   kAnnounced --(thread takes it)--> kMaking --(thread is done)--> kReady --(Read)--> gone
//        `--(Read comes first: it makes the batch itself)--> gone
class LeasedReader : public BatchReader {
 public:
  LeasedReader(BatchMaker maker, const EpochOrder& order, const Options& options)
      : maker_(std::move(maker)), order_(order), capacity_(options.prefetch) {
    if (maker_.made_ahead()) thread_ = std::thread([this] { Run(); });
  }

  ~LeasedReader() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
    }
    wake_producer_.Signal();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Next(Batch*) override {
    return FailedPrecondition("this dataset is read by lease, not independently");
  }
  void Announce(uint64_t epoch, uint64_t begin, uint64_t end) override;
  absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) override;

 private:
  enum class State { kAnnounced, kMaking, kReady };
  struct Lease {
    uint64_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool operator==(const Lease&) const = default;
  };
  struct Entry {
    Lease lease;
    State state = State::kAnnounced;
    Batch batch;
    absl::Status status;
  };

  absl::Status Check(const Lease& lease) const;
  absl::Status Make(const Lease& lease, std::vector<uint64_t>* indices, Batch* batch) const {
    order_.Records(lease.epoch, lease.begin, lease.end, indices);
    return maker_.Make(lease.epoch, *indices, batch);
  }
  void Run();
  // Returns the first announced lease within the capacity; null if there is none.
  std::shared_ptr<Entry> NextToMake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the entry of a lease and those before it from the queue. Returns null if it is not in
  // the queue.
  std::shared_ptr<Entry> TakeEntry(const Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const BatchMaker maker_;
  const EpochOrder order_;
  const size_t capacity_;
  std::vector<uint64_t> indices_;  // used only by the consumer

  Mutex mu_;
  CondVar wake_producer_;
  CondVar made_;
  std::deque<std::shared_ptr<Entry>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Batch> used_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: it uses all of the above
};

absl::Status LeasedReader::Check(const Lease& lease) const {
  if (lease.begin >= lease.end || lease.end > order_.records()) {
    return InvalidArgument("the lease [{}, {}) does not lie in an epoch of {} records", lease.begin,
                           lease.end, order_.records());
  }
  return absl::OkStatus();
}

void LeasedReader::Announce(uint64_t epoch, uint64_t begin, uint64_t end) {
  const Lease lease = {epoch, begin, end};
  if (!thread_.joinable() || !Check(lease).ok()) return;  // Read reports the error
  auto entry = std::make_shared<Entry>();
  entry->lease = lease;
  bool wake = false;
  {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(entry));
    wake = queue_.size() <= capacity_;
  }
  if (wake) wake_producer_.Signal();
}

std::shared_ptr<LeasedReader::Entry> LeasedReader::TakeEntry(const Lease& lease) {
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const auto& entry) { return entry->lease == lease; });
  if (it == queue_.end()) return nullptr;
  std::shared_ptr<Entry> entry = *it;
  for (auto skipped = queue_.begin(); skipped != it; ++skipped) {
    if ((*skipped)->state == State::kReady) used_.push_back(std::move((*skipped)->batch));
  }
  queue_.erase(queue_.begin(), it + 1);
  return entry;
}

absl::Status LeasedReader::Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) {
  const Lease lease = {epoch, begin, end};
  COHORT_RETURN_IF_ERROR(Check(lease));
  if (!thread_.joinable()) return Make(lease, &indices_, batch);
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(&mu_);
    entry = TakeEntry(lease);
    if (entry != nullptr) {
      while (entry->state == State::kMaking) made_.Wait(&mu_);
      // The thread has not started this one. Waiting for it would take longer.
      if (entry->state == State::kAnnounced) entry = nullptr;
    }
    if (entry != nullptr && !batch->tensors.empty()) used_.push_back(std::move(*batch));
  }
  wake_producer_.Signal();
  if (entry == nullptr) return Make(lease, &indices_, batch);
  *batch = std::move(entry->batch);
  return entry->status;
}

std::shared_ptr<LeasedReader::Entry> LeasedReader::NextToMake() {
  for (size_t i = 0; i < std::min(capacity_, queue_.size()); ++i) {
    if (queue_[i]->state == State::kAnnounced) return queue_[i];
  }
  return nullptr;
}

void LeasedReader::Run() {
  std::vector<uint64_t> indices;
  while (true) {
    std::shared_ptr<Entry> entry;
    Batch batch;
    {
      MutexLock lock(&mu_);
      while (!stopping_ && (entry = NextToMake()) == nullptr) wake_producer_.Wait(&mu_);
      if (stopping_) return;
      entry->state = State::kMaking;
      if (!used_.empty()) {
        batch = std::move(used_.back());
        used_.pop_back();
      }
    }
    const absl::Status made = Make(entry->lease, &indices, &batch);
    {
      MutexLock lock(&mu_);
      entry->batch = std::move(batch);
      entry->status = made;
      entry->state = State::kReady;
    }
    made_.Signal();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Leased(
    std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options) {
  COHORT_ASSIGN_OR_RETURN(BatchMaker maker,
                          BatchMaker::Create(std::move(dataset), options, options.seed));
  const EpochOrder order(maker.dataset().num_records(), spec.block_size(), spec.shuffle(),
                         options.seed);
  return std::make_unique<LeasedReader>(std::move(maker), order, options);
}

}  // namespace cohort
