// A stand-in for CUDA's runtime. Memory, streams, events and the rules of stream capture are real;
// kernels compute nothing and are counted. What is copied from the device is zeros.
//
// CUDA_STAND_IN_GPUS and CUDA_STAND_IN_BYTES say how many GPUs there are, and the memory of each.
// CUDA_STAND_IN_TRACE names a file that gets a line for each call, with the process's number.
//
// The rules of capture are those of the CUDA Programming Guide ("Prohibited and Unhandled
// Operations") and of cudaStreamCaptureMode in the runtime API's reference.

#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

// In this order in counting.py.
enum {
  KERNELS,          // launched eagerly, CUDA's libraries' among them
  COPIES,           // submitted eagerly
  FILLS,            // likewise
  REPLAYS,          // of graphs
  REPLAYED_NODES,   // of all replayed graphs together
  CAPTURES,         // begun
  BROKEN_CAPTURES,  // ended without a graph
  SYNCHRONISATIONS, // of the host with a stream or a device
  EVENT_WAITS,      // of the host for an event
  ALLOCATIONS,      // of device memory by the runtime
  LIVE_GRAPHS,      // that could be replayed now
  LIVE_BYTES,       // of device memory, on all devices, now
  NUM_COUNTS
};
static uint64_t counts[NUM_COUNTS];

typedef struct Node {
  struct Node *next;
  enum { OPERATION, COPY, FILL } kind;
  void *to;
  const void *from;
  size_t num_bytes;
  int value;
} Node;

typedef struct {
  int users;
  Node *first, *last;
  size_t num_nodes;
} Graph;

typedef struct Capture {
  struct Capture *next;
  uint64_t id;
  enum cudaStreamCaptureMode mode;
  pthread_t thread;
  int is_broken;
  Graph *graph;
} Capture;

typedef struct Stream {
  struct Stream *next;
  uint64_t capture;
} Stream;

typedef struct {
  uint64_t capture;
  int is_recorded;
} Event;

typedef struct Memory {
  struct Memory *next;
  char *start;
  size_t num_bytes;
  int device; // -1 for pinned memory of the host
} Memory;

typedef struct Function {
  struct Function *next;
  const void *stub;
  const char *name;
} Function;

#define NUM_BUCKETS 65536
#define MAX_GPUS 64

// One lock for all: a real runtime serialises most of this too, and nothing here takes long.
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static Function *functions[NUM_BUCKETS];
static Stream *streams;
static Capture *captures;
static Memory *memories;
static size_t used_bytes[MAX_GPUS];
static uint64_t num_captures;
static FILE *trace;
static __thread cudaError_t last_error;
static __thread enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
static __thread int current_device;

static void enter(void) { pthread_mutex_lock(&lock); }
static void leave(void) { pthread_mutex_unlock(&lock); }

static cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

static void write_trace(const char *what, const char *name) {
  if (trace != NULL) fprintf(trace, "%s %s\n", what, name);
}

// ---- what tests read

API void stand_in_counts(uint64_t *to) {
  enter();
  memcpy(to, counts, sizeof counts);
  leave();
}

// Write a line for each call to a file from now on, or end that with NULL.
API void stand_in_trace(const char *path) {
  enter();
  if (trace != NULL) fclose(trace);
  trace = path == NULL ? NULL : fopen(path, "w");
  leave();
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CUDA_STAND_IN_TRACE");
  char own[4096];
  if (path == NULL) return;
  snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
  stand_in_trace(own);
}

__attribute__((destructor)) static void end(void) { fflush(NULL); }

// ---- captures

static Capture *find_capture(uint64_t id) {
  for (Capture *each = captures; each != NULL; each = each->next)
    if (each->id == id) return each;
  return NULL;
}

// The default streams, which are small numbers, are never captured here.
static Stream *find_stream(cudaStream_t stream) {
  return (uintptr_t)stream > 2 ? (Stream *)stream : NULL;
}

static Capture *capture_of(cudaStream_t stream) {
  Stream *found = find_stream(stream);
  return found != NULL && found->capture ? find_capture(found->capture) : NULL;
}

static cudaError_t break_capture(Capture *capture, cudaError_t error, const char *what) {
  capture->is_broken = 1;
  write_trace("BREAKS", what);
  return error;
}

