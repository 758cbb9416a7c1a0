#include "ps_server/ps_service.h"

#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"
#include "common/placement/message_size.h"
#include "common/rpc/stream/transport_options.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/copies/copy_receiver.h"
#include "ps_server/copies/copy_streams.h"
#include "ps_server/data_stream.h"
#include "ps_server/response_chunks.h"

namespace cohort {

// The chief refuses programs beyond this limit, so that a step never breaks its stream.
static_assert(kMaxUncutBytes + PushPullDecoder::kMaxHeaderBytes + kResponseChunkBytes <
              TransportOptions().max_frame_bytes);

namespace {

// The handler of a stream that is being closed.
class RefusedStream : public StreamHandler {
 public:
  void OnFrame(Frame) override {}
  void OnClosed(const absl::Status&) override {}
};

// A client without the metadata is served: it must make sure itself that its messages are right.
absl::Status CheckClientProtocol(const Stream& stream) {
  const std::string text = stream.metadata(kProtocolVersionKey);
  if (text.empty()) return absl::OkStatus();
  const auto version = ProtocolVersion::Parse(text);
  if (!version.has_value()) {
    return InvalidArgument("the metadata {} is \"{}\", which is not a version such as {}",
                           kProtocolVersionKey, text, kProtocolVersion.ToString());
  }
  return CheckProtocol("the client", *version, "this parameter server");
}

}  // namespace

RequestContext MakeRequestContext(PsCore* core, CodecCounters* counters, HeldBytes* held,
                                  ParkedRequests* parked, Pins* pins) {
  RequestContext context;
  context.data_path = core->data_path();
  context.metrics = core->metrics();
  context.pool = core->pool();
  context.counters = counters;
  context.held = held;
  context.pins = pins;
  context.answers = core->memory()->answers();
  context.execute = [parked](std::unique_ptr<PushPullRequest> request) {
    // It returns this request, or none.
    return std::unique_ptr<PushPullRequest>(
        static_cast<PushPullRequest*>(parked->Execute(std::move(request)).release()));
  };
  return context;
}

void PsService::Send(Adoption::Connection connection, const v1::PsToChief& message) {
  chiefs_.Send(connection, message);
}

StreamServer::Methods PsService::Methods(PsCore* core, const Clock* clock) {
  using Connection = Adoption::Connection;
  parked_ = std::make_unique<ParkedRequests>(core->admission());
  const auto context = std::make_shared<const RequestContext>(
      MakeRequestContext(core, &codec_counters_, &held_, parked_.get(), &pins_));
  return {{kControlMethod,
           chiefs_.Serve(
               clock, {.on_message = [core](Connection connection,
                                            v1::ChiefToPs* m) { core->OnMessage(connection, *m); },
                       .on_closed = [core](Connection connection,
                                           ChiefLoss loss) { core->OnClosed(connection, loss); }})},
          {kPushPullMethod,
           [this, core, context](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return Admit(core, stream, [&]() -> std::unique_ptr<StreamHandler> {
               return std::make_unique<DataStream>(context, stream);
             });
           }},
          {kCopyMethod, [this, core](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return Admit(core, stream, [&]() -> std::unique_ptr<StreamHandler> {
               return std::make_unique<CopyReceiver>(core, &codec_counters_, stream);
             });
           }}};
}

std::unique_ptr<StreamHandler> PsService::Admit(
    PsCore* core, const std::shared_ptr<Stream>& stream,
    absl::FunctionRef<std::unique_ptr<StreamHandler>()> make) const {
  absl::Status protocol = CheckClientProtocol(*stream);
  if (!protocol.ok()) {
    core->metrics()->refused_streams->Increment();
    stream->Close(std::move(protocol));
    return std::make_unique<RefusedStream>();
  }
  const std::string meant = stream->metadata(kPsIncarnationKey);
  if (!meant.empty() && meant != IncarnationText(options_.incarnation)) {
    core->metrics()->refused_streams->Increment();
    return nullptr;
  }
  return make();
}

}  // namespace cohort
