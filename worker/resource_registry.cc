#include "worker/resource_registry.h"

#include <algorithm>
#include <utility>

#include "common/base/stable_bytes.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

void FillReader(const v1::CreateResource& made, uint64_t read, v1::ReaderPosition* out) {
  out->set_resource(made.name());
  out->set_timeline(made.timeline());
  out->set_batches(read);
}

// Compares all fields but the position at which the reader should begin, which `wanted` keeps. A
// vocabulary may be large.
bool IsSame(const v1::CreateResource& made, v1::CreateResource* wanted) {
  const uint64_t begin = wanted->begin();
  wanted->set_begin(made.begin());
  const bool same =
      made.ByteSizeLong() == wanted->ByteSizeLong() && StableBytes(made) == StableBytes(*wanted);
  wanted->set_begin(begin);
  return same;
}

}  // namespace

bool ResourceRegistry::Request(uint64_t request, v1::CreateResource wanted) {
  Resource& resource = resources_[wanted.name()];
  const bool same = resource.spec != nullptr && IsSame(*resource.spec, &wanted);
  if (same && resource.made) return true;
  resource.request = request;
  if (same) return false;
  resource.made = false;
  resource.read = resource.reported = wanted.begin();
  if (std::find(to_make_.begin(), to_make_.end(), wanted.name()) == to_make_.end()) {
    to_make_.push_back(wanted.name());
  }
  resource.spec = std::make_shared<const v1::CreateResource>(std::move(wanted));
  return false;
}

std::shared_ptr<const v1::CreateResource> ResourceRegistry::TakeRequested() {
  if (to_make_.empty()) return nullptr;
  std::shared_ptr<const v1::CreateResource> spec = resources_[to_make_.front()].spec;
  to_make_.pop_front();
  return spec;
}

std::optional<uint64_t> ResourceRegistry::OnMade(const v1::CreateResource& made, bool ok) {
  const auto it = resources_.find(made.name());
  if (it == resources_.end() || it->second.spec.get() != &made) return std::nullopt;
  it->second.made = ok;
  if (!ok) it->second.spec = nullptr;
  return std::exchange(it->second.request, 0);
}

void ResourceRegistry::MoveReader(const ReadPosition& position) {
  if (position.batches == 0) return;
  const auto it = resources_.find(position.resource);
  if (it == resources_.end() || it->second.spec == nullptr) return;
  if (it->second.spec->timeline() != position.timeline) return;
  it->second.read = std::max(it->second.read, position.batches);
}

void ResourceRegistry::ReportReaders(v1::Results* results) {
  for (auto& [name, resource] : resources_) {
    if (resource.read == resource.reported || resource.spec == nullptr) continue;
    resource.reported = resource.read;
    FillReader(*resource.spec, resource.read, results->add_readers());
  }
}

void ResourceRegistry::FillHello(v1::WorkerHello* hello) const {
  for (const auto& [name, resource] : resources_) {
    if (!resource.made) continue;
    hello->add_resources(name);
    if (resource.spec->visitation() == v1::INDEPENDENT) {
      FillReader(*resource.spec, resource.read, hello->add_readers());
    }
  }
}

void ResourceRegistry::Clear() {
  resources_.clear();
  to_make_.clear();
}

}  // namespace cohort
