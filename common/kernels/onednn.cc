#include "common/kernels/onednn.h"

#include <omp.h>

namespace cohort {

void KeepOneDnnSingleThreaded() {
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

dnnl_engine_t OneDnnEngine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    dnnl_engine_create(&made, dnnl_cpu, 0);
    return made;
  }();
  return engine;
}

absl::Status OneDnnStatus(dnnl_status_t status, std::string_view call) {
  if (status == dnnl_success) return absl::OkStatus();
  return Internal("oneDNN {} failed with status {}", call, static_cast<int>(status));
}

absl::StatusOr<OneDnnStream> MakeOneDnnStream() {
  dnnl_stream_t stream = nullptr;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(
      dnnl_stream_create(&stream, OneDnnEngine(), dnnl_stream_default_flags), "stream_create"));
  return OneDnnStream(stream);
}

absl::StatusOr<OneDnnMemory> MakeOneDnnMemory(const dnnl_memory_desc_t& desc) {
  dnnl_memory_t memory = nullptr;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(
      dnnl_memory_create(&memory, &desc, OneDnnEngine(), DNNL_MEMORY_NONE), "memory_create"));
  return OneDnnMemory(memory);
}

}  // namespace cohort
