#include "worker/segment_service.h"

#include <cstring>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/graph/program_proto.h"
#include "common/rpc/stream/frame.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

// The views of the values of one request, and the memory of its outputs.
class Values {
 public:
  explicit Values(size_t count) : dims_(count), views_(count) {}

  // `data`: of the input, or null for an output, which gets memory.
  absl::Status Set(size_t i, const ValueType& type, Dims dims, const std::string* data) {
    ValueView& view = views_[i];
    bool fits = dims.size() == type.dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) {
      fits = type.dims[d].bounded() ? dims[d] >= 0 && dims[d] <= type.dims[d].size
                                    : dims[d] == type.dims[d].size;
    }
    if (!fits) {
      return InvalidArgument("value {} of a segment is {}, but has the dims {}", i,
                             TypeToString(type), DimsToString(dims));
    }
    dims_[i] = std::move(dims);
    view.dtype = type.dtype;
    view.rank = static_cast<int>(dims_[i].size());
    view.dims = dims_[i].data();
    view.elements = NumElements(dims_[i]);
    const size_t bytes = static_cast<size_t>(view.elements) * SizeOf(view.dtype);
    if (data != nullptr && !data->empty() && data->size() != bytes) {
      return InvalidArgument("value {} of a segment has {} bytes of data, not {}", i, data->size(),
                             bytes);
    }
    // Kernels need aligned memory.
    memory_.push_back(BufferRef::Allocate(bytes));
    view.data = memory_.back()->data();
    if (data != nullptr && !data->empty()) {
      std::memcpy(view.data, data->data(), bytes);
    } else if (data != nullptr) {
      std::memset(view.data, 0, bytes);  // only its dims count
    }
    return absl::OkStatus();
  }
  const ValueView& view(size_t i) const { return views_[i]; }

 private:
  std::vector<Dims> dims_;
  std::vector<ValueView> views_;
  std::vector<BufferRef> memory_;
};

// The dims of a value for these counts of the symbols.
Dims DimsFor(const Program& program, const ValueType& type, const std::vector<int64_t>& counts) {
  Dims dims;
  for (const Dim& dim : type.dims) {
    if (!dim.bounded()) {
      dims.push_back(dim.size);
      continue;
    }
    const auto symbol = static_cast<size_t>(dim.symbol - 1);
    dims.push_back(dim.size / program.symbols[symbol].capacity * counts[symbol]);
  }
  return dims;
}

}  // namespace

class SegmentService::Connection : public StreamHandler {
 public:
  Connection(SegmentService* service, std::shared_ptr<Stream> stream)
      : service_(service), stream_(std::move(stream)) {}

  void OnFrame(Frame frame) override {
    auto request = std::make_shared<v1::SegmentRequest>();
    const absl::Status parsed = ParseFromFrame(frame, request.get());
    if (!parsed.ok()) return stream_->Close(parsed);
    service_->Add({stream_, std::move(request)});
  }
  void OnClosed(const absl::Status&) override { service_->Drop(stream_.get()); }

 private:
  SegmentService* const service_;
  const std::shared_ptr<Stream> stream_;
};

SegmentService::SegmentService(const Options& options, SegmentDevices* devices,
                               MetricsRegistry* registry, Logger* log)
    : options_(options),
      devices_(devices),
      log_(log),
      runs_(registry->AddCounter("cohort_worker_segments_total",
                                 "Parts of layers that ran here for other workers")),
      thread_([this] { ThreadMain(); }) {}

SegmentService::~SegmentService() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

StreamServer::Methods SegmentService::Methods() {
  return {
      {"/cohort.v1.Worker/Segments",
       [this](std::shared_ptr<Stream> stream, CompletionLoop*) -> std::unique_ptr<StreamHandler> {
         return std::make_unique<Connection>(this, std::move(stream));
       }}};
}

void SegmentService::Add(Job job) {
  MutexLock lock(&mu_);
  // A client waits for the newest of its requests only.
  std::erase_if(jobs_, [&job](const Job& old) { return old.stream == job.stream; });
  jobs_.push_back(std::move(job));
  changed_.SignalAll();
}

void SegmentService::Drop(const Stream* stream) {
  MutexLock lock(&mu_);
  std::erase_if(jobs_, [stream](const Job& job) { return job.stream.get() == stream; });
}

