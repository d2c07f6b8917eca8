/* A libnvidia-ml.so.1 for tests: answers from the file that NVML_STAND_IN names.
 *
 * Each line is "KEY VALUE"; what concerns a GPU has its index before the key: "0.name NVIDIA H200".
 * "init" and "0.error" give the code that starting, or asking a GPU, ends with. What has no line is
 * not supported, as on cards that do not know the answer, nor is what has "-"; "old 1" leaves out
 * what drivers before 510 have not. "like healthy" takes what has no line from healthy.txt beside it.
 *
 * A value may change: "0.clock 345 | busy 1980 | 3 1700 | 200ms 1500". The last part that holds is
 * the answer: "busy" while the file is there that NVML_STAND_IN_BUSY names, a number from as many
 * answers of that line on, milliseconds from the library's start on. Each answer of a busy GPU adds
 * a byte to that file, so that whoever keeps it busy knows that it was asked.
 *
 * "0.clock 345 | 2000ms 1980 | repeat 5000ms" begins anew every five seconds, and a number with
 * " +450000/s" behind it grows by as much a second. Time is that of the file that
 * NVML_STAND_IN_CLOCK names, in milliseconds since the start, or this machine's. "0.lost 15" is the
 * code that all calls for a GPU end with, "0.hang 1" has them wait until it is 0, "init_hang 1" the
 * start.
 *
 * "0.process 7 1000, 8 2000" are processes with their bytes, "0.shares 7 45, 8 30" the percent of
 * the GPU's multiprocessors that they use, "none" that none did. "0.tensor 85" is GPM's;
 * "0.throughput 5 6" what goes out and comes in by PCIe. Slices of GPU 1 are numbered from 1100 on:
 * "1099.process 9 10".
 *
 * "0.field.230 1" is a field's value, "0.field.161.3 1" that of link 3; "0.violation.1 5000" the
 * nanoseconds of a policy; "0.threshold.3 85" a temperature's threshold; "0.p2p.1 00055" one digit
 * for each kind of access from GPU 0 to GPU 1; "0.event 100 8 79" an event of type 8 with data 79,
 * 100 ms after an event set asked for it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    FUNCTION_NOT_FOUND = 13,
    CORRUPTED_INFOROM = 14
};

static char text[65536];
static struct line { char *key, *value; unsigned reads; } lines[2048];
static int num_lines, can_fail;
static long long started_ms;

static long long real_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Milliseconds since the start. */
static long long now_ms(void) {
    const char *path = getenv("NVML_STAND_IN_CLOCK");
    if (!path) return real_ms() - started_ms;
    char digits[32] = "";
    int file = open(path, O_RDONLY);
    if (file >= 0 && read(file, digits, sizeof digits - 1) < 0) digits[0] = 0;
    if (file >= 0) close(file);
    return atoll(digits);
}

static int holds(const char *when, unsigned reads, long long period_ms) {
    if (strncmp(when, "repeat ", 7) == 0) return 0;
    if (strncmp(when, "busy ", 5) == 0) {
        const char *path = getenv("NVML_STAND_IN_BUSY");
        int file = path ? open(path, O_WRONLY | O_APPEND) : -1;
        if (file < 0) return 0;
        ssize_t added = write(file, ".", 1);
        close(file);
        return added == 1;
    }
    char *unit;
    long long from = strtoll(when, &unit, 10);
    if (strncmp(unit, "ms", 2)) return reads >= from;
    return (period_ms ? now_ms() % period_ms : now_ms()) >= from;
}

/* Values that change are copied for the thread that asks, cut at the next part. */
static const char *current(struct line *line) {
    static __thread char copy[1024];
    unsigned reads = __atomic_fetch_add(&line->reads, 1, __ATOMIC_RELAXED);
    char *grows = strstr(line->value, " +");
    if (!strchr(line->value, '|') && !grows) return line->value;
    const char *repeat = strstr(line->value, " | repeat "), *value = line->value;
    long long period_ms = repeat ? atoll(repeat + strlen(" | repeat ")) : 0;
    for (const char *part = line->value; (part = strstr(part, " | "));) {
        part += 3;
        if (holds(part, reads, period_ms)) value = strchr(part, ' ') + 1;
    }
    const char *end = strstr(value, " | ");
    snprintf(copy, sizeof copy, "%.*s", (int)(end ? end - value : (long)strlen(value)), value);
    long long begin, rate;
    if (sscanf(copy, "%lld +%lld/s", &begin, &rate) == 2)
        snprintf(copy, sizeof copy, "%lld", begin + rate * now_ms() / 1000);
    return copy;
}

