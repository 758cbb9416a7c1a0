#include "common/graph/op_registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/graph/ops/families.h"

namespace cohort {
namespace {

constexpr std::string_view kKindNames[] = {"an integer",         "a float", "a boolean", "a string",
                                           "a list of integers", "a tensor"};

constexpr char kReferenceHead[] =
    R"(# Ops

`cohort reference --ops` prints this page. [Programs](design/programs.md) says what the ops are for.

| op | inputs → outputs | attributes | gradient |
|---|---|---|---|
)";

std::vector<OpSchema> MakeTable() {
  std::vector<OpSchema> table;
  const auto add = [&table](std::string_view name, const std::vector<OpSchema>& family,
                            std::string_view doc) {
    const auto op = std::ranges::find(family, name, &OpSchema::name);
    if (op != family.end()) table.emplace_back(*op).doc = doc;
  };
#define OP(name, schema, cpu, grid, form, doc) add(#name, ops::schema##Ops(), doc);
#include "common/graph/ops.def"
  return table;
}

// "op 'matmul' (layer 'dense')".
std::string Describe(const Node& node) {
  return node.name.empty() ? fmt::format("op '{}'", node.op)
                           : fmt::format("op '{}' (of '{}')", node.op, node.name);
}

const AttrSchema* FindAttrSchema(const OpSchema& schema, std::string_view name) {
  for (const AttrSchema& attr : schema.attrs) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

absl::Status CheckAttrs(const Node& node, const OpSchema& schema) {
  for (const auto& [name, value] : node.attrs) {
    const AttrSchema* attr = FindAttrSchema(schema, name);
    if (attr == nullptr) return InvalidArgument("{} has no attribute '{}'", Describe(node), name);
    if (value.index() != static_cast<size_t>(attr->kind)) {
      return InvalidArgument("attribute '{}' of {} must be {}, not {}", name, Describe(node),
                             kKindNames[static_cast<size_t>(attr->kind)],
                             kKindNames[value.index()]);
    }
  }
  for (const AttrSchema& attr : schema.attrs) {
    if (attr.required && node.attrs.find(attr.name) == node.attrs.end()) {
      return InvalidArgument("{} lacks its attribute '{}'", Describe(node), attr.name);
    }
  }
  return absl::OkStatus();
}

template <typename T>
const T* FindAttr(const Node& node, std::string_view name) {
  const auto it = node.attrs.find(name);
  return it == node.attrs.end() ? nullptr : std::get_if<T>(&it->second);
}

}  // namespace

std::span<const OpSchema> AllOps() {
  static const std::vector<OpSchema>& table = *new std::vector<OpSchema>(MakeTable());
  return table;
}

std::string OpReference() {
  std::string text = kReferenceHead;
  for (const OpSchema& op : AllOps()) {
    std::vector<std::string> attrs;
    for (const AttrSchema& attr : op.attrs) {
      attrs.push_back(fmt::format("`{}`: {}{}", attr.name,
                                  kKindNames[static_cast<size_t>(attr.kind)],
                                  attr.required ? "" : ", optional"));
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", op.name, op.doc, fmt::join(attrs, "; "),
                        op.gradient != nullptr ? "yes" : "no");
  }
  return text;
}

bool IsLeaf(const Node& node) {
  return node.op == "input" || node.op == "read" || node.op == "read_rows" || node.op == "constant";
}

const OpSchema* FindOp(std::string_view name) {
  const auto table = AllOps();
  const auto it =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const OpSchema& op, std::string_view n) { return op.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

absl::StatusOr<Types> InferNode(const Program& program, const Node& node,
                                std::span<const ValueType* const> inputs) {
  const OpSchema* schema = FindOp(node.op);
  if (schema == nullptr) return InvalidArgument("there is no op '{}'", node.op);
  const auto count = static_cast<int>(std::min<size_t>(inputs.size(), kVariadic + 1));
  if (count < schema->min_inputs || count > schema->max_inputs) {
    return InvalidArgument("{} takes {} inputs{}, not {}", Describe(node), schema->min_inputs,
                           schema->max_inputs == kVariadic ? " or more" : "", inputs.size());
  }
  COHORT_RETURN_IF_ERROR(CheckAttrs(node, *schema));
  absl::StatusOr<Types> types = schema->infer({program, node, inputs});
  if (!types.ok()) return Annotate(types.status(), Describe(node));
  return types;
}

int64_t IntAttr(const Node& node, std::string_view name, int64_t fallback) {
  const auto* value = FindAttr<int64_t>(node, name);
  return value == nullptr ? fallback : *value;
}

double FloatAttr(const Node& node, std::string_view name, double fallback) {
  const auto* value = FindAttr<double>(node, name);
  return value == nullptr ? fallback : *value;
}

bool BoolAttr(const Node& node, std::string_view name, bool fallback) {
  const auto* value = FindAttr<bool>(node, name);
  return value == nullptr ? fallback : *value;
}

std::string_view StringAttr(const Node& node, std::string_view name, std::string_view fallback) {
  const auto* value = FindAttr<std::string>(node, name);
  return value == nullptr ? fallback : std::string_view(*value);
}

std::span<const int64_t> IntsAttr(const Node& node, std::string_view name) {
  const auto* value = FindAttr<std::vector<int64_t>>(node, name);
  return value == nullptr ? std::span<const int64_t>() : std::span<const int64_t>(*value);
}

const Tensor* TensorAttr(const Node& node, std::string_view name) {
  return FindAttr<Tensor>(node, name);
}

}  // namespace cohort
