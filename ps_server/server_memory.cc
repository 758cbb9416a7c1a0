#include "ps_server/server_memory.h"

#include <algorithm>

#include "ps_server/unsent_answers.h"

namespace cohort {

ServerMemory::ServerMemory(uint64_t limit, uint64_t pool, uint64_t least_room)
    : limit_(limit),
      pool_(pool),
      least_room_(least_room),
      answers_(std::make_shared<UnsentAnswers>()) {}
ServerMemory::~ServerMemory() = default;

uint64_t ServerMemory::limit() const {
  uint64_t all = limit_;
  if (pool_ > 0) all = std::min(all, pool_ / servers_.load(std::memory_order_relaxed));
  return all - std::min(all / 4, kUncounted);
}

uint64_t ServerMemory::room() const {
  const uint64_t limit = this->limit();
  if (limit == 0) return std::max(kUnknownRoom, least_room_);
  const uint64_t values = this->values();
  return std::max(limit > values ? limit - values : 0, least_room_);
}

uint64_t ServerMemory::most_superseded() const {
  return std::min(room() / 8, std::max(values() / 8, least_room_ / 8));
}

bool ServerMemory::Note(uint64_t held, uint64_t early, uint64_t superseded) {
  const uint64_t used = held + early + superseded + answers_->bytes();
  used_.store(used, std::memory_order_relaxed);
  const bool was = short_of_memory();
  const bool now = used >= room() / 10 * (was ? 7 : 8);
  short_.store(now, std::memory_order_relaxed);
  return was != now;
}

}  // namespace cohort
