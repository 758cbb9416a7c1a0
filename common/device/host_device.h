#ifndef COHORT_COMMON_DEVICE_HOST_DEVICE_H_
#define COHORT_COMMON_DEVICE_HOST_DEVICE_H_

// A function that is compiled for the CPU and, by CUDA's compiler, for its devices too.
#ifdef __CUDACC__
#define COHORT_HD __host__ __device__
#else
#define COHORT_HD
#endif

#endif  // COHORT_COMMON_DEVICE_HOST_DEVICE_H_