void SegmentService::ThreadMain() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mu_);
      while (jobs_.empty() && !stopping_) changed_.Wait(&mu_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    v1::SegmentAnswer answer;
    answer.set_sequence(job.request->sequence());
    answer.set_incarnation(options_.incarnation);
    const absl::Status status = Run(*job.request, &answer);
    if (!status.ok()) log_->Failure(LogLevel::kWarning, "segment_failed", status);
    StatusToProto(status, answer.mutable_status());
    job.stream->Send(SerializeToFrame(answer));
  }
}

absl::StatusOr<SegmentService::Compiled*> SegmentService::Find(const v1::SegmentRequest& request) {
  const std::string key = request.fingerprint() + " " + request.device();
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    if (it->key != key) continue;
    programs_.splice(programs_.begin(), programs_, it);
    return &programs_.front();
  }
  if (!request.has_program()) return nullptr;
  COHORT_ASSIGN_OR_RETURN(Program program, ProgramFromProto(request.program()));
  if (const std::string own = Fingerprint(program); own != request.fingerprint()) {
    return InvalidArgument("the segment sent as {} has the fingerprint {}", request.fingerprint(),
                           own);
  }
  Compiled compiled{.key = key, .program = program, .runner = nullptr};
  COHORT_ASSIGN_OR_RETURN(
      compiled.runner,
      devices_->MakeRunner(request.device(), {.program = std::move(program), .reads_data = {}}));
  log_->Info("segment_compiled", {{"program", compiled.program.name},
                                  {"device", request.device()},
                                  {"fingerprint", request.fingerprint()}});
  programs_.push_front(std::move(compiled));
  if (programs_.size() > options_.programs) programs_.pop_back();
  return &programs_.front();
}

absl::Status SegmentService::Run(const v1::SegmentRequest& request, v1::SegmentAnswer* answer) {
  if (request.worker() != static_cast<uint32_t>(options_.worker)) {
    return FailedPrecondition(
        "a layer for worker:{} came to worker:{}: TF_CONFIG differs between "
        "the workers",
        request.worker(), options_.worker);
  }
  COHORT_ASSIGN_OR_RETURN(Compiled * compiled, Find(request));
  if (compiled == nullptr) {
    answer->set_needs_program(true);
    return absl::OkStatus();
  }
  const Program& program = compiled->program;
  if (request.inputs_size() != static_cast<int>(program.arguments.size())) {
    return InvalidArgument("a segment with {} inputs got {}", program.arguments.size(),
                           request.inputs_size());
  }
  const size_t inputs = program.arguments.size(), outputs = program.outputs.size();
  Values values(inputs + outputs);
  std::vector<int64_t> counts(program.symbols.size(), 0);
  std::vector<const ValueView*> views;
  for (size_t i = 0; i < inputs; ++i) {
    const v1::SegmentValue& given = request.inputs(static_cast<int>(i));
    const ValueType& type = program.type(program.arguments[i].value);
    COHORT_RETURN_IF_ERROR(
        values.Set(i, type, Dims(given.dims().begin(), given.dims().end()), &given.data()));
    for (size_t d = 0; d < type.dims.size(); ++d) {
      if (!type.dims[d].bounded()) continue;
      const auto symbol = static_cast<size_t>(type.dims[d].symbol - 1);
      counts[symbol] =
          given.dims(static_cast<int>(d)) / (type.dims[d].size / program.symbols[symbol].capacity);
    }
    views.push_back(&values.view(i));
  }
  for (size_t i = 0; i < outputs; ++i) {
    const ValueType& type = program.type(program.outputs[i].value);
    COHORT_RETURN_IF_ERROR(
        values.Set(inputs + i, type, DimsFor(program, type, counts), /*data=*/nullptr));
    views.push_back(&values.view(inputs + i));
  }
  const RandomKey key{request.seed(), request.place(), request.ordinal()};
  const KernelContext context{
      .inputs = views.data(), .outputs = views.data() + inputs, .random = &key};
  COHORT_RETURN_IF_ERROR(compiled->runner->Run(context));
  runs_->Increment();
  for (size_t i = 0; i < outputs; ++i) {
    const ValueView& view = values.view(inputs + i);
    v1::SegmentValue* const out = answer->add_outputs();
    out->mutable_dims()->Add(view.dims, view.dims + view.rank);
    out->set_data(view.data, static_cast<size_t>(view.elements) * SizeOf(view.dtype));
  }
  return absl::OkStatus();
}

}  // namespace cohort