// A call that may not be made while a capture is under way, unless its mode lets this thread.
static cudaError_t refuse_while_capturing(const char *what) {
  cudaError_t error = cudaSuccess;
  enter();
  for (Capture *each = captures; each != NULL; each = each->next) {
    int is_own = pthread_equal(each->thread, pthread_self());
    if (each->mode == cudaStreamCaptureModeRelaxed) continue;
    if (!is_own && each->mode == cudaStreamCaptureModeThreadLocal) continue;
    if (thread_mode == cudaStreamCaptureModeRelaxed) continue;
    if (!is_own && thread_mode == cudaStreamCaptureModeThreadLocal) continue;
    error = break_capture(each, cudaErrorStreamCaptureUnsupported, what);
  }
  leave();
  return remember(error);
}

static void add_node(Capture *capture, Node node) {
  Graph *graph = capture->graph;
  Node *added = malloc(sizeof *added);
  *added = node;
  added->next = NULL;
  if (graph->last != NULL) graph->last->next = added;
  else graph->first = added;
  graph->last = added;
  graph->num_nodes++;
}

// Do an operation on a stream: record it where the stream is captured, else count it.
// Returns whether to carry it out now.
static int submit(cudaStream_t stream, Node node, int count, const char *name, cudaError_t *error) {
  int is_now = 0;
  enter();
  Capture *capture = capture_of(stream);
  *error = cudaSuccess;
  if (capture == NULL) {
    counts[count]++;
    write_trace("EAGER", name);
    is_now = 1;
  } else if (capture->is_broken) {
    *error = cudaErrorStreamCaptureInvalidated;
  } else {
    add_node(capture, node);
    write_trace("RECORDED", name);
  }
  leave();
  remember(*error);
  return is_now;
}

static cudaError_t launch(const char *name, cudaStream_t stream) {
  cudaError_t error;
  submit(stream, (Node){.kind = OPERATION}, KERNELS, name, &error);
  return error;
}

// What the stand-ins for CUDA's other libraries call for each of their kernels.
API int stand_in_launch(const char *name, void *stream) { return launch(name, stream); }

// ---- kernels

static unsigned bucket_of(const void *stub) { return (uintptr_t)stub >> 4 & (NUM_BUCKETS - 1); }

static const char *name_of(const void *stub) {
  for (Function *each = functions[bucket_of(stub)]; each != NULL; each = each->next)
    if (each->stub == stub) return each->name;
  return "unknown";
}

API void **__cudaRegisterFatBinary(void *binary) {
  static void *handle[1];
  return handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle) {}
API void __cudaUnregisterFatBinary(void **handle) {}
API char __cudaInitModule(void **handle) { return 1; }
API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                           size_t size, int constant, int global) {}

API void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name,
                                int limit, uint3 *thread, uint3 *block, dim3 *threads, dim3 *blocks,
                                int *warp) {
  Function *added = malloc(sizeof *added);
  enter();
  Function **bucket = &functions[bucket_of(stub)];
  *added = (Function){.next = *bucket, .stub = stub, .name = name};
  *bucket = added;
  leave();
}

// The compiler puts a launch's configuration here, and takes it again in the kernel's stub.
static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} configurations[8];
static __thread int num_configurations;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                         struct CUstream_st *stream) {
  configurations[num_configurations].grid = grid;
  configurations[num_configurations].block = block;
  configurations[num_configurations].shared = shared;
  configurations[num_configurations++].stream = stream;
  return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  num_configurations--;
  *grid = configurations[num_configurations].grid;
  *block = configurations[num_configurations].block;
  *shared = configurations[num_configurations].shared;
  *(void **)stream = configurations[num_configurations].stream;
  return cudaSuccess;
}

API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
  *kernel = (cudaKernel_t)stub;
  return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                   size_t shared, cudaStream_t stream) {
  return launch(name_of(kernel), stream);
}
API cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **arguments,
                                 size_t shared, cudaStream_t stream) {
  return launch(name_of(stub), stream);
}
API cudaError_t cudaLaunchCooperativeKernel(const void *stub, dim3 grid, dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream) {
  return launch(name_of(stub), stream);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *stub,
                                    void **arguments) {
  return launch(name_of(stub), configuration->stream);
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  cudaError_t error;
  if (submit(stream, (Node){.kind = OPERATION}, KERNELS, "host function", &error)) function(data);
  return error;
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                      void *data, unsigned flags) {
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}
API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *stub) {
  *attributes = (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024,
                                            .numRegs = 32,
                                            .binaryVersion = 90,
                                            .ptxVersion = 90,
                                            .maxDynamicSharedSizeBytes = 232448};
  return cudaSuccess;
}
API cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute name, int value) {
  return cudaSuccess;
}
API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute name,
                                                int value, int device) {
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *stub,
                                                              int threads, size_t shared) {
  *blocks = 2;
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                       const void *stub,
                                                                       int threads, size_t shared,
                                                                       unsigned flags) {
  *blocks = 2;
  return cudaSuccess;
}

