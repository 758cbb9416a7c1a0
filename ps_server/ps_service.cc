#include "ps_server/ps_service.h"

#include <utility>

#include "common/rpc/stream/transport_options.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/data_stream.h"
#include "ps_server/response_chunks.h"

namespace cohort {

// The chief refuses programs beyond these limits, so that a step never breaks its stream.
static_assert(kMaxPullBytes < TransportOptions().max_queued_bytes);
static_assert(kMaxUncutBytes + PushPullDecoder::kMaxHeaderBytes + kResponseChunkBytes <
              TransportOptions().max_frame_bytes);

void PsService::Send(Adoption::Connection connection, const v1::PsToChief& message) {
  chiefs_.Send(connection, message);
}

StreamServer::Methods PsService::Methods(PsCore* core, const Clock* clock) {
  using Connection = Adoption::Connection;
  return {{"/cohort.v1.ParameterServer/Control",
           chiefs_.Serve(
               clock, {.on_message = [core](Connection connection,
                                            v1::ChiefToPs* m) { core->OnMessage(connection, *m); },
                       .on_closed = [core](Connection connection,
                                           ChiefLoss loss) { core->OnClosed(connection, loss); }})},
          {"/cohort.v1.ParameterServer/PushPull",
           [this, core](std::shared_ptr<Stream> stream,
                        CompletionLoop*) -> std::unique_ptr<StreamHandler> {
             const std::string meant = stream->metadata(kPsIncarnationKey);
             if (!meant.empty() && meant != IncarnationText(options_.incarnation)) {
               core->metrics()->refused_streams->Increment();
               return nullptr;
             }
             return std::make_unique<DataStream>(core, &codec_counters_, options_.max_request_bytes,
                                                 &held_, std::move(stream));
           }}};
}

}  // namespace cohort
