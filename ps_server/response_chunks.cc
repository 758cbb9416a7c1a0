#include "ps_server/response_chunks.h"

#include <memory>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// The bytes that travel.
size_t BytesOf(const PayloadSlice& slice) { return slice.lent ? 0 : slice.bytes; }

// A result without its entries.
void CopyResult(const v1::PullResult& from, v1::PullResult* to) {
  to->set_tablet(from.tablet());
  to->set_status(from.status());
  to->set_version(from.version());
  to->set_timeline(from.timeline());
  to->set_term(from.term());
  to->set_message(from.message());
}

}  // namespace

void ForEachChunk(
    v1::PushPullResponseHeader* header, std::span<PayloadSlice> payload, size_t max_bytes,
    absl::FunctionRef<void(const v1::PushPullResponseHeader&, std::span<PayloadSlice>)> send) {
  size_t total = 0;
  for (const PayloadSlice& slice : payload) total += BytesOf(slice);
  if (total <= max_bytes) {
    send(*header, payload);
    return;
  }
  // On the header's arena, if the header has one.
  google::protobuf::Arena* const arena = header->GetArena();
  std::unique_ptr<v1::PushPullResponseHeader> owned;
  auto* const made = google::protobuf::Arena::CreateMessage<v1::PushPullResponseHeader>(arena);
  if (arena == nullptr) owned.reset(made);
  v1::PushPullResponseHeader& chunk = *made;
  const auto begin_chunk = [&] {
    chunk.Clear();
    chunk.set_sequence(header->sequence());
    chunk.set_generation(header->generation());
  };
  begin_chunk();
  chunk.mutable_pushes()->Swap(header->mutable_pushes());
  size_t first = 0;
  size_t next = 0;
  size_t bytes = 0;
  for (const v1::PullResult& result : header->pulls()) {
    v1::PullResult* out = chunk.add_pulls();
    CopyResult(result, out);
    for (const v1::PulledEntry& entry : result.entries()) {
      if (next > first && bytes + BytesOf(payload[next]) > max_bytes) {
        chunk.set_more(true);
        send(chunk, payload.subspan(first, next - first));
        begin_chunk();
        out = chunk.add_pulls();
        CopyResult(result, out);
        first = next;
        bytes = 0;
      }
      *out->add_entries() = entry;
      bytes += BytesOf(payload[next++]);
    }
  }
  send(chunk, payload.subspan(first));
}

}  // namespace cohort
