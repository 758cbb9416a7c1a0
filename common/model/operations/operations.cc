// The registry of operations.
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

// Those of keras.ops that models use and that are missing.
constexpr std::string_view kPlannedOperations =
    "ops.average ops.bincount ops.conv ops.depthwise_conv ops.dot_product_attention ops.erfinv "
    "ops.fft ops.histogram ops.in_top_k ops.inv ops.layer_norm ops.median ops.nonzero ops.quantile "
    "ops.slogdet ops.svd ops.unique ops.while_loop";

std::vector<LayerClass> All() {
  std::vector<LayerClass> all;
  for (auto group : {ElementwiseOperations, ReductionOperations, ShapeOperations, PlaceOperations,
                     ProductOperations, PoolingOperations}) {
    for (LayerClass& made : group()) all.push_back(std::move(made));
  }
  return all;
}

}  // namespace

ClassRegistry<LayerClass>& Operations() {
  static auto& operations = *new ClassRegistry<LayerClass>("operation", SchemaSet::Spelling::kExact,
                                                           std::string(kPlannedOperations), All());
  return operations;
}

}  // namespace cohort
