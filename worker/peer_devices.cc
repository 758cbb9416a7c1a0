#include "worker/peer_devices.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/graph/device_name.h"
#include "common/graph/program_proto.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

// Between attempts to reach a worker that is lost.
constexpr Duration kRetryInterval = std::chrono::milliseconds(100);

// Another attempt with the same peer may succeed.
bool MayPass(const absl::Status& status) {
  return !absl::IsUnimplemented(status) && !absl::IsInvalidArgument(status) &&
         !absl::IsFailedPrecondition(status);
}

}  // namespace

// The stream to one worker. Only the step thread uses it.
class PeerDevices::Link : public StreamHandler {
 public:
  Link(PeerDevices* owner, int worker, std::string address)
      : owner_(owner), worker_(worker), address_(std::move(address)) {}

  std::string name() const { return fmt::format("worker:{} ({})", worker_, address_); }

  // Sends the request, again and again while the worker is lost, and waits for its answer.
  absl::Status Call(const Program& program, v1::SegmentRequest* request,
                    v1::SegmentAnswer* answer) {
    std::optional<TimePoint> lost_since;
    bool again = false;
    while (true) {
      COHORT_RETURN_IF_ERROR(Open());
      request->set_sequence(++sequence_);
      answer_ = nullptr;
      closed_.reset();
      if (std::exchange(again, true)) owner_->resends_.fetch_add(1);
      stream_->Send(SerializeToFrame(*request));
      v1::SegmentAnswer received;
      answer_ = &received;
      const TimePoint sent = CompletionLoop::Clock::now();
      COHORT_RETURN_IF_ERROR(WaitUntil([this] { return answer_ == nullptr || closed_.has_value(); },
                                       sent + owner_->options_.timeout));
      const bool answered = std::exchange(answer_, nullptr) == nullptr;
      if (!answered && !closed_.has_value()) {
        stream_->Abort();
        return Lost(DeadlineExceeded("it has not answered"), CompletionLoop::Clock::now() - sent);
      }
      if (answered) {
        incarnation_ = received.incarnation();
        if (!received.needs_program()) {
          *answer = std::move(received);
          return Annotate(StatusFromProto(answer->status()), name());
        }
        ProgramToProto(program, request->mutable_program());
        continue;
      }
      const absl::Status why = *std::exchange(closed_, std::nullopt);
      if (!MayPass(why)) return Refused(why);
      const TimePoint now = CompletionLoop::Clock::now();
      if (!lost_since.has_value())
        owner_->options_.log->Failure(LogLevel::kWarning, "peer_lost", Annotate(why, name()));
      if (!lost_since.has_value()) lost_since = now;
      if (now - *lost_since >= owner_->options_.timeout) return Lost(why, now - *lost_since);
      COHORT_RETURN_IF_ERROR(WaitUntil([] { return false; }, now + kRetryInterval));
    }
  }

  void OnFrame(Frame frame) override {
    if (answer_ == nullptr) return;
    unreadable_ = ParseFromFrame(frame, answer_);
    if (!unreadable_.ok()) return stream_->Abort();
    // Else the answer to a segment that was interrupted.
    if (answer_->sequence() == sequence_) answer_ = nullptr;
  }
  void OnClosed(const absl::Status& status) override {
    stream_ = nullptr;
    closed_ = unreadable_.ok() ? status : unreadable_;
  }

 private:
  absl::Status Open() {
    if (stream_ != nullptr) return absl::OkStatus();
    if (client_ == nullptr) {
      COHORT_ASSIGN_OR_RETURN(
          client_, StreamClient::Create(address_, {.security = owner_->options_.security,
                                                   .task = Task{Role::kWorker, worker_}}));
    }
    stream_ = client_->Open("/cohort.v1.Worker/Segments", this, &owner_->loop_,
                            {.wait_for_ready = false});
    return absl::OkStatus();
  }

  // Errors: Cancelled after Interrupt.
  template <typename Done>
  absl::Status WaitUntil(const Done& done, CompletionLoop::Clock::time_point deadline) {
    bool interrupted = false;
    owner_->loop_.RunUntil(
        [&] {
          interrupted = owner_->interrupted_.exchange(false);
          return interrupted || done();
        },
        deadline);
    if (!interrupted || done()) return absl::OkStatus();
    answer_ = nullptr;
    return Cancelled("the wait for a layer on {} was interrupted", name());
  }

  absl::Status Lost(const absl::Status& why, Duration since) const {
    absl::Status status =
        Unavailable("{}, which runs a layer, has been unreachable for {:.1f} s: {}", name(),
                    ToSeconds(since), std::string_view(why.message().data(), why.message().size()));
    SetFailure(
        &status,
        {.role = "worker", .index = worker_, .incarnation = incarnation_, .retryable = true});
    return status;
  }

