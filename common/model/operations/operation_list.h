#ifndef COHORT_COMMON_MODEL_OPERATIONS_OPERATION_LIST_H_
#define COHORT_COMMON_MODEL_OPERATIONS_OPERATION_LIST_H_

#include <vector>

#include "common/model/operations/operation.h"

namespace cohort {

// The functions of each file.
std::vector<LayerClass> ElementwiseOperations();
std::vector<LayerClass> ReductionOperations();
std::vector<LayerClass> ShapeOperations();
std::vector<LayerClass> PlaceOperations();
std::vector<LayerClass> ProductOperations();
std::vector<LayerClass> PoolingOperations();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_OPERATIONS_OPERATION_LIST_H_
