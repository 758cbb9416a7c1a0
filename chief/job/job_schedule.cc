#include "chief/job/job_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace cohort {

uint32_t JobSchedule::StepsAt(uint64_t place) const {
  const uint64_t wanted = std::max<uint32_t>(1, steps_per_closure);
  return static_cast<uint32_t>(std::min(wanted, EpochEndOf(place) - place));
}

std::string JobSchedule::NameOf(uint64_t epoch) const {
  return stream != nullptr ? fmt::format("window {}", epoch)
                           : fmt::format("epoch {}/{}", epoch, epochs);
}

uint64_t JobSchedule::KnownEnd() const {
  if (stream == nullptr) return std::numeric_limits<uint64_t>::max();
  const uint64_t end = stream->end();
  if (end < first_place || (max_steps > 0 && end >= max_steps)) return end;
  const uint64_t window = BeginOf(EpochOf(end));
  const uint64_t whole =
      uint64_t{std::max<uint32_t>(1, steps_per_closure)} * std::max<uint32_t>(1, closures_per_step);
  return window + (end - window) / whole * whole;
}

std::vector<LeaseRange> JobSchedule::LeasesAt(uint64_t place, uint32_t steps) const {
  std::vector<LeaseRange> leases;
  if (!exactly_once) return leases;
  for (uint64_t p = place; p < place + steps; ++p) {
    if (stream != nullptr) {
      leases.push_back(stream->LeaseAt(p));
      continue;
    }
    const uint64_t epoch = EpochOf(p);
    const uint64_t begin = (p - BeginOf(epoch)) * batch_size;
    leases.push_back(
        {.epoch = epoch, .begin = begin, .end = std::min(train_records, begin + batch_size)});
  }
  return leases;
}

std::vector<LeaseRange> JobSchedule::ValidationBatches() const {
  std::vector<LeaseRange> batches;
  const uint64_t most = validation_steps > 0 ? validation_steps : validation_records;
  for (uint64_t begin = 0; begin < validation_records && batches.size() < most;
       begin += batch_size) {
    batches.push_back(
        {.epoch = 0, .begin = begin, .end = std::min(validation_records, begin + batch_size)});
  }
  return batches;
}

bool JobSchedule::ValidatesAfter(uint64_t finished_epochs) const {
  if (!validates()) return false;
  if (!validation_epochs.empty()) {
    return std::find(validation_epochs.begin(), validation_epochs.end(), finished_epochs) !=
               validation_epochs.end() ||
           finished_epochs >= epochs;
  }
  return finished_epochs % validation_every_epochs == 0 || finished_epochs >= epochs;
}

}  // namespace cohort
