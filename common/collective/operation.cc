#include "common/collective/operation.h"

#include <algorithm>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// Shorter chunks are cheaper in the frame than in a slot.
constexpr uint64_t kSharedBytes = 4096;
// Chunks of at most this size are copied when they are sent, so that Wait need not see their release.
constexpr uint64_t kCopiedBytes = uint64_t{64} << 10;

}  // namespace

void Operation::Begin(const CollectiveCall& call, AlgorithmKind algorithm, int rank, int ranks,
                      uint64_t chunk_bytes) {
  key_ = {call.name, call.kind};
  deadline_ = call.deadline;
  status_ = absl::OkStatus();
  shape_.kind = call.kind;
  shape_.rank = rank;
  shape_.ranks = ranks;
  shape_.buffer = call.buffer;
  shape_.chunk_elements = std::max<uint64_t>(1, chunk_bytes / shape_.item());
  shape_.part_ends.assign(call.part_ends.begin(), call.part_ends.end());
  shape_.order.assign(call.order.begin(), call.order.end());
  for (int i = 0; i < ranks && call.order.empty() && shape_.scatters(); ++i) {
    shape_.order.push_back(i);
  }
  shape_.contributions.assign(call.contributions.begin(), call.contributions.end());
  if (shape_.contributions.empty()) shape_.contributions.push_back(call.buffer);
  signature_ = Signature(algorithm);
  switch (algorithm) {
    case AlgorithmKind::kRing:
      algorithm_ = &ring_;
      break;
    case AlgorithmKind::kDirect:
      algorithm_ = &direct_;
      break;
    case AlgorithmKind::kExchange:
      algorithm_ = &exchange_;
      break;
  }
  algorithm_->Prepare(&shape_, this);
  flows_.resize(static_cast<size_t>(ranks));
  queued_ = 0;
  for (int from = 0; from < ranks; ++from) {
    Flow& flow = flows_[static_cast<size_t>(from)];
    flow.queue.clear();
    flow.next = flow.sent = flow.received = flow.consumed = 0;
    flow.in_slots = 0;
    flow.limit = flow.granted = limits_.early_bytes;
    flow.expected = algorithm_->BytesFrom(from);
    // Before the first chunk, which would keep it waiting.
    flow.window = WindowOf(from);
    if (flow.expected > limits_.early_bytes) GiveCredit(from, flow.window);
  }
  algorithm_->Start();
}