static const char *look(const char *key) {
    for (int i = 0; i < num_lines; i++)
        if (strcmp(lines[i].key, key) == 0) {
            const char *value = current(&lines[i]);
            return strcmp(value, "-") == 0 ? NULL : value;
        }
    return NULL;
}

/* The code that the last question of this thread ended with, for a GPU that answers none. */
static __thread int trouble;

static int state_of(const void *gpu, const char *key) {
    char full[128];
    snprintf(full, sizeof full, "%ld.%s", (long)gpu - 1, key);
    const char *found = look(full);
    return found ? atoi(found) : 0;
}

static const char *of(const void *gpu, const char *key) {
    char full[128];
    trouble = 0;
    if (can_fail) {
        while (state_of(gpu, "hang")) usleep(1000);
        trouble = state_of(gpu, "lost");
        if (trouble) return NULL;
    }
    snprintf(full, sizeof full, "%ld.%s", (long)gpu - 1, key);
    return look(full);
}

static int refusal(void) { return trouble ? trouble : NOT_SUPPORTED; }

static const char *numbered(const void *gpu, const char *key, long number) {
    char full[128];
    snprintf(full, sizeof full, "%s.%ld", key, number);
    return of(gpu, full);
}

static int number(const void *gpu, const char *key, unsigned *out) {
    const char *found = of(gpu, key);
    if (!found) return refusal();
    *out = strtoul(found, NULL, 0);
    return SUCCESS;
}

static int wide(const void *gpu, const char *key, unsigned long long *out) {
    const char *found = of(gpu, key);
    if (!found) return refusal();
    *out = strtoull(found, NULL, 0);
    return SUCCESS;
}

static int words(const char *found, char *out, unsigned length) {
    if (!found) return refusal();
    snprintf(out, length, "%s", found);
    return SUCCESS;
}

static int two(const void *gpu, const char *key, unsigned *a, unsigned *b) {
    const char *found = of(gpu, key);
    return found && sscanf(found, "%u %u", a, b) == 2 ? SUCCESS : refusal();
}

/* Reads a machine's lines into the rest of the text; lines that came before go first. */
static int read_machine(const char *path) {
    static size_t size;
    if (num_lines == 0) size = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char *begin = text + size, *like = NULL;
    size += fread(begin, 1, sizeof text - 1 - size, file);
    fclose(file);
    text[size++] = 0;
    for (char *line = strtok(begin, "\n"); line && num_lines < 2048; line = strtok(NULL, "\n")) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = 0;
        if (strcmp(line, "like") == 0)
            like = space + 1;
        else {
            const char *dot = strchr(line, '.');
            can_fail |= dot && (strcmp(dot, ".hang") == 0 || strcmp(dot, ".lost") == 0);
            lines[num_lines++] = (struct line){line, space + 1, 0};
        }
    }
    if (!like) return 1;
    char other[512];
    const char *slash = strrchr(path, '/');
    snprintf(other, sizeof other, "%.*s/%s.txt", (int)(slash ? slash - path : 1), slash ? path : ".",
             like);
    return read_machine(other);
}

