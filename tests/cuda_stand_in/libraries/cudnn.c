// cuDNN: every convolution is one kernel, whose one engine needs no workspace.
#include "launch.h"

#define EXECUTION_FAILED 5000 // CUDNN_STATUS_EXECUTION_FAILED

// Newer than what any PyTorch here was compiled with, which refuses an older one.
size_t cudnnGetVersion(void) { return 93000; }
size_t cudnnGetCudartVersion(void) { return 13000; }
int cudnnGetProperty(int which, int *value) {
  static const int version[] = {9, 30, 0};
  *value = version[which];
  return 0;
}
const char *cudnnGetErrorString(int status) { return "error of cuDNN's stand-in"; }

int cudnnCreate(void **handle) {
  *handle = calloc(1, sizeof(void *));
  return 0;
}
int cudnnDestroy(void *handle) {
  free(handle);
  return 0;
}
int cudnnSetStream(void **handle, void *stream) {
  *handle = stream;
  return 0;
}
int cudnnGetStream(void **handle, void **stream) {
  *stream = *handle;
  return 0;
}

// Descriptors of the backend API. What an execution plan does is known from its operation, which
// each descriptor takes over from those that it is made of.
enum {
  ENGINE_HEURISTICS = 4,  // CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
  FORWARD = 10,           // CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
  BACKWARD_FILTER = 11,   // CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
  BACKWARD_DATA = 12,     // CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
  TYPE_INT64 = 3,         // CUDNN_TYPE_INT64
  TYPE_DESCRIPTOR = 15,   // CUDNN_TYPE_BACKEND_DESCRIPTOR
};
typedef struct {
  int kind;
  int operation;
} Descriptor;

int cudnnBackendCreateDescriptor(int kind, Descriptor **descriptor) {
  *descriptor = calloc(1, sizeof **descriptor);
  (*descriptor)->kind = kind;
  if (kind == FORWARD || kind == BACKWARD_FILTER || kind == BACKWARD_DATA)
    (*descriptor)->operation = kind;
  return 0;
}
int cudnnBackendDestroyDescriptor(Descriptor *descriptor) {
  free(descriptor);
  return 0;
}
int cudnnBackendFinalize(Descriptor *descriptor) { return 0; }
int cudnnBackendSetAttribute(Descriptor *descriptor, int name, int type, long count,
                             Descriptor **values) {
  if (type != TYPE_DESCRIPTOR) return 0;
  for (long place = 0; place < count; place++)
    if (values[place] != NULL && values[place]->operation)
      descriptor->operation = values[place]->operation;
  return 0;
}
int cudnnBackendGetAttribute(Descriptor *descriptor, int name, int type, long count, long *found,
                             void *values) {
  // Handle, data type, boolean, int64, float, double, pointer; all others are enumerations.
  static const int sizes[] = {8, 4, 1, 8, 4, 8, 8};
  long num_values = type == TYPE_INT64;
  if (type == TYPE_DESCRIPTOR) {
    num_values = descriptor->kind == ENGINE_HEURISTICS;
    if (num_values && count > 0 && values != NULL)
      (*(Descriptor **)values)->operation = descriptor->operation;
  } else if (values != NULL) {
    memset(values, 0, count * (type < 7 ? sizes[type] : 4));
  }
  if (found != NULL) *found = num_values;
  return 0;
}
int cudnnBackendExecute(void **handle, Descriptor *plan, void *pack) {
  const char *name = plan->operation == FORWARD           ? "cudnnConvolutionForward"
                     : plan->operation == BACKWARD_FILTER ? "cudnnConvolutionBackwardFilter"
                     : plan->operation == BACKWARD_DATA   ? "cudnnConvolutionBackwardData"
                                                          : "cudnnBackendExecute";
  return stand_in_launch(name, *handle) ? EXECUTION_FAILED : 0;
}

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operation,
                                                             void *x, void *z, void *y, void *scale,
                                                             void *activation, size_t *size) {
  *size = 0;
  return 0;
}
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operation,
                                                      void *x, void *y, void *dy, void *dz,
                                                      void *dx, void *scale, void *activation,
                                                      size_t *size) {
  *size = 0;
  return 0;
}
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operation,
                                                         void *activation, void *x, size_t *size) {
  *size = 0;
  return 0;
}
#define LAUNCHED(name)                                                                             \
  int name(void **handle) { return stand_in_launch(#name, *handle) ? EXECUTION_FAILED : 0; }
LAUNCHED(cudnnBatchNormalizationForwardTrainingEx)
LAUNCHED(cudnnBatchNormalizationForwardInference)
LAUNCHED(cudnnBatchNormalizationBackwardEx)
