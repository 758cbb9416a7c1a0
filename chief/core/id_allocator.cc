#include "chief/core/id_allocator.h"

#include <algorithm>

#include "common/base/crash_point.h"

namespace cohort {

void IdAllocator::Reset(uint64_t timeline, uint64_t reserved_end) {
  timeline_ = timeline;
  reserved_end_ = durable_end_ = reserved_end;
  next_size_ = kFirstBlock;
  current_.reset();
  ahead_.reset();
  unwritten_.clear();
  given_up_.clear();
}

bool IdAllocator::Fits(const Block& block, const Request& request) {
  if (block.used >= block.what.count() || block.what.by_job() != request.by_job) return false;
  if (!request.by_job) return true;
  const uint64_t place = block.what.first_place() + block.used * block.what.steps();
  return request.place == place && request.places_end == block.what.max_places() &&
         request.steps == std::min<uint64_t>(block.what.steps(), request.places_end - place);
}

IdAllocator::Block IdAllocator::Open(const Request& request) {
  Block block;
  block.what.set_first_id(reserved_end_);
  block.what.set_timeline(timeline_);
  block.what.set_by_job(request.by_job);
  uint64_t count = next_size_;
  if (request.by_job) {
    const uint64_t left = std::max<uint64_t>(request.places_end, request.place + 1) - request.place;
    count = std::min(kBlock, (left + request.steps - 1) / request.steps);
    block.what.set_first_place(request.place);
    block.what.set_steps(request.steps);
    block.what.set_max_places(request.places_end);
  } else {
    next_size_ = std::min(kBlock, next_size_ * 2);
  }
  block.what.set_count(count);
  reserved_end_ += count;
  v1::JournalRecord record;
  *record.mutable_reserve() = block.what;
  unwritten_.push_back({outbox_->Append(std::move(record)), reserved_end_});
  return block;
}

void IdAllocator::ReserveAhead() {
  const v1::ReserveClosures& now = current_->what;
  if (ahead_.has_value() || current_->used * 2 < now.count()) return;
  Request next{.by_job = now.by_job(), .steps = now.steps(), .places_end = now.max_places()};
  next.place = now.first_place() + now.count() * now.steps();
  if (now.by_job() && next.place >= next.places_end) return;
  ahead_ = Open(next);
}

void IdAllocator::GiveUp(std::optional<Block>* block) {
  if (!block->has_value()) return;
  const uint64_t first = (*block)->what.first_id();
  const uint64_t begin = first + (*block)->used;
  const uint64_t end = first + (*block)->what.count();
  if (begin < end) given_up_.emplace_back(begin, end);
  block->reset();
}

uint64_t IdAllocator::Next(const Request& request) {
  if (!current_.has_value() || !Fits(*current_, request)) {
    GiveUp(&current_);
    if (ahead_.has_value() && Fits(*ahead_, request)) {
      current_ = std::exchange(ahead_, std::nullopt);
    } else {
      GiveUp(&ahead_);
      if (!request.by_job) next_size_ = kFirstBlock;
      current_ = Open(request);
    }
  }
  const uint64_t id = current_->what.first_id() + current_->used++;
  ReserveAhead();
  return id;
}

bool IdAllocator::OnJournaled(uint64_t record) {
  bool mine = false;
  while (!unwritten_.empty() && unwritten_.front().record <= record) {
    mine = true;
    durable_end_ = std::max(durable_end_, unwritten_.front().end);
    unwritten_.erase(unwritten_.begin());
  }
  if (mine) COHORT_CRASH_POINT("chief.closures.reserved");
  return mine;
}

}  // namespace cohort