int nvmlInitWithFlags(unsigned flags) {
    static int is_read;
    (void)flags;
    const char *path = getenv("NVML_STAND_IN");
    /* Started again by a second thread, it goes on: the first has lines in its hands. */
    if (!is_read) {
        num_lines = 0;
        started_ms = real_ms();
        if (!path || !read_machine(path)) return 9; /* driver not loaded */
        is_read = 1;
    }
    for (const char *hang; (hang = look("init_hang")) && atoi(hang);) usleep(1000);
    const char *code = look("init");
    return code ? atoi(code) : SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case 3: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 13: return "Function Not Found";
    case 14: return "infoROM is corrupted";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned n) {
    trouble = 0;
    return words(look("driver"), out, n);
}
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
    return code ? atoi(code) : trouble;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    unsigned count = 0;
    nvmlDeviceGetCount_v2(&count);
    for (unsigned i = 0; i < count; i++) {
        const char *own = of((void *)(long)(i + 1), "uuid");
        if (own && strcmp(own, uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(i, out);
    }
    return NOT_FOUND;
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
    unsigned long long total = 0, used = 0, reserved = 0;
    if (wide(g, "memory", &total)) return refusal();
    wide(g, "used", &used);
    wide(g, "reserved", &reserved);
    out[0] = total, out[1] = total - used - reserved, out[2] = used + reserved;
    return SUCCESS;
}
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *g, struct memory *out) {
    if (look("old")) return FUNCTION_NOT_FOUND;
    if (wide(g, "memory", &out->total)) return refusal();
    out->used = out->reserved = 0;
    wide(g, "used", &out->used);
    wide(g, "reserved", &out->reserved);
    out->free = out->total - out->used - out->reserved;
    return SUCCESS;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *g, struct pci *out) {
    memset(out, 0, sizeof *out);
    number(g, "subsystem", &out->subsystem);
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
    *out = (void *)(1000 + ((long)g - 1) * 100 + index);
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
    if (!found || link >= strlen(found)) return refusal();
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
    return read == 4 ? SUCCESS : refusal();
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
    if (two(g, "retired", &single, &twice)) return refusal();
    unsigned found = cause == 0 ? single : twice;
    if (out && *count < found) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; out && i < found; i++) out[i] = i;
    *count = found;
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
static unsigned count_of(const char *list) {
    unsigned found = 1;
    while ((list = strchr(list, ','))) list++, found++;
    return found;
}
static int processes(void *g, const char *key, unsigned *count, struct process *out) {
    const char *found = of(g, key);
    if (!found) {
        *count = 0;
        return trouble;
    }
    unsigned listed = count_of(found);
    int is_short = *count < listed || !out;
    *count = listed;
    if (is_short) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < listed; i++, found = strchr(found, ',') + 1) {
        memset(&out[i], 0, sizeof out[i]);
        if (sscanf(found, "%u %llu", &out[i].pid, &out[i].memory) != 2) return 999;
        if (i + 1 == listed) break;
    }
    return SUCCESS;
}
struct share { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *g, struct share *out, unsigned *count,
                                    unsigned long long since_us) {
    const char *found = of(g, "shares");
    if (!found) return refusal();
    unsigned long long at_us = (now_ms() + 1) * 1000;
    if (strcmp(found, "none") == 0 || at_us <= since_us) return NOT_FOUND;
    unsigned listed = count_of(found);
    int is_short = *count < listed || !out;
    *count = listed;
    if (is_short) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < listed; i++, found = strchr(found, ',') + 1) {
        out[i] = (struct share){.at_us = at_us};
        if (sscanf(found, "%u %u", &out[i].pid, &out[i].sm) != 2) return 999;
        if (i + 1 == listed) break;
    }
    return SUCCESS;
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
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *g, unsigned *count, struct process *out) {
    return look("old") ? FUNCTION_NOT_FOUND : processes(g, "mps", count, out);
}

