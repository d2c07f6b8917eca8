/* A libnvidia-ml.so.1 for tests: answers from the file that NVML_STAND_IN names.
 *
 * Each line is "KEY VALUE"; what concerns a GPU has its index before the key: "0.name NVIDIA H200".
 * "init" and "0.error" give the code that starting, or asking a GPU, ends with. What has no line is
 * not supported, as on cards that do not know the answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, FUNCTION_NOT_FOUND = 13 };

static char text[65536];
static char *lines[2048];
static int num_lines;

static const char *look(const char *key) {
    for (int i = 0; i < num_lines; i++) {
        size_t length = strlen(key);
        if (strncmp(lines[i], key, length) == 0 && lines[i][length] == ' ')
            return lines[i] + length + 1;
    }
    return NULL;
}

static const char *of(const void *gpu, const char *key) {
    char full[128];
    snprintf(full, sizeof full, "%ld.%s", (long)gpu - 1, key);
    return look(full);
}

static int number(const void *gpu, const char *key, unsigned *out) {
    const char *found = of(gpu, key);
    if (!found) return NOT_SUPPORTED;
    *out = strtoul(found, NULL, 0);
    return SUCCESS;
}

static int wide(const void *gpu, const char *key, unsigned long long *out) {
    const char *found = of(gpu, key);
    if (!found) return NOT_SUPPORTED;
    *out = strtoull(found, NULL, 0);
    return SUCCESS;
}

static int words(const char *found, char *out, unsigned length) {
    if (!found) return NOT_SUPPORTED;
    snprintf(out, length, "%s", found);
    return SUCCESS;
}

static int two(const void *gpu, const char *key, unsigned *a, unsigned *b) {
    const char *found = of(gpu, key);
    return found && sscanf(found, "%u %u", a, b) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *path = getenv("NVML_STAND_IN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 9; /* driver not loaded */
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    num_lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) lines[num_lines++] = line;
    const char *code = look("init");
    return code ? atoi(code) : SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case 3: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned n) { return words(look("driver"), out, n); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    const char *found = look("cuda");
    if (!found) return NOT_SUPPORTED;
    *out = atoi(found);
    return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned *out) {
    const char *found = look("count");
    *out = found ? atoi(found) : 0;
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    *out = (void *)(long)(index + 1);
    const char *code = of(*out, "error");
    return code ? atoi(code) : SUCCESS;
}
int nvmlDeviceGetName(void *g, char *out, unsigned n) { return words(of(g, "name"), out, n); }
int nvmlDeviceGetUUID(void *g, char *out, unsigned n) {
    /* Partitions have numbers of their own from 1000 on: "999.uuid" is the first one's. */
    if ((long)g >= 1000 && !of(g, "uuid")) {
        snprintf(out, n, "MIG-%ld", (long)g);
        return SUCCESS;
    }
    return words(of(g, "uuid"), out, n);
}
int nvmlDeviceGetMemoryInfo(void *g, unsigned long long *out) {
    unsigned long long total = 0, used = 0;
    if (wide(g, "memory", &total)) return NOT_SUPPORTED;
    wide(g, "used", &used);
    out[0] = total, out[1] = total - used, out[2] = used;
    return SUCCESS;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *g, struct pci *out) {
    memset(out, 0, sizeof *out);
    return words(of(g, "address"), out->bus_id, sizeof out->bus_id);
}
int nvmlDeviceGetCudaComputeCapability(void *g, unsigned *a, unsigned *b) {
    return two(g, "capability", a, b);
}
int nvmlDeviceGetMigMode(void *g, unsigned *a, unsigned *b) { return two(g, "mig", a, b); }
int nvmlDeviceGetMaxMigDeviceCount(void *g, unsigned *out) { return number(g, "mig_devices", out); }
int nvmlDeviceGetMigDeviceHandleByIndex(void *g, unsigned index, void **out) {
    unsigned count = 0;
    number(g, "mig_devices", &count);
    if (index >= count) return NOT_FOUND;
    *out = (void *)(long)(1000 + index);
    return SUCCESS;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *g, unsigned *out) { return number(g, "pcie", out); }
