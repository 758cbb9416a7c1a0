#include "common/device/cuda/cublas.h"

#include <dlfcn.h>

#include "common/base/status.h"

namespace cohort {
namespace {

#define COHORT_STRING_OF(x) #x
#define COHORT_NAME_OF(x) COHORT_STRING_OF(x)
constexpr char kLibrary[] = "libcublas.so." COHORT_NAME_OF(CUBLAS_VER_MAJOR);
#undef COHORT_NAME_OF
#undef COHORT_STRING_OF

absl::StatusOr<Cublas> Load() {
  // Never closed: it cannot be loaded twice.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Unimplemented(
        "cuBLAS cannot be loaded ({}); install it, or add its folder to LD_LIBRARY_PATH",
        dlerror());
  }
  bool complete = true;
  const auto find = [&]<typename Fn>(Fn* function, const char* name) {
    *function = reinterpret_cast<Fn>(dlsym(library, name));
    complete &= *function != nullptr;
  };
  Cublas cublas;
  find(&cublas.create, "cublasCreate_v2");
  find(&cublas.destroy, "cublasDestroy_v2");
  find(&cublas.set_math_mode, "cublasSetMathMode");
  find(&cublas.set_stream, "cublasSetStream_v2");
  find(&cublas.set_workspace, "cublasSetWorkspace_v2");
  find(&cublas.gemm, "cublasGemmEx_64");
  find(&cublas.batched_gemm, "cublasGemmStridedBatchedEx_64");
  if (!complete) return Unimplemented("{} lacks a function that this build calls", kLibrary);
  return cublas;
}

}  // namespace

absl::StatusOr<const Cublas*> LoadCublas() {
  static const absl::StatusOr<Cublas>& cublas = *new absl::StatusOr<Cublas>(Load());
  COHORT_RETURN_IF_ERROR(cublas.status());
  return &*cublas;
}

}  // namespace cohort