// ---- devices: what an H200 says of itself

static int num_gpus(void) {
  const char *text = getenv("CUDA_STAND_IN_GPUS");
  return text == NULL ? 1 : atoi(text);
}

static size_t device_bytes(void) {
  const char *text = getenv("CUDA_STAND_IN_BYTES");
  return text == NULL ? (size_t)141 << 30 : strtoull(text, NULL, 10);
}

API cudaError_t cudaGetDeviceCount(int *count) {
  *count = num_gpus();
  return cudaSuccess;
}
API cudaError_t cudaGetDevice(int *device) {
  *device = current_device;
  return cudaSuccess;
}
API cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= num_gpus()) return remember(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  *properties = (struct cudaDeviceProp){.name = "NVIDIA H200 (stand-in)",
                                        .totalGlobalMem = device_bytes(),
                                        .sharedMemPerBlock = 49152,
                                        .regsPerBlock = 65536,
                                        .warpSize = 32,
                                        .maxThreadsPerBlock = 1024,
                                        .maxThreadsDim = {1024, 1024, 64},
                                        .maxGridSize = {2147483647, 65535, 65535},
                                        .totalConstMem = 65536,
                                        .major = 9,
                                        .minor = 0,
                                        .textureAlignment = 512,
                                        .multiProcessorCount = 132,
                                        .canMapHostMemory = 1,
                                        .concurrentKernels = 1,
                                        .asyncEngineCount = 3,
                                        .unifiedAddressing = 1,
                                        .memoryBusWidth = 6144,
                                        .l2CacheSize = 60 << 20,
                                        .maxThreadsPerMultiProcessor = 2048,
                                        .sharedMemPerMultiprocessor = 233472,
                                        .regsPerMultiprocessor = 65536,
                                        .cooperativeLaunch = 1,
                                        .sharedMemPerBlockOptin = 232448,
                                        .maxBlocksPerMultiProcessor = 32};
  for (int place = 0; place < 16; place++)
    properties->uuid.bytes[place] = (char)(device * 16 + place + 1);
  return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name, int device) {
  switch (name) {
  case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
  case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  case cudaDevAttrMultiProcessorCount: *value = 132; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
  case cudaDevAttrWarpSize: *value = 32; break;
  case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
  case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
  default: *value = 1;
  }
  return cudaSuccess;
}

API cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, size, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = 1;
  return cudaSuccess;
}
API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return cudaSuccess; }
API cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

API cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
API cudaError_t cudaPeekAtLastError(void) { return last_error; }

API const char *cudaGetErrorName(cudaError_t error) {
  static __thread char text[32];
  snprintf(text, sizeof text, "cudaError %d", error);
  return text;
}

API const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "no error";
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorInvalidDevice: return "invalid device ordinal";
  case cudaErrorNotSupported: return "operation not supported by the stand-in";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  case cudaErrorStreamCaptureInvalidated:
    return "operation failed due to a previous error during capture";
  case cudaErrorStreamCaptureIsolation:
    return "dependency created on uncaptured work in another stream";
  case cudaErrorStreamCaptureImplicit:
    return "operation would make the legacy stream depend on a capturing blocking stream";
  case cudaErrorCapturedEvent:
    return "operation not permitted on an event last recorded in a capturing stream";
  default: return "error of the stand-in";
  }
}

