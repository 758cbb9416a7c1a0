#include "ps_server/copies/copy_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/tablet/tablet.h"
#include "ps_server/copies/fill_rate.h"
#include "ps_server/copies/state_pieces.h"

namespace cohort {
namespace {

// Bytes of the state that travel to the copy at one time.
constexpr size_t kMostPieceBytes = size_t{8} << 20;
// Beyond as many bytes, answers wait also for a copy that fills: the log must stay bounded.
constexpr size_t kMostFillBytes = size_t{256} << 20;
// A copy with at most as many entries to do is close behind: answers wait for it from then on.
constexpr size_t kCloseBehind = 64;
// An entry with as many bytes is sent while the tablet applies it.
constexpr size_t kLargeBytes = size_t{1} << 20;

BufferRef CopyOf(BufferPool* pool, std::span<const uint8_t> bytes) {
  BufferRef copy = pool->Allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(copy->data(), bytes.data(), bytes.size());
  return copy;
}

BufferRef CopyOfValues(BufferPool* pool, const PushEntryView& entry) {
  if (entry.pieces.empty()) return CopyOf(pool, entry.values);
  BufferRef copy = pool->Allocate(entry.value_bytes());
  size_t at = 0;
  for (const std::span<const uint8_t> piece : entry.pieces) {
    std::memcpy(copy->data() + at, piece.data(), piece.size());
    at += piece.size();
  }
  return copy;
}

void AddEntry(const PushEntryView& view, BufferPool* pool, v1::PushSection* section,
              CopyLogEntry* out) {
  v1::PushEntry* const entry = section->add_entries();
  entry->set_shard(view.shard);
  entry->set_kind(static_cast<v1::PushKind>(view.kind));
  entry->set_summed_elsewhere(view.summed_elsewhere);
  if (view.kind == PushKind::kRecordOnly) return;
  entry->set_sparse(view.sparse);
  entry->set_begin(view.begin);
  entry->set_count(view.count);
  entry->set_momentum(view.momentum);
  if (view.sparse) out->payload.push_back(CopyOf(pool, view.keys));
  out->payload.push_back(CopyOfValues(pool, view));
}

}  // namespace

CopyLog::CopyLog(uint32_t tablet, uint64_t timeline, uint64_t term, bool fills, Options options)
    : tablet_(tablet),
      timeline_(timeline),
      term_(term),
      options_(std::move(options)),
      fills_(fills),
      begun_(!fills) {}

CopyLog::~CopyLog() = default;

void CopyLog::OnBegin(TabletSnapshot state, uint64_t open_step, uint64_t step_try) {
  MutexLock lock(&mu_);
  if (ended_.has_value() || begun_) return;
  begun_ = true;
  auto* const ids = state.cut->mutable_applied()->mutable_applied();
  if (options_.faults.fill_forgets_an_id && !ids->empty()) ids->RemoveLast();
  state_ =
      std::make_unique<StatePieces>(std::move(state), open_step, step_try, close_, options_.pool);
  if (sink_ != nullptr) sink_->FlushSoon();
}

// While answers wait for the copy, the fill may have the whole link.
std::shared_ptr<const CopyLogEntry> CopyLog::NextPiece() {
  FillRate* const rate = bytes_ <= kMostFillBytes ? options_.fill_rate : nullptr;
  if (piece_bytes_ >= kMostPieceBytes || (rate != nullptr && !rate->MaySend())) return nullptr;
  std::shared_ptr<CopyLogEntry> piece = state_->Next();
  piece->entry.set_tablet(tablet_);
  piece->entry.set_timeline(timeline_);
  piece->entry.set_term(term_);
  piece->entry.mutable_state()->set_number(++sent_pieces_);
  pieces_.push_back(piece->bytes);
  piece_bytes_ += piece->bytes;
  if (rate != nullptr) rate->Sent(piece->bytes);
  if (piece->entry.state().has_cut()) state_ = nullptr;  // the last one
  return piece;
}

std::shared_ptr<const CopyLogEntry> CopyLog::Next() {
  if (sink_ == nullptr || !begun_) return nullptr;
  if (state_ != nullptr) return NextPiece();
  return sent_ < entries_.size() ? entries_[sent_++] : nullptr;
}

void CopyLog::Flush() {
  std::shared_ptr<const CopyLogEntry> entry;
  std::shared_ptr<CopySink> sink;
  {
    MutexLock lock(&mu_);
    if (sending_) return;
    entry = Next();
    sink = sink_;
    sending_ = entry != nullptr;
  }
  while (entry != nullptr) {
    sink->Send(entry);
    MutexLock lock(&mu_);
    entry = Next();
    sink = sink_;
    sending_ = entry != nullptr;
  }
}

bool CopyLog::is_partial() const {
  MutexLock lock(&mu_);
  return sent_pieces_ > 0 && (state_ != nullptr || !pieces_.empty());
}

bool CopyLog::is_complete() const {
  MutexLock lock(&mu_);
  return completed_;
}

void CopyLog::OnPush(uint64_t watermark, const PushHeaderView& header,
                     const PushSectionView& view) {
  if (options_.faults.loses_staged && header.step.sync() && header.step.index % 2 == 1) return;
  auto entry = std::make_shared<CopyLogEntry>();
  entry->entry.set_watermark(watermark);
  entry->entry.set_push(true);
  v1::PushPart* const part = entry->push.mutable_push();
  part->mutable_id()->set_closure(header.id.closure);
  part->mutable_id()->set_ordinal(header.id.ordinal);
  part->set_attempt(header.attempt);
  part->set_place(header.place);
  part->set_timeline(header.timeline);
  part->set_weight(header.weight);
  part->set_iteration_offset(header.iteration_offset);
  if (header.step.sync()) header.step.ToProto(part->mutable_step());
  v1::PushSection* const section = part->add_sections();
  section->set_tablet(view.tablet);
  section->set_term(term_);
  section->set_pulled_version(view.pulled_version);
  for (const PushEntryView& each : view.entries)
    AddEntry(each, options_.pool, section, entry.get());
  for (const BufferRef& field : entry->payload) entry->bytes += field->size();
  Append(std::move(entry));
}

void CopyLog::Announce(std::shared_ptr<const v1::CloseStep> close) {
  MutexLock lock(&mu_);
  close_ = std::move(close);
}

void CopyLog::OnClose(uint64_t) {
  auto entry = std::make_shared<CopyLogEntry>();
  {
    MutexLock lock(&mu_);
    *entry->entry.mutable_close() = *close_;
  }
  Append(std::move(entry));
}

void CopyLog::OnAbandon(uint64_t step, uint64_t step_try) {
  auto entry = std::make_shared<CopyLogEntry>();
  entry->entry.mutable_abandon()->set_step(step);
  entry->entry.mutable_abandon()->set_step_try(step_try);
  Append(std::move(entry));
}

void CopyLog::Append(std::shared_ptr<CopyLogEntry> entry) {
  MutexLock lock(&mu_);
  if (ended_.has_value()) return;
  if (options_.faults.fill_misses_entries && state_ != nullptr) return;
  entry->entry.set_tablet(tablet_);
  entry->entry.set_timeline(timeline_);
  entry->entry.set_term(term_);
  entry->entry.set_number(++end_);
  bytes_ += entry->bytes;
  const bool large = !entry->entry.push() || entry->bytes >= kLargeBytes;
  entries_.push_back(std::move(entry));
  if (large && sink_ != nullptr) sink_->FlushSoon();
}

uint64_t CopyLog::end() const {
  MutexLock lock(&mu_);
  return end_;
}

CopyLog::Answer CopyLog::MayAnswer(uint64_t number) const {
  MutexLock lock(&mu_);
  if (number <= acknowledged_ || options_.faults.answers_early) return Answer::kMay;
  if (!ended_.has_value() && fills_ && bytes_ <= kMostFillBytes) return Answer::kMay;
  return ended_.value_or(Answer::kWaits);
}

void CopyLog::OnOpen(std::shared_ptr<CopySink> sink) {
  {
    MutexLock lock(&mu_);
    if (ended_.has_value()) return;
    sink_ = std::move(sink);
    sent_ = 0;
  }
  Flush();
}

void CopyLog::OnClosed() {
  MutexLock lock(&mu_);
  sink_ = nullptr;
}

void CopyLog::OnAck(uint64_t number, uint64_t state) {
  bool complete = false;
  {
    MutexLock lock(&mu_);
    while (!pieces_.empty() && sent_pieces_ - pieces_.size() < state) {
      piece_bytes_ -= pieces_.front();
      pieces_.pop_front();
    }
    if (number > acknowledged_ && number <= end_) acknowledged_ = number;
    while (!entries_.empty() && entries_.front()->entry.number() <= acknowledged_) {
      bytes_ -= entries_.front()->bytes;
      entries_.pop_front();
      if (sent_ > 0) --sent_;
    }
    const bool has_state = begun_ && state_ == nullptr && pieces_.empty();
    if (fills_ && has_state && entries_.size() <= kCloseBehind) {
      fills_ = false;
      complete_at_ = end_ + 1;
    }
    if (complete_at_ > 0 && acknowledged_ + 1 >= complete_at_) {
      complete_at_ = 0;
      complete = completed_ = !ended_.has_value();
    }
  }
  Flush();  // acknowledged pieces make room for others
  if (complete) options_.complete(*this);
}

void CopyLog::End(Answer answer) {
  {
    MutexLock lock(&mu_);
    if (ended_.has_value()) return;
    ended_ = answer;
    sink_ = nullptr;
    entries_.clear();
    sent_ = 0;
    bytes_ = 0;
    state_ = nullptr;
    pieces_.clear();
  }
  options_.ended();
}

bool CopyLog::ended() const {
  MutexLock lock(&mu_);
  return ended_.has_value();
}

bool CopyLog::idle() const {
  MutexLock lock(&mu_);
  // Before it has the state, it does no entries; what is left of the state waits for this end.
  return pieces_.empty() && (state_ != nullptr || entries_.empty());
}

size_t CopyLog::held_bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

}  // namespace cohort
