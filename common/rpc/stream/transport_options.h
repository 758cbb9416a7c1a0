#ifndef COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_
#define COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace cohort {

// Limits and tuning of a connection; the same at both ends unless a comment says otherwise.
struct TransportOptions {
  // A longer frame ends its stream with ResourceExhausted, at the sender and at the receiver.
  size_t max_frame_bytes = size_t{256} << 20;
  // On a stream whose ends both join pieces (frame_pieces.h): a frame that is longer than one piece
  // is cut, and has a limit of its own, the most that protobuf can write.
  size_t piece_bytes = size_t{2} << 20;
  size_t max_message_bytes = (size_t{2} << 30) - 1;
  // The most bytes of messages that are not complete, on all streams of a thread.
  size_t max_unfinished_bytes = size_t{4} << 30;
  // The stream of a peer that does not read ends with ResourceExhausted when more bytes are queued.
  size_t max_queued_bytes = size_t{4} << 30;
  // A silent peer is pinged at this interval and is lost after this timeout without an answer: a
  // cut network or a stopped host. (A dead process closes its sockets, which is noticed at once.) A
  // busy thread does not answer, so a server gives its clients more time: a step thread polls only
  // between its steps. A client of busy threads does the same (AwaitBusyServer).
  std::chrono::milliseconds keepalive_interval{5000};
  std::chrono::milliseconds keepalive_timeout{15000};
  std::chrono::milliseconds server_keepalive_timeout{60000};
  // The first and the longest pause between attempts to connect.
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{1000};
  // The time limit of one attempt.
  std::chrono::milliseconds connect_attempt_timeout{5000};
  // At a server: a connection whose handshake takes longer is closed.
  std::chrono::milliseconds handshake_timeout{10000};
  // The most bytes that one read of a socket takes.
  int read_chunk_bytes = 1 << 20;
  // The smallest size of the buffers into which a socket is read. A usual message fits into one or
  // two of them, and the buffers in use stay in a core's cache.
  int read_buffer_bytes = 512 << 10;
  // Bytes of one stream that this end is ready to receive before a handler wants them, and the
  // longest HTTP/2 frame that it asks the peer for. 0: gRPC decides, from 64 KB and 16 KB on.
  int read_ahead_bytes = 0;
  int http2_frame_bytes = 0;

  // For a client of a server whose threads may all be busy with applies: gives the server as much
  // time as a server gives its clients.
  void AwaitBusyServer() { keepalive_timeout = server_keepalive_timeout; }
  // For an end that sends references to values in its memory, of which it has as many bytes: one
  // message of many frames may have all of them.
  void QueueUpTo(size_t bytes) { max_queued_bytes = std::max(max_queued_bytes, bytes); }
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_TRANSPORT_OPTIONS_H_