static int succeed(void) { return 0; }
static int get_context(void **context) {
  *context = &current_device;
  return 0;
}
static int get_context_state(int device, unsigned *flags, int *is_active) {
  *flags = 0;
  *is_active = 1;
  return 0;
}

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                                 unsigned version, unsigned long long flags,
                                                 enum cudaDriverEntryPointQueryResult *found) {
  *function = succeed;
  if (strcmp(name, "cuCtxGetCurrent") == 0) *function = get_context;
  if (strcmp(name, "cuDevicePrimaryCtxGetState") == 0) *function = get_context_state;
  if (found != NULL) *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// ---- memory: of the host, reserved but not taken before something is written there

static cudaError_t allocate(void **to, size_t num_bytes, int device) {
  *to = NULL;
  if (num_bytes == 0) return cudaSuccess;
  enter();
  cudaError_t error = cudaErrorMemoryAllocation;
  if (device < 0 || used_bytes[device] + num_bytes <= device_bytes()) {
    char *start = mmap(NULL, num_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start != MAP_FAILED) {
      Memory *added = malloc(sizeof *added);
      *added = (Memory){memories, start, num_bytes, device};
      memories = added;
      if (device >= 0) {
        used_bytes[device] += num_bytes;
        counts[LIVE_BYTES] += num_bytes;
        counts[ALLOCATIONS]++;
        write_trace("ALLOCATES", "device memory");
      }
      *to = start;
      error = cudaSuccess;
    }
  }
  leave();
  return remember(error);
}

static void release(void *start) {
  enter();
  for (Memory **each = &memories; *each != NULL; each = &(*each)->next) {
    Memory *found = *each;
    if (found->start != start) continue;
    *each = found->next;
    munmap(found->start, found->num_bytes);
    if (found->device >= 0) {
      used_bytes[found->device] -= found->num_bytes;
      counts[LIVE_BYTES] -= found->num_bytes;
    }
    free(found);
    break;
  }
  leave();
}

static Memory *find_memory(const void *address) {
  for (Memory *each = memories; each != NULL; each = each->next)
    if ((const char *)address >= each->start &&
        (const char *)address < each->start + each->num_bytes)
      return each;
  return NULL;
}

static int is_device_memory(const void *address) {
  Memory *found = find_memory(address);
  return found != NULL && found->device >= 0;
}

static void move(void *to, const void *from, size_t num_bytes) {
  if (is_device_memory(from) && !is_device_memory(to)) memset(to, 0, num_bytes);
  else memmove(to, from, num_bytes);
}

API cudaError_t cudaMalloc(void **to, size_t num_bytes) {
  cudaError_t error = refuse_while_capturing("cudaMalloc");
  return error ? error : allocate(to, num_bytes, current_device);
}
API cudaError_t cudaMallocAsync(void **to, size_t num_bytes, cudaStream_t stream) {
  return cudaMalloc(to, num_bytes);
}
API cudaError_t cudaFree(void *start) {
  if (start == NULL) return cudaSuccess;
  cudaError_t error = refuse_while_capturing("cudaFree");
  if (!error) release(start);
  return error;
}
API cudaError_t cudaFreeAsync(void *start, cudaStream_t stream) { return cudaFree(start); }
API cudaError_t cudaHostAlloc(void **to, size_t num_bytes, unsigned flags) {
  cudaError_t error = refuse_while_capturing("cudaHostAlloc");
  return error ? error : allocate(to, num_bytes, -1);
}
API cudaError_t cudaMallocHost(void **to, size_t num_bytes) {
  return cudaHostAlloc(to, num_bytes, 0);
}
API cudaError_t cudaFreeHost(void *start) {
  release(start);
  return cudaSuccess;
}
API cudaError_t cudaHostRegister(void *start, size_t num_bytes, unsigned flags) {
  return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void *start) { return cudaSuccess; }
API cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  enter();
  *total = device_bytes();
  *available = *total - used_bytes[current_device];
  leave();
  return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                         const void *address) {
  enter();
  Memory *found = find_memory(address);
  *attributes = (struct cudaPointerAttributes){.type = found == NULL ? cudaMemoryTypeUnregistered
                                                       : found->device < 0 ? cudaMemoryTypeHost
                                                                           : cudaMemoryTypeDevice,
                                               .device = found == NULL || found->device < 0
                                                             ? 0
                                                             : found->device,
                                               .devicePointer = (void *)address,
                                               .hostPointer = (void *)address};
  leave();
  return cudaSuccess;
}
API cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
  static char place[4096];
  *address = place;
  return cudaSuccess;
}
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t num_bytes,
                                   size_t offset, enum cudaMemcpyKind kind) {
  return cudaSuccess;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t num_bytes,
                                enum cudaMemcpyKind kind, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  enter();
  Capture *capture = capture_of(stream);
  int is_pageable = find_memory(to) == NULL || find_memory(from) == NULL;
  if (capture != NULL && is_pageable)
    error = break_capture(capture, cudaErrorStreamCaptureUnsupported, "copy of pageable memory");
  else if (submit(stream, (Node){.kind = COPY, .to = to, .from = from, .num_bytes = num_bytes},
                  COPIES, is_pageable ? "copy of pageable memory" : "copy", &error))
    move(to, from, num_bytes);
  leave();
  return remember(error);
}
API cudaError_t cudaMemcpy(void *to, const void *from, size_t num_bytes, enum cudaMemcpyKind kind) {
  cudaError_t error = refuse_while_capturing("cudaMemcpy");
  if (error) return error;
  enter();
  counts[COPIES]++;
  counts[SYNCHRONISATIONS]++;
  move(to, from, num_bytes);
  leave();
  return cudaSuccess;
}
API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, enum cudaMemcpyKind kind,
                                  cudaStream_t stream) {
  cudaError_t error;
  enter();
  if (submit(stream, (Node){.kind = OPERATION}, COPIES, "copy", &error))
    for (size_t row = 0; row < height; row++)
      move((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  leave();
  return error;
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                    size_t num_bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream);
}
API cudaError_t cudaMemsetAsync(void *to, int value, size_t num_bytes, cudaStream_t stream) {
  cudaError_t error;
  enter();
  if (submit(stream, (Node){.kind = FILL, .to = to, .value = value, .num_bytes = num_bytes}, FILLS,
             "fill", &error))
    memset(to, value, num_bytes);
  leave();
  return error;
}
API cudaError_t cudaMemset(void *to, int value, size_t num_bytes) {
  return cudaMemsetAsync(to, value, num_bytes, NULL);
}

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  *pool = (cudaMemPool_t)&memories;
  return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr name,
                                        void *value) {
  *(uint64_t *)value = 0;
  return cudaSuccess;
}
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr name,
                                        void *value) {
  return cudaSuccess;
}
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                     size_t count) {
  return cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t num_bytes) { return cudaSuccess; }

