#ifndef COHORT_COMMON_RPC_STREAM_GRPC_TUNING_H_
#define COHORT_COMMON_RPC_STREAM_GRPC_TUNING_H_

#include <string>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/rpc/stream/transport_options.h"

namespace grpc {
class ChannelArguments;
class ServerBuilder;
}  // namespace grpc

// Everything that this project sets in gRPC beyond the documented use of its API. What depends on
// the version of gRPC has no effect with another one.
namespace cohort {

// The settings of a connection.
void ApplyTransportOptions(const TransportOptions& options, grpc::ChannelArguments* arguments);
void ApplyTransportOptions(const TransportOptions& options, grpc::ServerBuilder* builder);

struct GrpcTuning {
  // The one for which GRPC_EXPERIMENTS and the executor's override were made.
  static constexpr char kKnownVersion[] = "1.51.";

  std::string version;             // the library that runs
  bool known_version = false;      // it begins with kKnownVersion
  bool executor_override = false;  // polling threads finish what they have begun
  bool tls_override = false;       // the records of TLS are ours (grpc_tls_override.cc)
};

// What holds for this process. Initializes gRPC.
const GrpcTuning& TuningOfGrpc();

// For main(), before any other use of gRPC and after SignalWaiter::Start: gRPC starts threads here,
// and they must not receive the signals. It configures how this process uses gRPC:
//
// - Each completion queue polls its own sockets (GRPC_POLL_STRATEGY=poll, unless the environment
//   sets it). By default any polling thread of the process may take the events of any socket and
//   pass them on. With an idle control thread beside a step thread, every answer would wake both.
// - gRPC's timer polls a connection attempt that no call waits for, every 50 ms
//   (GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS) instead of every 5 s. A task that did not answer
//   once, at its start or after a cut, would otherwise be found only after 5 s.
// - gRPC is initialized once and never shut down.
// - A socket is read into one buffer (read_buffer_bytes) after another instead of many of 64 KiB at
//   a time (GRPC_EXPERIMENTS=-tcp_read_chunks, gRPC 1.51). In the middle of a message that lies in
//   several buffers, gRPC sends a flow-control update, which wakes the peer for nothing.
// - Abseil does not search for lock cycles. With assertions (Debian's build) it searches at each of
//   gRPC's locks, which costs a thirtieth of a step.
// - gRPC does not log that a certificate lacks the name of a host, and logs failed handshakes every
//   ten seconds at most.
// - The allocator, mimalloc, keeps freed large blocks instead of returning them to the system,
//   which doubles the throughput of large frames.
//
// Our daemons also link grpc_executor_override.cc and grpc_tls_override.cc (the library
// cohort_grpc_executor_override). The installed C++ API does not: it replaces no function of gRPC
// in a program that links it.
const GrpcTuning& PrepareTransportProcess();

// Adds the metric cohort_grpc_tuning_info, and logs if polling threads do not finish what they have
// begun. `log` may be null.
void ReportGrpcTuning(MetricsRegistry* metrics, Logger* log);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_GRPC_TUNING_H_
