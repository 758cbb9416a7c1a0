#ifndef COHORT_COMMON_WEIGHTS_WEIGHTS_TEST_UTIL_H_
#define COHORT_COMMON_WEIGHTS_WEIGHTS_TEST_UTIL_H_

#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/safetensors.h"
#include "common/tensor/tensor.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/parameter_server.pb.h"

// For tests only.
namespace cohort::weights_test {

inline v1::VariableSpec Variable(const std::string& name, const Dims& dims,
                                 v1::DType dtype = v1::FLOAT32) {
  v1::VariableSpec variable;
  variable.set_name(name);
  variable.mutable_dims()->Add(dims.begin(), dims.end());
  variable.set_dtype(dtype);
  return variable;
}

// Writes a safetensors file. The elements of tensor i are 100 * i, 100 * i + 1, ...
inline std::string WriteTensors(const std::string& path,
                                const std::vector<SafetensorsWriter::Entry>& entries) {
  auto writer = SafetensorsWriter::Create(path, entries, {});
  REQUIRE(writer.ok());
  for (size_t i = 0; i < entries.size(); ++i) {
    std::vector<double> values(static_cast<size_t>(NumElements(entries[i].dims)));
    std::iota(values.begin(), values.end(), 100.0 * static_cast<double>(i));
    const std::vector<float> floats(values.begin(), values.end());
    const std::vector<int64_t> integers(values.begin(), values.end());
    const void* data = values.data();
    if (entries[i].dtype == DType::kFloat32) data = floats.data();
    if (entries[i].dtype == DType::kInt64) data = integers.data();
    REQUIRE((*writer)->Append(data, values.size() * SizeOf(entries[i].dtype)).ok());
  }
  REQUIRE((*writer)->Finish().ok());
  return path;
}

using testing::Contains;
inline bool Contains(const absl::Status& status, std::string_view part) {
  return Contains(testing::Message(status), part);
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  REQUIRE(tensor.dtype() == DTypeOf<T>());
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

}  // namespace cohort::weights_test

#endif  // COHORT_COMMON_WEIGHTS_WEIGHTS_TEST_UTIL_H_
