#include "tests/simulator/world.h"

#include <algorithm>
#include <cmath>

#include "tests/simulator/network.h"

namespace cohort::simulator {

// splitmix64.
uint64_t Chance::Next() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double Chance::Exponential() {
  return -std::log(static_cast<double>(Below(1'000'000) + 1) / 1'000'000);
}

void World::At(int64_t us, Event event) {
  queue_.push({std::max(us, now_us_), next_++, std::move(event)});
}

bool World::Step(int64_t until_us) {
  if (queue_.empty() || queue_.top().us > until_us) return false;
  now_us_ = queue_.top().us;
  Event event = std::move(queue_.top().event);
  queue_.pop();
  ++events;
  event();
  return true;
}

// ------------------------------------------------------------------ Node

Node::Node(World* world, Task task, std::function<std::unique_ptr<Life>(Node*)> start)
    : address(fmt::format("{}{}:1", RoleName(task.role), task.index)),
      number(task.index),
      world_(world),
      task_(task),
      name_(task.ToString()),
      start_(std::move(start)) {}

uint64_t Node::incarnation() const {
  return (static_cast<uint64_t>(task_.role) + 1) * 1'000'000 +
         static_cast<uint64_t>(task_.index) * 10'000 + lives_;
}

void Node::Start() {
  if (alive() || retired_) return;
  ++lives_;
  frozen_until_us_ = 0;
  world_->Trace("{} starts, life {}", name_, lives_);
  life_ = start_(this);
}

void Node::Kill() {
  if (!alive()) return;
  world_->Trace("{} ends", name_);
  // Streams first, so that messages of the destructors are not sent.
  for (const auto& weak : std::exchange(streams, {})) {
    if (const auto stream = weak.lock()) stream->OnDeath(this);
  }
  life_.reset();
  if (on_end) on_end(this);
}

void Node::Exit() {
  After(0, [this] { Kill(); });
}

void Node::Freeze(int64_t us) {
  if (!alive()) return;
  world_->Trace("{} stands still for {} us", name_, us);
  frozen_until_us_ = std::max(frozen_until_us_, world_->now_us() + us);
}

void Node::Run(const std::function<void()>& code) {
  if (!alive()) return;
  try {
    code();
  } catch (const CrashPointHit&) {
    Kill();
  }
}

void Node::After(int64_t us, Event event) {
  world_->After(us, [this, life = lives_, event = std::move(event)]() mutable {
    Deliver(life, std::move(event));
  });
}

void Node::Deliver(uint64_t life, Event event) {
  if (life != lives_ || !alive()) return;
  if (frozen_until_us_ > world_->now_us()) {
    world_->At(frozen_until_us_, [this, life, event = std::move(event)]() mutable {
      Deliver(life, std::move(event));
    });
    return;
  }
  try {
    event();
  } catch (const CrashPointHit&) {
    Kill();
  }
}

}  // namespace cohort::simulator
