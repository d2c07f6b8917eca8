/* A libcuda.so.1 for tests: writes its calls to DRIVER_CALLS; DRIVER_GPUS and DRIVER_MODE say how
 * many GPUs there are and in which compute mode. */
#include <stdio.h>
#include <stdlib.h>

static void note(const char *call) {
    FILE *file = fopen(getenv("DRIVER_CALLS"), "a");
    fprintf(file, "%s\n", call);
    fclose(file);
}

static int number(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

int cuInit(unsigned flags) {
    (void)flags;
    note("init");
    return number("DRIVER_ERROR", 0);
}

int cuDeviceGetCount(int *count) {
    *count = number("DRIVER_GPUS", 1);
    return 0;
}

int cuDeviceGet(int *device, int index) {
    *device = index;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 20 ? number("DRIVER_MODE", 0) : -1;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    note("context");
    *context = (void *)1;
    return 0;
}
