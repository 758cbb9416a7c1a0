#include "common/collective/reduce_scatter.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/collective/add_elements.h"

namespace cohort {
namespace {

// Shorter chunks are cheaper in the frame than in a cell.
constexpr uint64_t kSharedBytes = 4096;

uint64_t ChunkElements(DType dtype, uint64_t chunk_bytes) {
  return std::max<uint64_t>(1, chunk_bytes / SizeOf(dtype));
}

}  // namespace

std::string OperationName::ToString() const {
  return fmt::format("step {}, try {}, bucket {}", step, step_try, bucket);
}

void OperationName::Stamp(v1::CollectiveHeader* header) const {
  header->set_step(step);
  header->set_step_try(step_try);
  header->set_bucket(bucket);
}

absl::Status CheckCall(const ReduceScatterCall& call, int ranks) {
  const std::span<const uint64_t> ends = call.part_ends;
  if (ends.size() != static_cast<size_t>(ranks) || !std::is_sorted(ends.begin(), ends.end()) ||
      ends.back() != call.buffer.elements()) {
    return InvalidArgument("{}: the ends of the parts do not divide {} elements among {} ranks",
                           call.name.ToString(), call.buffer.elements(), ranks);
  }
  if (!IsFloating(call.buffer.dtype())) {
    return InvalidArgument("{}: a sum of {}; only float32 and float64 are possible",
                           call.name.ToString(), DTypeName(call.buffer.dtype()));
  }
  return absl::OkStatus();
}

uint32_t SignatureOf(const ReduceScatterCall& call, uint64_t chunk_bytes) {
  uint64_t hash = kFnv1aBasis;
  const auto add = [&hash](uint64_t value) {
    hash = Fnv1a({reinterpret_cast<const char*>(&value), sizeof(value)}, hash);
  };
  add(static_cast<uint64_t>(call.buffer.dtype()));
  add(ChunkElements(call.buffer.dtype(), chunk_bytes));
  for (const uint64_t end : call.part_ends) add(end);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// Credit comes when half of the window is used, so a chunk must fit into the other half.
ReduceScatter::ReduceScatter(const CollectiveGroupOptions& options, PeerStreams* streams,
                             const ReduceScatterCall& call)
    : options_(options),
      streams_(streams),
      part_ends_(call.part_ends.begin(), call.part_ends.end()),
      call_{.name = call.name, .buffer = call.buffer, .part_ends = part_ends_},
      item_(SizeOf(call.buffer.dtype())),
      chunk_elements_(ChunkElements(call.buffer.dtype(), options.chunk_bytes)),
      signature_(SignatureOf(call, options.chunk_bytes)),
      limit_(options.early_bytes),
      window_(std::max(options.window_bytes, 2 * chunk_elements_ * item_)),
      granted_(options.early_bytes) {
  if (options.count() == 1) return;
  // Every part comes but the one that begins here.
  expected_ = (call.buffer.elements() - call_.part(options.left()).size()) * item_;
}

void ReduceScatter::Start() {
  // Before the first chunk, which would keep it waiting.
  if (expected_ > granted_) GiveCredit(window_);
  if (options_.count() == 1) return;
  const ElementRange part = call_.part(options_.left());
  for (uint64_t begin = part.begin; begin < part.end; begin += chunk_elements_) {
    queue_.push_back({begin, std::min(part.end, begin + chunk_elements_)});
  }
  Pump();
}

void ReduceScatter::GiveCredit(uint64_t limit) {
  granted_ = limit;
  v1::CollectiveHeader* header = streams_->NewHeader(v1::CREDIT);
  name().Stamp(header);
  header->set_limit(limit);
  streams_->Send(options_.left());
}

void ReduceScatter::OnCredit(uint64_t limit) {
  limit_ = std::max(limit_, limit);
  Pump();
}

void ReduceScatter::Pump() {
  while (!queue_.empty() && sent_ + BytesOf(queue_.front()) <= limit_) {
    SendChunk(queue_.front());
    sent_ += BytesOf(queue_.front());
    queue_.pop_front();
  }
}

// The elements lie in shared memory if a cell is free there, else in the frame.
void ReduceScatter::SendChunk(const ElementRange& chunk) {
  v1::CollectiveHeader* header = streams_->NewHeader(v1::CHUNK);
  name().Stamp(header);
  header->set_signature(signature_);
  header->set_begin(chunk.begin);
  header->set_count(chunk.size());
  const uint8_t* const elements = call_.buffer.at(chunk.begin);
  const uint64_t bytes = BytesOf(chunk);
  if (bytes >= kSharedBytes && streams_->SendShared(elements, bytes)) return;
  streams_->SendElements(elements, bytes, &loan_);
}

absl::Status ReduceScatter::OnChunk(std::unique_ptr<ReceivedFrame> chunk) {
  const v1::CollectiveHeader& header = chunk->header;
  if (header.signature() != signature_) {
    return InvalidArgument("rank {} and rank {} have started {} with different arguments",
                           chunk->from, options_.rank, name().ToString());
  }
  const ElementRange range = {header.begin(), header.begin() + header.count()};
  const uint64_t bytes = BytesOf(range);
  if (header.shared_begin() != 0 && chunk->pieces[0].size() >= bytes) {
    chunk->pieces[0] = chunk->pieces[0].first(bytes);
  }
  size_t present = 0;
  for (const std::span<const uint8_t>& piece : chunk->pieces) present += piece.size();
  if (chunk->from != options_.left() || range.size() == 0 || present != bytes ||
      received_ + bytes > expected_ || range.end > call_.buffer.elements()) {
    return InvalidArgument(
        "rank {} sent {} bytes as elements [{}, {}) of {}, which the ring does "
        "not expect",
        chunk->from, present, range.begin, range.end, name().ToString());
  }
  received_ += bytes;
  AddPieces(call_.buffer.dtype(), call_.buffer.at(range.begin), chunk->pieces);
  streams_->Release(std::move(chunk));
  const ElementRange own = call_.part(options_.rank);
  if (range.begin < own.begin || range.begin >= own.end) {
    COHORT_CRASH_POINT("replica.ring.chunk_added");
    queue_.push_back(range);
    Pump();
  } else {
    COHORT_CRASH_POINT("replica.ring.chunk_summed");
  }
  if (granted_ < expected_ && received_ + window_ >= granted_ + window_ / 2) {
    GiveCredit(received_ + window_);
  }
  return absl::OkStatus();
}

int ReduceScatter::WaitingFor() const {
  if (received_ < expected_) return options_.left();
  return queue_.empty() ? -1 : options_.right();
}

void ReduceScatter::End(absl::Status status) {
  if (ended()) return;
  status_ = std::move(status);
  queue_.clear();
}

}  // namespace cohort
