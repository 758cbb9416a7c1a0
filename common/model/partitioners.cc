#include "common/model/partitioners.h"

namespace cohort {
namespace {

struct PartitionerClass {
  ClassSchema schema;
};

Argument Positive(std::string_view name, std::string_view doc) { return Int(name, doc).AtLeast(1); }

Argument Rows() {
  return String(
             "rows",
             "How the shards of an embedding share its rows. hash: each has a row of each group of "
             "neighbors, which is even also if the vocabulary is sorted by frequency. Weights are "
             "the same.")
      .Default("contiguous")
      .OneOf({"contiguous", "hash"});
}

std::vector<PartitionerClass> PartitionerClasses() {
  const Argument planned = Planned(Int("bytes_per_string", "").Default(16));
  return {
      {{"FixedShards",
        {"FixedShardsPartitioner"},
        "The same number of shards for every variable.",
        {Positive("num_shards", "Number of shards."), Rows()}}},
      {{"MinSize",
        {"MinSizePartitioner"},
        "As many shards as have a size of at least min_shard_bytes.",
        {Positive("min_shard_bytes", "Smallest size.").Default(256 << 10),
         Positive("max_shards", "Most shards of a variable.").Default(1), Rows(), planned}}},
      {{"MaxSize",
        {"MaxSizePartitioner"},
        "As few shards as have a size of at most max_shard_bytes.",
        {Positive("max_shard_bytes", "Largest size."),
         Positive("max_shards", "Most shards of a variable; none: without limit.").Optional(),
         Rows(), planned}}},
  };
}

}  // namespace

const SchemaSet& PartitionerSchemas() {
  static const auto& partitioners = *new ClassRegistry<PartitionerClass>(
      "partitioner", SchemaSet::Spelling::kExact, "", PartitionerClasses());
  return partitioners;
}

v1::PartitionerSpec MakePartitioner(const v1::ClassConfig& config) {
  v1::PartitionerSpec spec;
  spec.set_class_name(config.class_name());
  for (const auto& [name, value] : config.config()) {
    const auto* field = spec.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && value.has_s()) spec.GetReflection()->SetString(&spec, field, value.s());
    if (field == nullptr || !value.has_i()) continue;  // bytes_per_string, and what is none
    spec.GetReflection()->SetUInt64(&spec, field, static_cast<uint64_t>(value.i()));
  }
  return spec;
}

}  // namespace cohort
