#include "common/collective/nccl_group.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

// Between looks at an operation that is not finished.
constexpr Duration kLook = std::chrono::microseconds(20);

absl::Status FromNccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return Unavailable("{}: {}", call, ncclGetErrorString(result));
}

absl::Status FromCuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return absl::OkStatus();
  return Unavailable("{}: {}", call, cudaGetErrorString(result));
}

absl::Status CheckCall(const CollectiveCall& call, int ranks, int rank) {
  COHORT_RETURN_IF_ERROR(CheckCollectiveCall(call, ranks, rank));
  if (!call.contributions.empty() || !call.order.empty()) {
    return InvalidArgument("{}: nccl needs one contribution per rank and no order",
                           call.name.ToString());
  }
  if (call.kind == CollectiveKind::kAllReduce) return absl::OkStatus();
  const uint64_t rest = call.buffer.elements() % static_cast<uint64_t>(ranks);
  if (rest == 0) return absl::OkStatus();
  return InvalidArgument("{}: nccl needs equal parts, and {} elements have {} parts",
                         call.name.ToString(), call.buffer.elements(), ranks);
}

}  // namespace

class NcclGroup::Impl {
 public:
  explicit Impl(const Options& options) : options_(options) {}
  ~Impl();

  absl::Status Connect();
  absl::StatusOr<Ticket> Start(const CollectiveCall& call);
  absl::Status Wait(Ticket ticket);
  void Abandon(uint64_t step, uint64_t step_try);
  const Options& options() const { return options_; }
  const CollectiveCounters& counters() const { return counters_; }

 private:
  struct Running {
    Ticket ticket;
    OperationName name;
    Duration deadline;
    cudaEvent_t done;
  };

  absl::Status Enqueue(const CollectiveCall& call);
  absl::Status Await(const Running& running);
  void Fail(absl::Status status);

  const Options options_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  absl::Status failed_;
  std::vector<Running> running_;
  std::vector<cudaEvent_t> idle_events_;
  Ticket next_ticket_ = 1;
  CollectiveCounters counters_;
};

absl::Status NcclGroup::Impl::Connect() {
  ncclUniqueId id;
  if (options_.id.size() != sizeof(id) || options_.rank < 0 || options_.rank >= options_.ranks) {
    return InvalidArgument("rank {} of {} with an id of {} bytes is not a rank of an NCCL group",
                           options_.rank, options_.ranks, options_.id.size());
  }
  std::memcpy(&id, options_.id.data(), sizeof(id));
  COHORT_RETURN_IF_ERROR(FromCuda(cudaSetDevice(options_.device), "cudaSetDevice"));
  COHORT_RETURN_IF_ERROR(FromCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                  "cudaStreamCreateWithFlags"));
  return FromNccl(ncclCommInitRank(&comm_, options_.ranks, id, options_.rank), "ncclCommInitRank");
}

NcclGroup::Impl::~Impl() {
  cudaSetDevice(options_.device);
  if (comm_ != nullptr) running_.empty() ? ncclCommDestroy(comm_) : ncclCommAbort(comm_);
  for (const Running& running : running_) cudaEventDestroy(running.done);
  for (cudaEvent_t event : idle_events_) cudaEventDestroy(event);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status NcclGroup::Impl::Enqueue(const CollectiveCall& call) {
  const ncclDataType_t type = call.buffer.dtype() == DType::kFloat32 ? ncclFloat32 : ncclFloat64;
  const size_t elements = call.buffer.elements();
  const size_t part = elements / static_cast<size_t>(options_.ranks);
  void* const all = call.buffer.at(0);
  void* const own = call.buffer.at(part * static_cast<size_t>(options_.rank));
  switch (call.kind) {
    case CollectiveKind::kReduceScatter:
      return FromNccl(ncclReduceScatter(all, own, part, type, ncclSum, comm_, stream_),
                      "ncclReduceScatter");
    case CollectiveKind::kAllGather:
      return FromNccl(ncclAllGather(own, all, part, type, comm_, stream_), "ncclAllGather");
    case CollectiveKind::kAllReduce:
      return FromNccl(ncclAllReduce(all, all, elements, type, ncclSum, comm_, stream_),
                      "ncclAllReduce");
  }
  return InvalidArgument("an unknown kind of operation");
}

absl::StatusOr<Collective::Ticket> NcclGroup::Impl::Start(const CollectiveCall& call) {
  COHORT_RETURN_IF_ERROR(failed_);
  COHORT_RETURN_IF_ERROR(CheckCall(call, options_.ranks, options_.rank));
  COHORT_RETURN_IF_ERROR(FromCuda(cudaSetDevice(options_.device), "cudaSetDevice"));
  if (idle_events_.empty()) {
    cudaEvent_t event = nullptr;
    COHORT_RETURN_IF_ERROR(FromCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                    "cudaEventCreateWithFlags"));
    idle_events_.push_back(event);
    ++counters_.allocations;
  }
  COHORT_RETURN_IF_ERROR(Enqueue(call));
  COHORT_RETURN_IF_ERROR(
      FromCuda(cudaEventRecord(idle_events_.back(), stream_), "cudaEventRecord"));
  running_.push_back({next_ticket_, call.name, call.deadline, idle_events_.back()});
  idle_events_.pop_back();
  ++counters_.operations;
  return next_ticket_++;
}