// Equal on all ranks that have started the operation with the same arguments.
uint32_t Operation::Signature(AlgorithmKind algorithm) const {
  uint64_t hash = kFnv1aBasis;
  const auto add = [&hash](uint64_t value) {
    hash = Fnv1a({reinterpret_cast<const char*>(&value), sizeof(value)}, hash);
  };
  add(static_cast<uint64_t>(shape_.kind));
  add(static_cast<uint64_t>(shape_.buffer.dtype()));
  add(shape_.buffer.elements());
  add(static_cast<uint64_t>(algorithm));
  add(shape_.chunk_elements);
  for (const int rank : shape_.order) add(static_cast<uint64_t>(rank));
  for (const uint64_t end : shape_.part_ends) add(end);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

v1::CollectiveHeader* Operation::NewHeader(v1::CollectiveFrameKind kind) {
  v1::CollectiveHeader* header = streams_->NewHeader(kind);
  key_.Stamp(header);
  return header;
}

// Credit comes when half of the window is used. A fold uses the chunks of all places of a rank at once,
// so they must fit into the other half.
uint64_t Operation::WindowOf(int from) const {
  const auto places = std::count(shape_.order.begin(), shape_.order.end(), from);
  const uint64_t chunks = static_cast<uint64_t>(std::max<std::ptrdiff_t>(1, places));
  return std::max(limits_.window_bytes, 2 * chunks * shape_.chunk_elements * shape_.item());
}

void Operation::GiveCredit(int to, uint64_t limit) {
  flows_[static_cast<size_t>(to)].granted = limit;
  NewHeader(v1::CREDIT)->set_limit(limit);
  streams_->Send(to);
}

void Operation::OnCredit(int from, uint64_t limit) {
  Flow& flow = flows_[static_cast<size_t>(from)];
  flow.limit = std::max(flow.limit, limit);
  Pump(from);
}

void Operation::Send(int to, const ChunkPlace& what, const uint8_t* elements) {
  flows_[static_cast<size_t>(to)].queue.push_back({what, elements});
  ++queued_;
  Pump(to);
}

void Operation::Pump(int to) {
  Flow& flow = flows_[static_cast<size_t>(to)];
  while (flow.next < flow.queue.size()) {
    const Queued& chunk = flow.queue[flow.next];
    const uint64_t bytes = chunk.what.range.size() * shape_.item();
    if (flow.sent + bytes > flow.limit || !SendNow(to, chunk, bytes)) return;
    flow.sent += bytes;
    ++flow.next;
    --queued_;
  }
  flow.queue.clear();
  flow.next = 0;
}

// Returns false if the chunk waits for a slot.
bool Operation::SendNow(int to, const Queued& chunk, uint64_t bytes) {
  Flow& flow = flows_[static_cast<size_t>(to)];
  const bool share = bytes >= kSharedBytes && streams_->SharesMemoryWith(to);
  if (share && streams_->free_slots(to) == 0 && bytes > kCopiedBytes &&
      (!oldest_ || flow.in_slots > 0)) {
    return false;
  }
  v1::CollectiveHeader* header = NewHeader(v1::CHUNK);
  header->set_signature(signature_);
  header->set_phase(chunk.what.phase == ChunkPhase::kScatter ? v1::SCATTER : v1::GATHER);
  header->set_place(chunk.what.place);
  header->set_begin(chunk.what.range.begin);
  header->set_count(chunk.what.range.size());
  if (share && streams_->SendShared(to, chunk.elements, bytes, ticket)) {
    ++flow.in_slots;
    return true;
  }
  streams_->SendElements(to, chunk.elements, bytes, bytes > kCopiedBytes ? &loan_ : nullptr);
  return true;
}

absl::Status Operation::OnChunk(std::unique_ptr<ReceivedFrame> chunk) {
  const uint64_t bytes = chunk->what.range.size() * shape_.item();
  Flow& flow = flows_[static_cast<size_t>(chunk->from)];
  if (chunk->header.shared_begin() != 0 && chunk->pieces[0].size() >= bytes) {
    chunk->pieces[0] = chunk->pieces[0].first(bytes);
  }
  size_t present = 0;
  for (const PieceFolder::Bytes& piece : chunk->pieces) present += piece.size();
  if (chunk->header.signature() != signature_) {
    return InvalidArgument("rank {} and rank {} have started {} with different arguments",
                           chunk->from, shape_.rank, key_.name.ToString());
  }
  if (present != bytes || flow.received + bytes > flow.expected ||
      chunk->what.range.end > shape_.buffer.elements()) {
    return InvalidArgument("rank {} sent {} bytes as elements [{}, {}) of {}", chunk->from, present,
                           chunk->what.range.begin, chunk->what.range.end, key_.name.ToString());
  }
  flow.received += bytes;
  return algorithm_->OnChunk(std::move(chunk));
}

uint8_t* Operation::PlaceOf(int from, const v1::CollectiveHeader& header, uint64_t bytes) const {
  const Flow& flow = flows_[static_cast<size_t>(from)];
  const uint64_t elements = shape_.buffer.elements();
  if (ended() || header.signature() != signature_ || header.phase() != v1::GATHER ||
      header.begin() > elements || header.count() > elements - header.begin() ||
      bytes != header.count() * shape_.item() || flow.received + bytes > flow.expected) {
    return nullptr;
  }
  ChunkPlace what;
  what.phase = ChunkPhase::kGather;
  what.range = {header.begin(), header.begin() + header.count()};
  return algorithm_->IsFinal(from, what) ? shape_.buffer.at(header.begin()) : nullptr;
}

void Operation::Consumed(std::unique_ptr<Chunk> chunk) {
  const int from = chunk->from;
  Flow& flow = flows_[static_cast<size_t>(from)];
  flow.consumed += chunk->what.range.size() * shape_.item();
  streams_->Recycle(std::unique_ptr<ReceivedFrame>(static_cast<ReceivedFrame*>(chunk.release())));
  if (!ended() && flow.granted < flow.expected &&
      flow.consumed + flow.window >= flow.granted + flow.window / 2) {
    GiveCredit(from, flow.consumed + flow.window);
  }
}

int Operation::WaitingFor() const {
  const int sender = algorithm_->WaitingFor();
  if (sender >= 0) return sender;
  for (size_t to = 0; to < flows_.size(); ++to) {
    if (flows_[to].next < flows_[to].queue.size()) return static_cast<int>(to);
  }
  return -1;
}

void Operation::End(absl::Status status) {
  if (ended()) return;
  status_ = std::move(status);
  streams_->DropPlaces();
  for (Flow& flow : flows_) {
    flow.queue.clear();
    flow.next = 0;
  }
  queued_ = 0;
  algorithm_->Drop();
}

}  // namespace cohort