int nvmlDeviceGetCurrPcieLinkWidth(void *g, unsigned *out) { return number(g, "width", out); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *g, unsigned *out) {
    return number(g, "max_pcie", out);
}
int nvmlDeviceGetMaxPcieLinkWidth(void *g, unsigned *out) { return number(g, "max_width", out); }
int nvmlDeviceGetNvLinkState(void *g, unsigned link, unsigned *out) {
    const char *found = of(g, "nvlinks"); /* one digit for each link */
    if (!found || link >= strlen(found)) return NOT_SUPPORTED;
    *out = found[link] - '0';
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *g, unsigned link, struct pci *out) {
    char key[32]; /* "0.nvlink_to.3" is the address at the other end of the fourth */
    snprintf(key, sizeof key, "nvlink_to.%u", link);
    memset(out, 0, sizeof *out);
    return words(of(g, key), out->bus_id, sizeof out->bus_id);
}
int nvmlDeviceGetEccMode(void *g, unsigned *a, unsigned *b) { return two(g, "ecc", a, b); }
int nvmlDeviceGetTotalEccErrors(void *g, int type, int counter, unsigned long long *out) {
    (void)counter;
    return wide(g, type == 0 ? "corrected" : "uncorrected", out);
}
int nvmlDeviceGetRemappedRows(void *g, unsigned *c, unsigned *u, unsigned *pending, unsigned *bad) {
    const char *found = of(g, "remapped");
    int read = found ? sscanf(found, "%u %u %u %u", c, u, pending, bad) : 0;
    return read == 4 ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *g, unsigned *out) {
    return number(g, "retired_pending", out);
}
int nvmlDeviceGetClockInfo(void *g, int type, unsigned *out) {
    return number(g, type == 2 ? "memory_clock" : "clock", out);
}
int nvmlDeviceGetMaxClockInfo(void *g, int type, unsigned *out) {
    return number(g, type == 2 ? "max_memory_clock" : "max_clock", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *g, unsigned long long *out) {
    return wide(g, "slowdowns", out);
}
int nvmlDeviceGetPowerUsage(void *g, unsigned *out) { return number(g, "power", out); }
int nvmlDeviceGetEnforcedPowerLimit(void *g, unsigned *out) {
    return number(g, "power_limit", out);
}
int nvmlDeviceGetTemperature(void *g, int sensor, unsigned *out) {
    (void)sensor;
    return number(g, "temperature", out);
}
int nvmlDeviceGetUtilizationRates(void *g, unsigned *out) {
    return two(g, "utilization", out, out + 1);
}
int nvmlDeviceGetPersistenceMode(void *g, unsigned *out) { return number(g, "persistence", out); }
int nvmlDeviceGetComputeMode(void *g, unsigned *out) { return number(g, "compute_mode", out); }

int nvmlDeviceGetRetiredPages(void *g, int cause, unsigned *count, unsigned long long *out) {
    unsigned single = 0, twice = 0; /* by single-bit errors, by double-bit errors */
    if (two(g, "retired", &single, &twice)) return NOT_SUPPORTED;
    unsigned found = cause == 0 ? single : twice;
    if (out && *count < found) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; out && i < found; i++) out[i] = i;
    *count = found;
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
static int processes(void *g, const char *key, unsigned *count, struct process *out) {
    const char *found = of(g, key); /* its number and bytes */
    if (!found) {
        *count = 0;
        return SUCCESS;
    }
    if (*count < 1 || !out) {
        *count = 1;
        return INSUFFICIENT_SIZE;
    }
    *count = 1;
    return sscanf(found, "%u %llu", &out->pid, &out->memory) == 2 ? SUCCESS : 999;
}
/* "old" has the calls of drivers before 510. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *g, unsigned *count, struct process *out) {
    return look("old") ? FUNCTION_NOT_FOUND : processes(g, "process", count, out);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *g, unsigned *count, struct process *out) {
    return processes(g, "process", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *g, unsigned *count, struct process *out) {
    return look("old") ? FUNCTION_NOT_FOUND : processes(g, "graphics", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *g, unsigned *count, struct process *out) {
    return processes(g, "graphics", count, out);
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int kind, unsigned *out) {
    char key[32]; /* "0.p2p.1" has a digit for each kind: 0 where it works */
    snprintf(key, sizeof key, "p2p.%ld", (long)b - 1);
    const char *found = of(a, key);
    if (!found || kind < 0 || kind >= (int)strlen(found)) return NOT_SUPPORTED;
    *out = found[kind] - '0';
    return SUCCESS;
}