int nvmlDeviceGetVbiosVersion(void *g, char *out, unsigned n) { return words(of(g, "vbios"), out, n); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *g, unsigned *out) {
    return number(g, "default_power", out);
}
int nvmlDeviceGetApplicationsClock(void *g, int type, unsigned *out) {
    return number(g, type == 2 ? "app_memory_clock" : "app_clock", out);
}
int nvmlDeviceGetDefaultApplicationsClock(void *g, int type, unsigned *out) {
    return number(g, type == 2 ? "default_app_memory_clock" : "default_app_clock", out);
}
int nvmlDeviceGetTotalEnergyConsumption(void *g, unsigned long long *out) {
    return wide(g, "energy", out);
}
int nvmlDeviceGetTemperatureThreshold(void *g, int type, unsigned *out) {
    const char *found = numbered(g, "threshold", type);
    if (!found) return refusal();
    *out = atoi(found);
    return SUCCESS;
}
struct margin { unsigned version; int degrees; };
int nvmlDeviceGetMarginTemperature(void *g, struct margin *out) {
    const char *found = of(g, "margin");
    if (!found) return refusal();
    out->degrees = atoi(found);
    return SUCCESS;
}
struct violation { unsigned long long at_us, for_ns; };
int nvmlDeviceGetViolationStatus(void *g, int policy, struct violation *out) {
    const char *found = numbered(g, "violation", policy);
    if (!found) return refusal();
    out->at_us = now_ms() * 1000;
    out->for_ns = strtoull(found, NULL, 0);
    return SUCCESS;
}
struct field {
    unsigned id, scope;
    long long at, latency;
    unsigned type, code;
    unsigned long long value;
};
int nvmlDeviceGetFieldValues(void *g, int count, struct field *out) {
    for (int i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "field.%u", out[i].id);
        const char *found = numbered(g, key, out[i].scope);
        if (!found) found = of(g, key);
        if (trouble) return trouble;
        out[i].code = found ? SUCCESS : refusal();
        out[i].type = 3; /* unsigned long long */
        out[i].value = found ? strtoull(found, NULL, 0) : 0;
    }
    return SUCCESS;
}
/* What other monitors ask, which `bench/top.py` compares with. */
int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
int nvmlDeviceGetPowerManagementLimit(void *g, unsigned *out) {
    return number(g, "power_limit", out);
}
int nvmlDeviceGetIndex(void *g, unsigned *out) {
    *out = (long)g - 1;
    return SUCCESS;
}
int nvmlDeviceGetPerformanceState(void *g, unsigned *out) { return number(g, "pstate", out); }
int nvmlDeviceGetDisplayActive(void *g, unsigned *out) { return number(g, "display", out); }
int nvmlDeviceGetDriverModel(void *g, unsigned *now, unsigned *later) {
    return two(g, "driver_model", now, later);
}
int nvmlDeviceGetEncoderUtilization(void *g, unsigned *out, unsigned *period_us) {
    *period_us = 0;
    return number(g, "encoder", out);
}
int nvmlDeviceGetDecoderUtilization(void *g, unsigned *out, unsigned *period_us) {
    *period_us = 0;
    return number(g, "decoder", out);
}
int nvmlDeviceGetFanSpeed(void *g, unsigned *out) { return number(g, "fan", out); }
int nvmlDeviceGetPcieThroughput(void *g, int direction, unsigned *out) {
    unsigned sent, received;
    int code = two(g, "throughput", &sent, &received);
    *out = direction == 0 ? sent : received;
    return code;
}
struct support { unsigned version, is_supported; };
int nvmlGpmQueryDeviceSupport(void *g, struct support *out) {
    out->is_supported = of(g, "tensor") != NULL;
    return trouble;
}
int nvmlGpmSampleAlloc(double **out) {
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
int nvmlGpmSampleFree(double *sample) {
    free(sample);
    return SUCCESS;
}
int nvmlGpmSampleGet(void *g, double *sample) {
    const char *found = of(g, "tensor");
    if (!found) return refusal();
    *sample = atof(found);
    return SUCCESS;
}
struct metrics {
    unsigned version, count;
    double *first, *second;
    struct { unsigned id; int code; double value; const char *names[3]; } metric[1];
};
int nvmlGpmMetricsGet(struct metrics *out) {
    out->metric[0].code = SUCCESS;
    out->metric[0].value = *out->second;
    return SUCCESS;
}
int nvmlDeviceGetPcieReplayCounter(void *g, unsigned *out) { return number(g, "replays", out); }
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void *g, unsigned *out) {
    return number(g, "gpu_max_pcie", out);
}
int nvmlDeviceGetPcieSpeed(void *g, unsigned *out) { return number(g, "pcie_speed", out); }
int nvmlDeviceGetPcieLinkMaxSpeed(void *g, unsigned *out) {
    return number(g, "max_pcie_speed", out);
}
int nvmlDeviceValidateInforom(void *g) {
    unsigned is_valid;
    if (number(g, "inforom", &is_valid)) return refusal();
    return is_valid ? SUCCESS : CORRUPTED_INFOROM;
}
struct sram { unsigned version; unsigned long long counts[11]; unsigned is_exceeded; };
int nvmlDeviceGetSramEccErrorStatus(void *g, struct sram *out) {
    return look("old") ? FUNCTION_NOT_FOUND : number(g, "sram", &out->is_exceeded);
}
struct fabric { unsigned version; char uuid[16]; unsigned status, clique, state, health; };
int nvmlDeviceGetGpuFabricInfoV(void *g, struct fabric *out) {
    const char *found = of(g, "fabric"); /* state, status, health mask */
    if (!found) return look("old") ? FUNCTION_NOT_FOUND : refusal();
    return sscanf(found, "%u %u %i", &out->state, &out->status, (int *)&out->health) == 3 ? SUCCESS
                                                                                         : 999;
}
int nvmlDeviceGetVirtualizationMode(void *g, unsigned *out) {
    return number(g, "virtualization", out);
}
struct licences {
    int is_supported;
    unsigned count;
    struct {
        unsigned code, state;
        char about[128], product[128];
        unsigned is_enabled;
        struct { unsigned year; unsigned short month, day, hour, minute, second; char status; } end;
    } features[3];
};
int nvmlDeviceGetGridLicensableFeatures_v4(void *g, struct licences *out) {
    unsigned state;
    memset(out, 0, sizeof *out);
    if (number(g, "licence", &state)) return refusal();
    out->is_supported = out->count = 1;
    out->features[0].code = 1; /* vGPU */
    out->features[0].state = out->features[0].is_enabled = state;
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int kind, unsigned *out) {
    const char *found = numbered(a, "p2p", (long)b - 1);
    if (!found) found = numbered(b, "p2p", (long)a - 1);
    if (!found || kind < 0 || kind >= (int)strlen(found)) return refusal();
    *out = found[kind] - '0';
    return SUCCESS;
}
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *out) {
    const char *found = numbered(a, "topology", (long)b - 1);
    if (!found) found = numbered(b, "topology", (long)a - 1);
    if (!found) return refusal();
    *out = atoi(found);
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *g, unsigned link, unsigned *out) {
    const char *found = of(g, "nvlink_remotes"); /* one digit for each link: 0 a GPU, 2 a switch */
    if (!found || link >= strlen(found)) return refusal();
    *out = found[link] - '0';
    return SUCCESS;
}

