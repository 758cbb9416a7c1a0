// The table of DynamicEmbedding and DynamicEmbeddingBag (common/tensor/table_rows.h).
#include <algorithm>
#include <array>
#include <string_view>

#include "common/graph/expr.h"
#include "common/model/layers/table_rows.h"
#include "common/optimizers/constraints.h"
#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// Those whose value of an element depends on its number alone.
constexpr std::array<std::string_view, 6> kInitializers = {
    "Zeros", "Ones", "Constant", "RandomUniform", "RandomNormal", "TruncatedNormal"};

void SetRules(const Config& config, uint64_t seed, v1::VariableSpec* variable) {
  v1::TableSpec* const rules = variable->mutable_table();
  rules->set_min_count(static_cast<uint64_t>(config.Int("min_count")));
  rules->set_probability(config.Float("admission_probability"));
  rules->set_seed(seed);
  rules->set_evict_after_steps(static_cast<uint64_t>(config.Int("evict_after_steps")));
  rules->set_evict_below_l2(config.Float("evict_below_l2"));
  rules->set_max_rows(static_cast<uint64_t>(config.Int("max_rows")));
}

}  // namespace

std::vector<Argument> DynamicTableArguments() {
  return {
      Int("output_dim", "Columns of the table.").AtLeast(1),
      InitializerArgument("embeddings_initializer", "RandomUniform", "First row of an id."),
      ConstraintArgument("embeddings_constraint"),
      Int("min_count",
          "Updates that name an id until it has a row; the gradients of those before the last are "
          "dropped.")
          .Default(1)
          .AtLeast(1),
      Float("admission_probability", "That an update gives an id a row.")
          .Default(1.0)
          .Between(1e-9, 1),
      Int("evict_after_steps",
          "A row is gone when this number of updates have not named it; 0: never. A step of mode "
          "sync is one update, in the other modes each push is one.")
          .Default(0)
          .AtLeast(0),
      Float("evict_below_l2",
            "A row is gone when an update leaves it with a smaller norm; 0: never.")
          .Default(0.0)
          .AtLeast(0),
      Int("max_rows",
          "Rows of the table; beyond, those that were updated longest ago are gone. Each server "
          "has an equal part of this number. 0: any number.")
          .Default(0)
          .AtLeast(0),
  };
}

absl::StatusOr<Expr> DynamicTableRows(LayerContext* context) {
  const Config& config = context->config;
  const std::string& initializer = config.Object("embeddings_initializer").class_name();
  if (std::ranges::find(kInitializers, initializer) == kInitializers.end()) {
    return InvalidArgument(
        "embeddings_initializer: {} depends on the number of rows, which a table without bounds "
        "does not have; use {}",
        initializer, fmt::join(kInitializers, ", "));
  }
  COHORT_ASSIGN_OR_RETURN(const ValueType type,
                          context->AddVariable("embeddings", {kTableRows, config.Int("output_dim")},
                                               "embeddings_initializer", true));
  if (!context->is_shared) SetRules(config, context->seed, &context->variables->back());
  if (!context->keys.valid()) return Expr();
  return context->builder->ReadRows(context->VariableName("embeddings"), type, context->keys);
}

}  // namespace cohort