absl::Status NcclGroup::Impl::Await(const Running& running) {
  const TimePoint deadline = std::chrono::steady_clock::now() + running.deadline;
  while (failed_.ok()) {
    const cudaError_t done = cudaEventQuery(running.done);
    if (done == cudaSuccess) return absl::OkStatus();
    ncclResult_t result = ncclSuccess;
    if (done != cudaErrorNotReady) {
      Fail(FromCuda(done, "cudaEventQuery"));
    } else if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess || result != ncclSuccess) {
      Fail(FromNccl(result, "ncclCommGetAsyncError"));
    } else if (std::chrono::steady_clock::now() > deadline) {
      Fail(
          DeadlineExceeded("{}: not finished after {:.1f} s; NCCL does not report which rank is "
                           "missing",
                           running.name.ToString(), ToSeconds(running.deadline)));
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
  return failed_;
}

absl::Status NcclGroup::Impl::Wait(Ticket ticket) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& one) { return one.ticket == ticket; });
  if (found == running_.end()) return InvalidArgument("no operation has the ticket {}", ticket);
  const Running running = *found;
  const absl::Status status = Await(running);
  running_.erase(std::find_if(running_.begin(), running_.end(),
                              [&](const Running& one) { return one.ticket == ticket; }));
  idle_events_.push_back(running.done);
  return status;
}

// The end of the communicator ends its kernels, so that nothing uses the buffers any more.
void NcclGroup::Impl::Fail(absl::Status status) {
  failed_ = status.ok() ? Unavailable("NCCL has failed") : std::move(status);
  ncclCommAbort(std::exchange(comm_, nullptr));
  cudaStreamSynchronize(stream_);
}

void NcclGroup::Impl::Abandon(uint64_t step, uint64_t step_try) {
  const bool any = std::any_of(running_.begin(), running_.end(), [&](const Running& one) {
    return one.name.step == step && one.name.step_try <= step_try;
  });
  if (any && failed_.ok()) Fail(Cancelled("step {}, try {} was abandoned", step, step_try));
}

absl::StatusOr<std::string> NcclGroup::NewId() {
  ncclUniqueId id;
  COHORT_RETURN_IF_ERROR(FromNccl(ncclGetUniqueId(&id), "ncclGetUniqueId"));
  return std::string(reinterpret_cast<const char*>(&id), sizeof(id));
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Start(const Options& options) {
  auto impl = std::make_unique<Impl>(options);
  COHORT_RETURN_IF_ERROR(impl->Connect());
  return std::unique_ptr<NcclGroup>(new NcclGroup(std::move(impl)));
}

NcclGroup::NcclGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NcclGroup::~NcclGroup() = default;
int NcclGroup::rank() const { return impl_->options().rank; }
int NcclGroup::ranks() const { return impl_->options().ranks; }
absl::StatusOr<Collective::Ticket> NcclGroup::Start(const CollectiveCall& call) {
  return impl_->Start(call);
}
absl::Status NcclGroup::Wait(Ticket ticket) { return impl_->Wait(ticket); }
void NcclGroup::Abandon(uint64_t step, uint64_t step_try) { impl_->Abandon(step, step_try); }
CollectiveCounters NcclGroup::counters() const { return impl_->counters(); }

}  // namespace cohort
