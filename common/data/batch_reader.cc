#include <algorithm>
#include <deque>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/data/dataset.h"
#include "common/data/index_stream.h"
#include "common/tensor/philox.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// Returns the bytes of a full batch. Errors: InvalidArgument (no batch size, an unknown feature).
absl::StatusOr<size_t> BatchBytes(const Dataset& dataset, const BatchReader::Options& options) {
  if (options.batch_size == 0) return InvalidArgument("batch_size must be at least 1");
  size_t bytes = 0;
  for (const int feature : options.features) {
    if (feature < 0 || static_cast<size_t>(feature) >= dataset.features().size()) {
      return InvalidArgument("feature {} of a dataset that has {}", feature,
                             dataset.features().size());
    }
    bytes += dataset.features()[static_cast<size_t>(feature)].bytes() * options.batch_size;
  }
  return bytes;
}

// Reads batches by lease, or those of a stream if it has one.
//
// `queue_` holds what will be read, in that order: the announced leases, or the next batches of the
// stream. The thread makes the first `prefetch` of them. Their states:
//
//   kAnnounced --(thread takes it)--> kMaking --(thread is done)--> kReady --(read)--> gone
//        `--(it is read first: the consumer makes it itself)--> gone
class Reader : public BatchReader {
 public:
  // `random_key`: of the random transforms of this reader's records.
  Reader(std::shared_ptr<const Dataset> dataset, const Options& options, size_t batch_bytes,
         uint64_t random_key, const EpochOrder& order, std::unique_ptr<IndexStream> stream)
      : dataset_(std::move(dataset)),
        options_(options),
        random_key_(random_key),
        order_(order),
        stream_(std::move(stream)) {
    const bool computes = dataset_->computes_records();
    if (options.threads > 1 && computes) {
      helpers_ = std::make_unique<ThreadPool>(options.threads, "records");
    }
    if (options.prefetch > 0 && (batch_bytes > options.inline_bytes || computes)) {
      thread_ = std::thread([this] { Run(); });
    }
  }

  ~Reader() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
    }
    wake_producer_.Signal();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Next(Batch* batch) override;
  void Announce(uint64_t epoch, uint64_t begin, uint64_t end) override;
  absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) override;

 private:
  enum class State { kAnnounced, kMaking, kReady };
  // Positions of an epoch. A batch of a stream has only the epoch.
  struct Lease {
    uint64_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool operator==(const Lease&) const = default;
  };
  struct Entry {
    Lease lease;
    std::vector<uint64_t> records;  // those of a lease are set when its batch is made
    State state = State::kAnnounced;
    Batch batch;
    absl::Status status;
  };

  absl::Status Check(const Lease& lease) const;
  // Gathers the records of an epoch. Reuses the memory of `batch` if it can.
  absl::Status Gather(uint64_t epoch, std::span<const uint64_t> records, Batch* batch) const;
  absl::Status MakeLease(const Lease& lease, std::vector<uint64_t>* records, Batch* batch) const {
    order_.Records(lease.epoch, lease.begin, lease.end, records);
    return Gather(lease.epoch, *records, batch);
  }
  absl::Status Make(Entry* entry, Batch* batch) const {
    if (stream_ == nullptr) return MakeLease(entry->lease, &entry->records, batch);
    return Gather(entry->lease.epoch, entry->records, batch);
  }
  void Run();
  void Push(std::shared_ptr<Entry> entry);
  // Reads the batch of an entry that was taken from the queue.
  absl::Status Finish(Entry* entry, Batch* batch);
  // Returns the first entry that the thread is to make; null if there is none.
  std::shared_ptr<Entry> NextToMake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the entry of a lease and those before it from the queue. Returns null if it is not in
  // the queue.
  std::shared_ptr<Entry> TakeEntry(const Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<const Dataset> dataset_;
  const Options options_;
  const uint64_t random_key_;
  const EpochOrder order_;
  std::unique_ptr<ThreadPool> helpers_;  // null: a batch is made by one thread

  // Used only by the consumer.
  const std::unique_ptr<IndexStream> stream_;  // null: batches are read by lease
  std::vector<uint64_t> records_;

  Mutex mu_;
  CondVar wake_producer_;
  CondVar made_;
  std::deque<std::shared_ptr<Entry>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Batch> used_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: it uses all of the above
};

absl::Status Reader::Check(const Lease& lease) const {
  if (stream_ != nullptr) {
    return FailedPrecondition("this dataset is read independently, not by lease");
  }
  if (lease.begin >= lease.end || lease.end > order_.records()) {
    return InvalidArgument("the lease [{}, {}) does not lie in an epoch of {} records", lease.begin,
                           lease.end, order_.records());
  }
  return absl::OkStatus();
}

