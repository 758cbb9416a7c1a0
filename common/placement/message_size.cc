#include "common/placement/message_size.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/placement/partitioner.h"
#include "common/placement/shard_plan.h"
#include "common/tensor/dtype.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr uint64_t kKeyBytes = sizeof(int64_t);

// What a step does with one variable.
struct Use {
  uint64_t dense_reads = 0;
  uint64_t dense_pushes = 0;
  std::vector<uint64_t> row_reads;      // capacity of the keys of each
  std::vector<uint64_t> sparse_pushes;  // capacity of the keys of each
};

std::map<std::string_view, Use> UsesByName(const Program& program) {
  std::vector<Use> uses(program.variables.size());
  for (const Node& node : program.nodes) {
    const bool rows = node.op == "read_rows";
    if (!rows && node.op != "read") continue;
    Use& use = uses[static_cast<size_t>(std::get<int64_t>(node.attrs.find("variable")->second))];
    if (rows) {
      use.row_reads.push_back(
          static_cast<uint64_t>(CapacityElements(program.type(node.inputs[0]))));
    } else {
      ++use.dense_reads;
    }
  }
  for (const Push& push : program.pushes) {
    if (push.kind == PushKind::kRecordOnly) continue;
    Use& use = uses[static_cast<size_t>(push.variable)];
    if (push.keys != kNoValue) {
      use.sparse_pushes.push_back(static_cast<uint64_t>(CapacityElements(program.type(push.keys))));
    } else {
      ++use.dense_pushes;
    }
  }
  std::map<std::string_view, Use> by_name;
  for (size_t i = 0; i < uses.size(); ++i) by_name[program.variables[i].name] = uses[i];
  return by_name;
}

// Adds what a step exchanges about `rows` rows of a variable, all on one server.
void AddUse(const Use& use, const v1::VariableSpec& variable, uint64_t rows, MessageSize* size) {
  const uint64_t row_bytes =
      static_cast<uint64_t>(RowElements(variable)) * SizeOf(static_cast<DType>(variable.dtype()));
  MessageSize::OfVariable part{.name = variable.name()};
  size->push_bytes += use.dense_pushes * rows * row_bytes;
  size->pull_bytes += use.dense_reads * rows * row_bytes;
  for (const uint64_t capacity : use.row_reads) {
    const uint64_t read = std::min(capacity, rows);
    size->read_key_bytes += read * kKeyBytes;
    size->push_bytes += read * kKeyBytes;
    size->pull_bytes += read * row_bytes;
  }
  for (const uint64_t capacity : use.sparse_pushes) {
    size->push_bytes += std::min(capacity, rows) * (row_bytes + kKeyBytes);
  }
  if (!use.row_reads.empty() || !use.sparse_pushes.empty()) part.row_bytes = row_bytes;
  size->variables.push_back(std::move(part));
}

absl::Status CheckServer(const MessageSize& size, const std::string& program) {
  if (size.read_key_bytes > kMaxUncutBytes) {
    return InvalidArgument(
        "ps:{}: a step of program '{}' reads up to {} rows by their keys, and the limit for one "
        "server and step is {}. Use a smaller batch",
        size.ps, program, size.read_key_bytes / kKeyBytes, kMaxUncutBytes / kKeyBytes);
  }
  for (const MessageSize::OfVariable& part : size.variables) {
    if (part.row_bytes <= kMaxUncutBytes) continue;
    return InvalidArgument(
        "ps:{}: one row of variable '{}' has {} ({} bytes), and the limit for a row that program "
        "'{}' reads by its key is {} ({} bytes). Use shorter rows",
        size.ps, part.name, FormatBytes(static_cast<int64_t>(part.row_bytes)), part.row_bytes,
        program, FormatBytes(static_cast<int64_t>(kMaxUncutBytes)), kMaxUncutBytes);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<MessageSize> MessageSizes(const v1::Layout& layout, const Program& program) {
  std::map<uint32_t, uint32_t> ps_of;                          // by tablet
  std::map<uint32_t, std::map<uint32_t, uint64_t>> rows_held;  // by ps and variable
  for (const v1::TabletSpec& tablet : layout.tablets()) {
    ps_of[tablet.tablet()] = tablet.ps();
    rows_held[tablet.ps()];
  }
  for (const v1::ShardSpec& shard : layout.shards()) {
    rows_held[ps_of[shard.tablet()]][shard.variable()] += shard.rows();
  }
  const std::map<std::string_view, Use> uses = UsesByName(program);
  std::vector<MessageSize> sizes;
  for (const auto& [ps, variables] : rows_held) {
    MessageSize& size = sizes.emplace_back();
    size.ps = ps;
    for (const auto& [index, rows] : variables) {
      const v1::VariableSpec& variable = layout.variables(static_cast<int>(index));
      const auto use = uses.find(variable.name());
      if (use != uses.end()) AddUse(use->second, variable, rows, &size);
    }
  }
  return sizes;
}

absl::Status CheckMessageSizes(const v1::Layout& layout, std::span<const Program> programs) {
  for (const Program& program : programs) {
    for (const MessageSize& size : MessageSizes(layout, program)) {
      COHORT_RETURN_IF_ERROR(CheckServer(size, program.name));
    }
  }
  return absl::OkStatus();
}

std::string MessageSizeText(const v1::Layout& layout, std::span<const Program> programs) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> most;  // by ps: push, pull
  for (const Program& program : programs) {
    for (const MessageSize& size : MessageSizes(layout, program)) {
      auto& [push, pull] = most[size.ps];
      push = std::max(push, size.push_bytes);
      pull = std::max(pull, size.pull_bytes);
    }
  }
  std::string text;
  for (const auto& [ps, bytes] : most) {
    text += fmt::format("ps:{} per step: push up to {}, pull up to {}\n", ps,
                        FormatBytes(static_cast<int64_t>(bytes.first)),
                        FormatBytes(static_cast<int64_t>(bytes.second)));
  }
  return text;
}

}  // namespace cohort
