#ifndef COHORT_COMMON_KERNELS_ONEDNN_H_
#define COHORT_COMMON_KERNELS_ONEDNN_H_

#include <absl/status/statusor.h>
#include <dnnl.h>

#include <memory>
#include <string_view>

#include "common/base/status.h"

namespace cohort {

// oneDNN's C objects, owned. They are made when a program is compiled.
template <typename T, dnnl_status_t (*kDestroy)(T*)>
struct OneDnnDeleter {
  void operator()(T* object) const { kDestroy(object); }
};
template <typename T, dnnl_status_t (*kDestroy)(T*)>
using OneDnnPtr = std::unique_ptr<T, OneDnnDeleter<T, kDestroy>>;

using OneDnnPrimitive = OneDnnPtr<dnnl_primitive, dnnl_primitive_destroy>;
using OneDnnStream = OneDnnPtr<dnnl_stream, dnnl_stream_destroy>;
using OneDnnMemory = OneDnnPtr<dnnl_memory, dnnl_memory_destroy>;

// oneDNN would start OpenMP threads of its own in every thread that calls it: work is split by the
// caller. Each thread calls this before it makes or runs a primitive.
void KeepOneDnnSingleThreaded();

// The engine of the CPU.
dnnl_engine_t OneDnnEngine();

// OK, or Internal with the name of the call.
absl::Status OneDnnStatus(dnnl_status_t status, std::string_view call);

absl::StatusOr<OneDnnStream> MakeOneDnnStream();
// Memory without a buffer: dnnl_memory_set_data_handle gives it one.
absl::StatusOr<OneDnnMemory> MakeOneDnnMemory(const dnnl_memory_desc_t& desc);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_ONEDNN_H_
