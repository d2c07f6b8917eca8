// cuBLAS. The builder makes each product a launch on the handle's stream.
#include "launch.h"

int cublasCreate_v2(void **handle) {
  *handle = calloc(1, sizeof(void *));
  return 0;
}
int cublasDestroy_v2(void *handle) {
  free(handle);
  return 0;
}
int cublasSetStream_v2(void **handle, void *stream) {
  *handle = stream;
  return 0;
}
int cublasGetPointerMode_v2(void *handle, int *mode) {
  *mode = 0;
  return 0;
}
int cublasGetMathMode(void *handle, int *mode) {
  *mode = 0;
  return 0;
}
