// The driver's library: what PyTorch asks it, and all that launches Triton's kernels.
#include "launch.h"

typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
} LaunchConfiguration;

static int context;

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
int cuGetErrorString(int error, const char **text) {
  *text = "error of the driver's stand-in";
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetCount(int *count) {
  const char *text = getenv("CUDA_STAND_IN_GPUS");
  *count = text == NULL ? 1 : atoi(text);
  return 0;
}
// By the numbers of CUdevice_attribute.
int cuDeviceGetAttribute(int *value, int name, int device) {
  switch (name) {
  case 8: *value = 49152; break;   // shared memory of a block
  case 10: *value = 32; break;     // threads of a warp
  case 12: *value = 65536; break;  // registers of a block
  case 16: *value = 132; break;    // multiprocessors
  case 75: *value = 9; break;      // compute capability, major
  case 76: *value = 0; break;      // compute capability, minor
  case 81: *value = 233472; break; // shared memory of a multiprocessor
  case 97: *value = 232448; break; // shared memory of a block that asks for it
  default: *value = 1;
  }
  return 0;
}
int cuDevicePrimaryCtxRetain(void **made, int device) {
  *made = &context;
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
  *flags = 0;
  *is_active = 1;
  return 0;
}
int cuCtxGetCurrent(void **current) {
  *current = &context;
  return 0;
}
int cuCtxSetCurrent(void *current) { return 0; }
int cuCtxGetLimit(size_t *value, int name) {
  *value = 1 << 20;
  return 0;
}
int cuCtxSetLimit(int name, size_t value) { return 0; }
int cuPointerGetAttribute(void **value, int name, void *address) {
  *value = address;
  return 0;
}

// A function is its name.
int cuModuleLoadData(const void **module, const void *image) {
  *module = image;
  return 0;
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(char **function, void *module, const char *name) {
  *function = strdup(name);
  return 0;
}
// By the numbers of CUfunction_attribute.
int cuFuncGetAttribute(int *value, int name, const char *function) {
  *value = name == 0 ? 1024 : name == 4 ? 32 : 0; // most threads of a block, registers
  return 0;
}
int cuFuncSetAttribute(const char *function, int name, int value) { return 0; }
int cuFuncSetCacheConfig(const char *function, int name) { return 0; }
int cuOccupancyMaxActiveClusters(int *count, const char *function, void *configuration) {
  *count = 1;
  return 0;
}
int cuTensorMapEncodeTiled(void) { return 0; }
int cuLaunchKernelEx(LaunchConfiguration *configuration, const char *function, void **arguments,
                     void **extra) {
  return stand_in_launch(function, configuration->stream);
}
int cuLaunchKernel(const char *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **arguments, void **extra) {
  return stand_in_launch(function, stream);
}