// ---- streams and events

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  Stream *added = calloc(1, sizeof *added);
  enter();
  added->next = streams;
  streams = added;
  leave();
  *stream = (cudaStream_t)added;
  return cudaSuccess;
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
API cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
// PyTorch keeps its streams for ever; so does the list of them.
API cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cudaSuccess; }
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  *priority = 0;
  return cudaSuccess;
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  enter();
  Capture *capture = capture_of(stream);
  leave();
  return remember(capture == NULL ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  enter();
  Capture *capture = capture_of(stream);
  counts[SYNCHRONISATIONS]++;
  write_trace("SYNCHRONISES", "stream");
  if (capture != NULL)
    error = break_capture(capture, cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize");
  leave();
  return remember(error);
}
API cudaError_t cudaDeviceSynchronize(void) {
  cudaError_t error = cudaSuccess;
  enter();
  counts[SYNCHRONISATIONS]++;
  write_trace("SYNCHRONISES", "device");
  for (Capture *each = captures; each != NULL; each = each->next)
    error = break_capture(each, cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize");
  leave();
  return remember(error);
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = calloc(1, sizeof(Event));
  return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begun, cudaEvent_t ended) {
  *milliseconds = 1;
  return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  enter();
  Capture *capture = capture_of(stream);
  *(Event *)event = (Event){capture == NULL ? 0 : capture->id, 1};
  leave();
  return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t error = refuse_while_capturing("cudaEventQuery");
  if (error) return error;
  enter();
  if (find_capture(((Event *)event)->capture) != NULL) error = cudaErrorCapturedEvent;
  leave();
  return remember(error);
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t error = cudaSuccess;
  enter();
  Capture *capture = find_capture(((Event *)event)->capture);
  counts[EVENT_WAITS]++;
  write_trace("SYNCHRONISES", "event");
  if (capture != NULL)
    error = break_capture(capture, cudaErrorCapturedEvent, "cudaEventSynchronize");
  leave();
  return remember(error);
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  cudaError_t error = cudaSuccess;
  enter();
  Event *awaited = (Event *)event;
  Stream *waiting = find_stream(stream);
  Capture *capture = capture_of(stream), *other = find_capture(awaited->capture);
  if (other != NULL && capture == NULL) {
    if (waiting == NULL) error = cudaErrorStreamCaptureImplicit;
    else waiting->capture = other->id;
  } else if (capture != NULL && other == NULL && awaited->is_recorded) {
    error = break_capture(capture, cudaErrorStreamCaptureIsolation,
                          "wait for an event from before the capture");
  }
  leave();
  return remember(error);
}

// ---- graphs

static void drop(Graph *graph) {
  if (--graph->users > 0) return;
  for (Node *each = graph->first, *next; each != NULL; each = next) {
    next = each->next;
    free(each);
  }
  free(graph);
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  enum cudaStreamCaptureMode before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return cudaSuccess;
}

API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  Stream *origin = find_stream(stream);
  if (origin == NULL) return remember(cudaErrorStreamCaptureUnsupported);
  Capture *added = malloc(sizeof *added);
  Graph *graph = calloc(1, sizeof *graph);
  graph->users = 1;
  enter();
  *added = (Capture){captures, ++num_captures, mode, pthread_self(), 0, graph};
  captures = added;
  origin->capture = added->id;
  counts[CAPTURES]++;
  write_trace("BEGINS", "capture");
  leave();
  return cudaSuccess;
}

API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  cudaError_t error = cudaSuccess;
  enter();
  Capture *capture = capture_of(stream);
  if (capture == NULL) error = cudaErrorIllegalState;
  else if (capture->mode != cudaStreamCaptureModeRelaxed &&
           !pthread_equal(capture->thread, pthread_self()))
    error = cudaErrorStreamCaptureWrongThread;
  else {
    for (Stream *each = streams; each != NULL; each = each->next)
      if (each->capture == capture->id) each->capture = 0;
    for (Capture **each = &captures; *each != NULL; each = &(*each)->next)
      if (*each == capture) {
        *each = capture->next;
        break;
      }
    *graph = (cudaGraph_t)capture->graph;
    if (capture->is_broken) {
      drop(capture->graph);
      *graph = NULL;
      counts[BROKEN_CAPTURES]++;
      error = cudaErrorStreamCaptureInvalidated;
    }
    write_trace("ENDS", capture->is_broken ? "broken capture" : "capture");
    free(capture);
  }
  leave();
  return remember(error);
}