struct set { int is_used; long long since_ms; unsigned long long types[64]; char is_told[2048]; };
struct event { void *gpu; unsigned long long type, data; unsigned instance, compute; };
int nvmlEventSetCreate(struct set **out) {
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
int nvmlEventSetFree(struct set *set) {
    free(set);
    return SUCCESS;
}
int nvmlDeviceGetSupportedEventTypes(void *g, unsigned long long *out) {
    return wide(g, "event_types", out);
}
int nvmlDeviceRegisterEvents(void *g, unsigned long long types, struct set *set) {
    unsigned long long known = 0;
    if ((long)g > 64 || wide(g, "event_types", &known) || types & ~known) return refusal();
    if (!set->is_used) set->since_ms = now_ms();
    set->is_used = 1;
    set->types[(long)g - 1] |= types;
    return SUCCESS;
}
int nvmlEventSetWait_v2(struct set *set, struct event *out, unsigned timeout_ms) {
    for (long long end = real_ms() + timeout_ms;;) {
        for (int i = 0; i < num_lines; i++) {
            long gpu;
            char key[16];
            long long at;
            if (set->is_told[i] || sscanf(lines[i].key, "%ld.%15s", &gpu, key) != 2) continue;
            if (strcmp(key, "event") || gpu < 0 || gpu >= 64) continue;
            if (sscanf(lines[i].value, "%lld %llu %llu", &at, &out->type, &out->data) != 3) continue;
            if (!(set->types[gpu] & out->type) || now_ms() - set->since_ms < at) continue;
            set->is_told[i] = 1;
            out->gpu = (void *)(gpu + 1);
            out->instance = out->compute = ~0u;
            return SUCCESS;
        }
        if (real_ms() >= end) return TIMEOUT;
        usleep(1000);
    }
}
