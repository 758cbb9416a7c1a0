#include <algorithm>
#include <deque>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/data/batch_maker.h"
#include "common/data/dataset.h"
#include "common/data/index_stream.h"
#include "common/tensor/philox.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// Batches travel from the thread to the consumer through `ready_`, and return through `used_` so
// that their memory is reused. The consumer takes all ready batches at a time, so that neither side
// wakes up the other for every batch.
class IndependentReader : public BatchReader {
 public:
  IndependentReader(BatchMaker maker, const IndexStream::Options& stream, const Options& options)
      : maker_(std::move(maker)), stream_(stream), capacity_(options.prefetch) {
    if (maker_.made_ahead()) thread_ = std::thread([this] { Run(); });
  }

  ~IndependentReader() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
    }
    wake_producer_.Signal();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Next(Batch* batch) override;
  void Announce(uint64_t, uint64_t, uint64_t) override {}
  absl::Status Read(uint64_t, uint64_t, uint64_t, Batch*) override {
    return FailedPrecondition("this dataset is read independently, not by lease");
  }

 private:
  absl::Status MakeNext(std::vector<uint64_t>* indices, Batch* batch) {
    if (!stream_.Next(indices)) return OutOfRange("the dataset is at its end");
    return maker_.Make(stream_.epoch(), *indices, batch);
  }
  void Run();
  absl::Status TakeReady();

  const BatchMaker maker_;
  IndexStream stream_;  // used by the thread; by the consumer if there is no thread
  const size_t capacity_;

  // Used only by the consumer.
  std::vector<uint64_t> indices_;
  std::deque<Batch> taken_;
  std::vector<Batch> returned_;

  Mutex mu_;
  CondVar wake_producer_;
  CondVar wake_consumer_;
  std::deque<Batch> ready_ ABSL_GUARDED_BY(mu_);
  std::vector<Batch> used_ ABSL_GUARDED_BY(mu_);
  absl::Status end_ ABSL_GUARDED_BY(mu_);  // why there are no more batches
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: it uses all of the above
};

absl::Status IndependentReader::Next(Batch* batch) {
  if (!thread_.joinable()) return MakeNext(&indices_, batch);
  if (taken_.empty()) COHORT_RETURN_IF_ERROR(TakeReady());
  if (!batch->tensors.empty()) returned_.push_back(std::move(*batch));
  *batch = std::move(taken_.front());
  taken_.pop_front();
  return absl::OkStatus();
}

absl::Status IndependentReader::TakeReady() {
  {
    MutexLock lock(&mu_);
    while (ready_.empty() && end_.ok()) wake_consumer_.Wait(&mu_);
    if (ready_.empty()) return end_;
    std::swap(taken_, ready_);
    for (Batch& batch : returned_) used_.push_back(std::move(batch));
    returned_.clear();
  }
  wake_producer_.Signal();
  return absl::OkStatus();
}

void IndependentReader::Run() {
  std::vector<uint64_t> indices;
  while (true) {
    Batch batch;
    {
      MutexLock lock(&mu_);
      while (!stopping_ && ready_.size() >= capacity_) wake_producer_.Wait(&mu_);
      if (stopping_) return;
      if (!used_.empty()) {
        batch = std::move(used_.back());
        used_.pop_back();
      }
    }
    const absl::Status made = MakeNext(&indices, &batch);
    bool first = false;
    {
      MutexLock lock(&mu_);
      if (made.ok()) {
        first = ready_.empty();
        ready_.push_back(std::move(batch));
      } else {
        end_ = made;
      }
    }
    if (first || !made.ok()) wake_consumer_.Signal();
    if (!made.ok()) return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Independent(
    std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options) {
  // A worker's copy has its own order and its own random numbers.
  const uint64_t key = PhiloxMix(options.seed, uint64_t{options.worker_index} + 1);
  COHORT_ASSIGN_OR_RETURN(BatchMaker maker, BatchMaker::Create(std::move(dataset), options, key));
  IndexStream::Options stream;
  stream.records = maker.dataset().num_records();
  stream.batch_size = options.batch_size;
  stream.shuffle = spec.shuffle();
  stream.shuffle_buffer = spec.shuffle_buffer();
  stream.epochs = spec.repeat();
  stream.drop_remainder = spec.drop_remainder();
  stream.key = key;
  stream.begin = options.begin;
  if (stream.drop_remainder && stream.records < stream.batch_size) {
    return InvalidArgument("drop_remainder: {} records make no batch of {}", stream.records,
                           stream.batch_size);
  }
  return std::make_unique<IndependentReader>(std::move(maker), stream, options);
}

}  // namespace cohort