absl::Status Reader::Gather(uint64_t epoch, std::span<const uint64_t> records, Batch* batch) const {
  batch->records = static_cast<int64_t>(records.size());
  Dataset::GatherOptions options;
  options.training = options_.training;
  if (options.training) options.random_key = PhiloxMix(random_key_, epoch);
  options.helpers = helpers_.get();
  return dataset_->Gather(records, options_.features, options, &batch->tensors);
}

void Reader::Push(std::shared_ptr<Entry> entry) {
  bool wake = false;
  {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(entry));
    wake = queue_.size() <= options_.prefetch;
  }
  if (wake) wake_producer_.Signal();
}

void Reader::Announce(uint64_t epoch, uint64_t begin, uint64_t end) {
  const Lease lease = {epoch, begin, end};
  if (!thread_.joinable() || !Check(lease).ok()) return;  // Read reports the error
  auto entry = std::make_shared<Entry>();
  entry->lease = lease;
  Push(std::move(entry));
}

std::shared_ptr<Reader::Entry> Reader::TakeEntry(const Lease& lease) {
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

absl::Status Reader::Finish(Entry* entry, Batch* batch) {
  bool ready = false;
  {
    MutexLock lock(&mu_);
    while (entry->state == State::kMaking) made_.Wait(&mu_);
    ready = entry->state == State::kReady;
    if (ready) {
      if (!batch->tensors.empty()) used_.push_back(std::move(*batch));
      *batch = std::move(entry->batch);
    }
  }
  wake_producer_.Signal();
  // The thread has not started another one. Waiting for it would take longer.
  return ready ? entry->status : Make(entry, batch);
}

absl::Status Reader::Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) {
  const Lease lease = {epoch, begin, end};
  COHORT_RETURN_IF_ERROR(Check(lease));
  std::shared_ptr<Entry> entry;
  if (thread_.joinable()) {
    MutexLock lock(&mu_);
    entry = TakeEntry(lease);
  }
  return entry == nullptr ? MakeLease(lease, &records_, batch) : Finish(entry.get(), batch);
}

absl::Status Reader::Next(Batch* batch) {
  if (stream_ == nullptr) {
    return FailedPrecondition("this dataset is read by lease, not independently");
  }
  const auto at_end = [] { return OutOfRange("the dataset is at its end"); };
  if (!thread_.joinable()) {
    if (!stream_->Next(&records_)) return at_end();
    return Gather(stream_->epoch(), records_, batch);
  }
  size_t queued = 0;
  {
    MutexLock lock(&mu_);
    queued = queue_.size();
  }
  for (; queued <= options_.prefetch; ++queued) {
    auto entry = std::make_shared<Entry>();
    if (!stream_->Next(&entry->records)) break;
    entry->lease.epoch = stream_->epoch();
    Push(std::move(entry));
  }
  if (queued == 0) return at_end();
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(&mu_);
    entry = std::move(queue_.front());
    queue_.pop_front();
  }
  return Finish(entry.get(), batch);
}

std::shared_ptr<Reader::Entry> Reader::NextToMake() {
  for (size_t i = 0; i < std::min<size_t>(options_.prefetch, queue_.size()); ++i) {
    if (queue_[i]->state == State::kAnnounced) return queue_[i];
  }
  return nullptr;
}

void Reader::Run() {
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
    const absl::Status made = Make(entry.get(), &batch);
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
  COHORT_ASSIGN_OR_RETURN(const size_t bytes, BatchBytes(*dataset, options));
  const EpochOrder order(dataset->num_records(), spec.block_size(), spec.shuffle(), options.seed);
  return std::make_unique<Reader>(std::move(dataset), options, bytes, options.seed, order, nullptr);
}

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Independent(
    std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options) {
  COHORT_ASSIGN_OR_RETURN(const size_t bytes, BatchBytes(*dataset, options));
  IndexStream::Options stream;
  stream.records = dataset->num_records();
  stream.batch_size = options.batch_size;
  stream.shuffle = spec.shuffle();
  stream.shuffle_buffer = spec.shuffle_buffer();
  stream.epochs = spec.repeat();
  stream.drop_remainder = spec.drop_remainder();
  // A worker's copy has its own order and its own random numbers.
  stream.key = PhiloxMix(options.seed, uint64_t{options.worker_index} + 1);
  stream.begin = options.begin;
  if (stream.drop_remainder && stream.records < stream.batch_size) {
    return InvalidArgument("drop_remainder: {} records make no batch of {}", stream.records,
                           stream.batch_size);
  }
  const EpochOrder no_leases(0, 0, false, 0);
  return std::make_unique<Reader>(std::move(dataset), options, bytes, stream.key, no_leases,
                                  std::make_unique<IndexStream>(stream));
}

}  // namespace cohort