static enum cudaStreamCaptureStatus status_of(Capture *capture) {
  if (capture == NULL) return cudaStreamCaptureStatusNone;
  return capture->is_broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  enter();
  *status = status_of(capture_of(stream));
  leave();
  return cudaSuccess;
}
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                         unsigned long long *id, cudaGraph_t *graph,
                                         const cudaGraphNode_t **dependencies,
                                         const cudaGraphEdgeData **edges, size_t *count) {
  enter();
  Capture *capture = capture_of(stream);
  *status = status_of(capture);
  if (id != NULL) *id = capture == NULL ? 0 : capture->id;
  if (graph != NULL) *graph = capture == NULL ? NULL : (cudaGraph_t)capture->graph;
  if (dependencies != NULL) *dependencies = NULL;
  if (edges != NULL) *edges = NULL;
  if (count != NULL) *count = 0;
  leave();
  return cudaSuccess;
}

API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  *count = ((Graph *)graph)->num_nodes;
  return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *others,
                                             cudaGraphEdgeData *edges, size_t *count) {
  *count = 0;
  return cudaSuccess;
}
API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags) {
  return cudaSuccess;
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *instance, cudaGraph_t graph,
                                              unsigned long long flags) {
  enter();
  ((Graph *)graph)->users++;
  counts[LIVE_GRAPHS]++;
  leave();
  *instance = (cudaGraphExec_t)graph;
  return cudaSuccess;
}
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph,
                                     unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(instance, graph, flags);
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  enter();
  drop((Graph *)graph);
  leave();
  return cudaSuccess;
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  enter();
  counts[LIVE_GRAPHS]--;
  drop((Graph *)instance);
  leave();
  return cudaSuccess;
}
API cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  enter();
  Graph *graph = (Graph *)instance;
  counts[REPLAYS]++;
  counts[REPLAYED_NODES] += graph->num_nodes;
  write_trace("REPLAYS", "graph");
  for (Node *each = graph->first; each != NULL; each = each->next) {
    if (each->kind == COPY) move(each->to, each->from, each->num_bytes);
    if (each->kind == FILL) memset(each->to, each->value, each->num_bytes);
  }
  leave();
  return cudaSuccess;
}