  absl::Status Refused(const absl::Status& why) const {
    return FailedPrecondition("{} does not run layers of other workers: {}", name(),
                              std::string_view(why.message().data(), why.message().size()));
  }

  PeerDevices* const owner_;
  const int worker_;
  const std::string address_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;  // null: it is not open
  uint64_t sequence_ = 0;
  uint64_t incarnation_ = 0;             // the process that answered last
  v1::SegmentAnswer* answer_ = nullptr;  // where the answer goes that is waited for
  std::optional<absl::Status> closed_;   // why the stream ended
  absl::Status unreadable_;              // not OK: the peer's answer cannot be parsed
};

class PeerDevices::PeerSegment : public SegmentRunner {
 public:
  PeerSegment(PeerDevices* owner, Link* link, int worker, const std::string& device,
              Segment segment)
      : owner_(owner), link_(link), segment_(std::move(segment)) {
    request_.set_worker(static_cast<uint32_t>(worker));
    request_.set_device(device);
    request_.set_fingerprint(Fingerprint(segment_.program));
    ProgramToProto(segment_.program, request_.mutable_program());
  }

  absl::Status Run(const KernelContext& context) override {
    request_.set_seed(context.random->seed);
    request_.set_place(context.random->place);
    request_.set_ordinal(context.random->ordinal);
    request_.clear_inputs();
    uint64_t sent = 0, received = 0;
    for (size_t i = 0; i < segment_.reads_data.size(); ++i) {
      const ValueView& view = context.in(i);
      v1::SegmentValue* const input = request_.add_inputs();
      input->mutable_dims()->Add(view.dims, view.dims + view.rank);
      if (segment_.reads_data[i]) input->set_data(view.data, BytesOf(view));
      sent += input->data().size();
    }
    v1::SegmentAnswer answer;
    COHORT_RETURN_IF_ERROR(link_->Call(segment_.program, &request_, &answer));
    request_.clear_program();  // the worker has it now
    if (answer.outputs_size() != static_cast<int>(segment_.program.outputs.size())) {
      return Internal("{} answered with {} values of a segment that has {}", link_->name(),
                      answer.outputs_size(), segment_.program.outputs.size());
    }
    for (size_t i = 0; i < segment_.program.outputs.size(); ++i) {
      const std::string& data = answer.outputs(static_cast<int>(i)).data();
      const ValueView& view = context.out(i);
      if (data.size() != BytesOf(view)) {
        return Internal("{} answered with {} bytes for output {} of a segment, which has {}",
                        link_->name(), data.size(), i, BytesOf(view));
      }
      std::memcpy(view.data, data.data(), data.size());
      received += data.size();
    }
    bytes_ = static_cast<int64_t>(sent + received);
    owner_->segments_.fetch_add(1);
    owner_->bytes_sent_.fetch_add(sent);
    owner_->bytes_received_.fetch_add(received);
    return absl::OkStatus();
  }
  int64_t transfer_bytes() const override { return bytes_; }

 private:
  static size_t BytesOf(const ValueView& view) {
    return static_cast<size_t>(view.elements) * SizeOf(view.dtype);
  }

  PeerDevices* const owner_;
  Link* const link_;
  const Segment segment_;
  v1::SegmentRequest request_;
  int64_t bytes_ = 0;
};

PeerDevices::PeerDevices(const Options& options, SegmentDevices* local)
    : options_(options), local_(local) {}

PeerDevices::~PeerDevices() { loop_.Shutdown(); }

std::string PeerDevices::Resolve(const std::string& device) const {
  const auto place = ParseDeviceName(device);  // an error for "": the worker's own device
  const bool own =
      !place.ok() || place->worker == DeviceName::kOwnWorker || place->worker == options_.worker;
  return own ? local_->Resolve(device) : place->ToString();
}

absl::StatusOr<std::unique_ptr<SegmentRunner>> PeerDevices::MakeRunner(const std::string& device,
                                                                       Segment segment) {
  COHORT_ASSIGN_OR_RETURN(const DeviceName place, ParseDeviceName(device));
  if (place.worker == DeviceName::kOwnWorker) {
    return local_->MakeRunner(device, std::move(segment));
  }
  const auto address = options_.addresses.find(place.worker);
  if (address == options_.addresses.end()) {
    return NotFound(
        "the device {} belongs to worker:{}, and TF_CONFIG of worker:{} has no such task", device,
        place.worker, options_.worker);
  }
  std::unique_ptr<Link>& link = links_[place.worker];
  if (link == nullptr) link = std::make_unique<Link>(this, place.worker, address->second);
  return std::make_unique<PeerSegment>(this, link.get(), place.worker, place.device,
                                       std::move(segment));
}

void PeerDevices::Interrupt() {
  interrupted_ = true;
  loop_.Wake();
}

PeerDevices::Counters PeerDevices::counters() const {
  return {segments_.load(), resends_.load(), bytes_sent_.load(), bytes_received_.load()};
}

}  // namespace cohort
