#ifndef COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_
#define COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_

#include <chrono>
#include <cstddef>

namespace grpc {
class ChannelArguments;
class ServerBuilder;
}  // namespace grpc

namespace cohort {

// Limits and tuning of a connection; the same at both ends, but where it says otherwise.
struct TransportOptions {
  // A longer frame ends its stream with ResourceExhausted, at the sender and at the receiver.
  size_t max_frame_bytes = size_t{256} << 20;
  // A stream whose peer does not read ends with ResourceExhausted when so much is queued.
  size_t max_queued_bytes = size_t{4} << 30;
  // A silent peer is pinged so often, and lost after so long without an answer: a cut network, a
  // stopped host. (A dead process closes its sockets, which is seen at once.) A thread that is busy
  // does not answer, so a server gives its clients longer: a step thread polls only between its
  // steps.
  std::chrono::milliseconds keepalive_interval{5000};
  std::chrono::milliseconds keepalive_timeout{15000};
  std::chrono::milliseconds server_keepalive_timeout{60000};
  // Between attempts to connect: the first pause and the longest.
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{1000};
  // One attempt ends after so long.
  std::chrono::milliseconds connect_attempt_timeout{5000};
  // Bytes that one read of a socket takes at most.
  int read_chunk_bytes = 1 << 20;
  // Bytes of the buffers into which a socket is read, at least: a usual message lies in one or two
  // of them, and those in use stay in a core's cache.
  int read_buffer_bytes = 512 << 10;
  // An end that answers sooner than this, on the average (AnswerTime), starts its next read before
  // it handles the frame at hand; 0: it never does. A read tells the peer how much it may send now,
  // in a write of its own, and so wakes it while its answer is being made: time is saved where the
  // peer has a core to itself, and a core is disturbed for nothing where it has not, or where the
  // answer takes long. Meanwhile a stream may hold one frame more. Each end has its own.
  std::chrono::nanoseconds read_early_below{0};
  // About what it takes to wake a thread on another core and to let it find that there is no answer
  // yet. (A round trip over loopback was measured at 13 us on one core and at 53 across two.)
  static constexpr std::chrono::nanoseconds kWakeUp{50'000};

  // `own_core`: no worker or ps shares a core with another (RoleContext).
  void SetOwnCore(bool own_core) {
    read_early_below = own_core ? kWakeUp : std::chrono::nanoseconds(0);
  }
  bool may_read_early() const { return read_early_below.count() > 0; }
};

void ApplyTransportOptions(const TransportOptions& options, grpc::ChannelArguments* arguments);
void ApplyTransportOptions(const TransportOptions& options, grpc::ServerBuilder* builder);

// For main(), before anything of gRPC, and after SignalWaiter::Start: gRPC starts threads here, and
// they must not get the signals. How this process uses it:
// - Each completion queue polls its own sockets (GRPC_POLL_STRATEGY=poll, unless the environment
//   has one). gRPC's default lets any polling thread of the process take any socket's events and
//   hand them over: with an idle control thread beside a step thread, every answer then wakes both.
// - A connection that is being made while no call waits for it is polled by gRPC's timer, every 50
//   ms (GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS). By default that is every 5 s: a task that was
//   dialled in vain once, at its start or after a cut, would be found only then.
// - gRPC is initialized once and stays.
// - What a polling thread has begun it finishes: where reads and writes meet, gRPC 1.51 hands the
//   rest to a thread of its executor, which costs a fifth of a large step. Without effect with
//   another gRPC, or one that lacks the function: then it returns false.
// - A socket is read into one buffer (read_buffer_bytes) after another, and not into many of 64 KiB
//   at a time (GRPC_EXPERIMENTS=-tcp_read_chunks, of gRPC 1.51). Of a message that lies in several,
//   gRPC tells the peer in its midst that it may send more: in a write of its own, which wakes the
//   peer for nothing.
// - Abseil looks for no cycle of locks. Where it was built with assertions, as Debian's is, it does
//   so at each of gRPC's locks: a thirtieth of a step.
// - The allocator, mimalloc, keeps freed big blocks instead of giving them back to the system,
//   which doubles the throughput of big frames.
bool PrepareTransportProcess();

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_
