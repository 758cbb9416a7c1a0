#include "chief/core/reader_positions.h"

#include <algorithm>

namespace cohort {

ReaderPositions::Readers& ReaderPositions::Of(std::string_view resource) {
  const auto found = readers_.find(resource);
  if (found != readers_.end()) return found->second;
  return readers_.emplace(resource, Readers()).first->second;
}

void ReaderPositions::Add(const Protos& positions) {
  for (const v1::ReaderPositions& resource : positions) {
    Readers& readers = Of(resource.resource());
    const int known = std::min(resource.workers_size(), resource.batches_size());
    for (int i = 0; i < known; ++i) {
      Position& position = readers[resource.workers(i)];
      position.batches = std::max(position.batches, resource.batches(i));
    }
  }
}

bool ReaderPositions::Raise(std::string_view resource, uint32_t worker, uint64_t batches) {
  Position& position = Of(resource)[worker];
  if (batches <= position.batches) return false;
  position = {.batches = batches, .news = true};
  return true;
}

uint64_t ReaderPositions::Of(std::string_view resource, uint32_t worker) const {
  const auto found = readers_.find(resource);
  if (found == readers_.end()) return 0;
  const auto position = found->second.find(worker);
  return position == found->second.end() ? 0 : position->second.batches;
}

void ReaderPositions::Collect(bool only_news, Protos* out) const {
  for (const auto& [name, readers] : readers_) {
    v1::ReaderPositions* resource = nullptr;
    for (const auto& [worker, position] : readers) {
      if (position.batches == 0 || (only_news && !position.news)) continue;
      if (resource == nullptr) {
        resource = out->Add();
        resource->set_resource(name);
      }
      resource->add_workers(worker);
      resource->add_batches(position.batches);
    }
  }
}

void ReaderPositions::TakeNews(Protos* out) {
  Collect(/*only_news=*/true, out);
  for (auto& [name, readers] : readers_) {
    for (auto& [worker, position] : readers) position.news = false;
  }
}

}  // namespace cohort
