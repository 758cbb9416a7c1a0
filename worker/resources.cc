#include "worker/resources.h"

#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "common/base/fnv1a.h"
#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/data/files/remote_file.h"
#include "common/data/fingerprint.h"
#include "common/schema/class_schema.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

std::pair<size_t, uint64_t> IdOf(const v1::DatasetSpec& spec) {
  const std::string bytes = StableBytes(spec);
  return {bytes.size(), Fnv1a(bytes)};
}

// The files of the cache that addresses of the source stand for. Each host keeps those that it has
// fetched first.
std::vector<std::string> CachedFilesOf(const v1::ClassConfig& source) {
  const Config config(source);
  const std::string digest =
      config.Has("sha256") && !config.IsNone("sha256") ? config.String("sha256") : "";
  std::vector<std::string> files;
  const auto add = [&](const v1::ConfigValue& value) {
    if (!IsRemote(value.s())) return;
    auto path = CachedPathOf(value.s(), digest);
    if (path.ok()) files.push_back(*std::move(path));
  };
  for (const auto& [name, value] : source.config()) {
    if (name == "url") continue;
    add(value);
    for (const v1::ConfigValue& item : value.list().values()) add(item);
  }
  return files;
}

absl::Status CheckData(const Dataset& dataset, const v1::CreateResource& spec,
                       const DataOptions& options) {
  const std::string difference =
      DifferenceOf({dataset.fingerprint(), "here"}, {spec.data(), "at the chief"});
  if (difference.empty()) return absl::OkStatus();
  const std::vector<std::string> cached = CachedFilesOf(spec.dataset().source_class());
  if (!cached.empty()) {
    return InvalidArgument(
        "{}; a task keeps a file that it has fetched, here {}: delete the old ones, so that they "
        "are fetched again, and restart the job",
        difference, fmt::join(cached, ", "));
  }
  return InvalidArgument(
      "{}; give every task the same files (COHORT_DATA_DIR is {} here) and restart the job",
      difference, options.data_dir.empty() ? "not set" : options.data_dir);
}

StreamReader::Lease StreamLeaseOf(const v1::Lease& lease) {
  return {
      .block = lease.epoch(), .begin = lease.begin(), .end = lease.end(), .part = &lease.part()};
}

}  // namespace

// The files of a stream are opened by lease.
void Resources::CreateStream(const v1::CreateResource& spec) {
  BatchReader::Options options;
  options.batch_size = spec.batch_size();
  options.prefetch = spec.dataset().prefetch();
  options.seed = spec.seed();
  options.training = spec.training();
  options.threads = options_.threads;
  Resource resource;
  resource.leased = true;
  resource.stream = std::make_unique<StreamReader>(
      spec.dataset(), std::vector<std::string>(spec.features().begin(), spec.features().end()),
      options, options_);
  resources_[spec.name()] = std::move(resource);
}

absl::Status Resources::Create(const v1::CreateResource& spec) {
  if (spec.visitation() == v1::STREAM) {
    CreateStream(spec);
    return absl::OkStatus();
  }
  const auto create = [&]() -> absl::Status {
    Resource resource;
    resource.opened = IdOf(spec.dataset());
    const auto check = [&] {
      return spec.has_data() ? CheckData(*resource.dataset, spec, options_) : absl::OkStatus();
    };
    if (const auto old = resources_.find(spec.name());
        old != resources_.end() && old->second.opened == resource.opened) {
      resource.dataset = old->second.dataset;
    }
    if (resource.dataset == nullptr || !check().ok()) {  // the files may have been replaced
      COHORT_ASSIGN_OR_RETURN(resource.dataset, Dataset::Open(spec.dataset(), options_));
      COHORT_RETURN_IF_ERROR(check());
    }
    const std::shared_ptr<const Dataset>& dataset = resource.dataset;
    const std::vector<std::string> names(spec.features().begin(), spec.features().end());
    BatchReader::Options options;
    COHORT_ASSIGN_OR_RETURN(options.features, dataset->FindFeatures(names));
    options.batch_size = spec.batch_size();
    options.prefetch = spec.dataset().prefetch();
    options.seed = spec.seed();
    options.worker_index = spec.worker_index();
    options.begin = spec.begin();
    options.training = spec.training();
    options.threads = options_.threads;
    resource.leased = spec.visitation() == v1::EXACTLY_ONCE;
    resource.timeline = spec.timeline();
    resource.read = spec.begin();
    COHORT_ASSIGN_OR_RETURN(resource.reader,
                            resource.leased
                                ? BatchReader::Leased(dataset, spec.dataset(), options)
                                : BatchReader::Independent(dataset, spec.dataset(), options));
    resources_[spec.name()] = std::move(resource);
    return absl::OkStatus();
  };
  return Annotate(create(), fmt::format("resource '{}'", spec.name()));
}

absl::StatusOr<const BatchReader::Batch*> Resources::Next(const std::string& name,
                                                          const v1::Lease* lease,
                                                          ReadPosition* read) {
  const auto it = resources_.find(name);
  if (it == resources_.end()) return NotFound("resource '{}' was not made on this worker", name);
  Resource& resource = it->second;
  if (resource.leased != (lease != nullptr)) {
    return InvalidArgument("resource '{}' is read {} leases", name,
                           resource.leased ? "by" : "without");
  }
  if (resource.batches.size() != pull_ahead_ + 2) resource.batches.resize(pull_ahead_ + 2);
  resource.turn = (resource.turn + 1) % resource.batches.size();
  BatchReader::Batch* batch = &resource.batches[resource.turn];
  if (resource.stream != nullptr) {
    if (!lease->has_part()) return InvalidArgument("resource '{}': a lease names no file", name);
    COHORT_RETURN_IF_ERROR(resource.stream->Read(StreamLeaseOf(*lease), batch));
    return batch;
  }
  if (lease != nullptr) {
    COHORT_RETURN_IF_ERROR(
        resource.reader->Read(lease->epoch(), lease->begin(), lease->end(), batch));
    return batch;
  }
  COHORT_RETURN_IF_ERROR(resource.reader->Next(batch));
  read->timeline = resource.timeline;
  read->batches = ++resource.read;
  return batch;
}

void Resources::Announce(const std::string& name, const v1::Lease& lease) {
  const auto it = resources_.find(name);
  if (it == resources_.end() || !it->second.leased) return;
  if (it->second.stream != nullptr) {
    if (lease.has_part()) it->second.stream->Announce(StreamLeaseOf(lease));
    return;
  }
  it->second.reader->Announce(lease.epoch(), lease.begin(), lease.end());
}

}  // namespace cohort
