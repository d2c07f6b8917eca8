/* Fails or ends a process at the n-th call that changes a directory: see crash_points.py.

   Loaded by LD_PRELOAD. Arms itself from the environment at the first such call, so that a process
   forked from one that has it loaded is armed as well:

   CRASH_DIRECTORY  changes below it count
   CRASH_CALLS      a file of one page that all processes share: their count, and the call at which one
                    was crashed
   CRASH_AT         the number of that call, from 1; 0 for none
   CRASH_KIND       kill: SIGKILL before the call; torn: SIGKILL after half of a write; error: the call
                    fails with EIO; full: from then on, all that takes space fails with ENOSPC */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *directory;
static volatile long *calls;
static long at;
static char kind;

/* Returns whether changes count; programs other than Python are left alone. */
static int is_armed(void)
{
    if (calls) return 1;
    const char *file = getenv("CRASH_CALLS"), *number = getenv("CRASH_AT");
    const char *word = getenv("CRASH_KIND"), *below = getenv("CRASH_DIRECTORY");
    if (!file || !number || !word || !below) return 0;
    if (strncmp(program_invocation_short_name, "python", 6)) return 0;
    static int (*real)(const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    int fd = real(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return 0;
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) return 0;
    directory = strdup(below);
    at = atol(number);
    kind = word[0];
    calls = page;
    return 1;
}

static int is_below(const char *path)
{
    size_t n = strlen(directory);
    return !strncmp(path, directory, n) && (!path[n] || path[n] == '/');
}

static int of_descriptor(int fd, char *path)
{
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    errno = before;
    path[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Writes the absolute path of a name; returns whether it is below the directory. */
static int of_name(int fd, const char *name, char *path)
{
    if (!name) return 0;
    if (name[0] == '/') {
        snprintf(path, 4096, "%s", name);
    } else {
        if (fd == AT_FDCWD ? !getcwd(path, 2048) : !of_descriptor(fd, path)) return 0;
        size_t n = strlen(path);
        snprintf(path + n, 4096 - n, "/%s", name);
    }
    return is_below(path);
}

/* Counts a call; returns 1 where it is to fail, 2 where it is to be torn. Does not return from a kill. */
static int crashes(const char *call, const char *path, int takes_space, int is_write)
{
    long number = __sync_add_and_fetch(calls, 1);
    if (!at || number < at || (number > at && kind != 'f')) return 0;
    if (number == at) snprintf((char *)(calls + 1), 2048, "%s %s", call, path);
    if (kind == 'k' || (kind == 't' && !is_write)) kill(getpid(), SIGKILL);
    if (kind == 't') return 2;
    if (kind == 'f' && !takes_space) return 0;
    errno = kind == 'f' ? ENOSPC : EIO;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OF_DESCRIPTOR(name, fd, takes_space) \
    char path[4096]; \
    if (is_armed() && of_descriptor(fd, path) && is_below(path) && crashes(#name, path, takes_space, 0)) \
    return -1

#define OF_NAME(name, fd, file, takes_space) \
    char path[4096]; \
    if (is_armed() && of_name(fd, file, path) && crashes(#name, path, takes_space, 0)) return -1

#define WRITE(name, tear) \
    char path[4096]; \
    if (is_armed() && of_descriptor(fd, path) && is_below(path)) \
        switch (crashes(#name, path, 1, 1)) { \
        case 1: return -1; \
        case 2: tear; kill(getpid(), SIGKILL); \
        }

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write);
    WRITE(write, real(fd, data, n / 2));
    return real(fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    REAL(pwrite);
    WRITE(pwrite, real(fd, data, n / 2, offset));
    return real(fd, data, n, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t offset)
{
    REAL(pwrite64);
    WRITE(pwrite64, real(fd, data, n / 2, offset));
    return real(fd, data, n, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int n)
{
    REAL(writev);
    WRITE(writev, real(fd, parts, n / 2));
    return real(fd, parts, n);
}
ssize_t sendfile64(int fd, int from, off64_t *offset, size_t n)
{
    REAL(sendfile64);
    WRITE(sendfile64, real(fd, from, offset, n / 2));
    return real(fd, from, offset, n);
}
ssize_t sendfile(int fd, int from, off_t *offset, size_t n)
{
    REAL(sendfile);
    WRITE(sendfile, real(fd, from, offset, n / 2));
    return real(fd, from, offset, n);
}
ssize_t copy_file_range(int from, off64_t *start, int fd, off64_t *offset, size_t n, unsigned flags)
{
    REAL(copy_file_range);
    WRITE(copy_file_range, real(from, start, fd, offset, n / 2, flags));
    return real(from, start, fd, offset, n, flags);
}

#define SYNC(name) \
    int name(int fd) { REAL(name); OF_DESCRIPTOR(name, fd, 0); return real(fd); }
SYNC(fsync)
SYNC(fdatasync)

#define CUT(name, type) \
    int name(int fd, type size) { REAL(name); OF_DESCRIPTOR(name, fd, 0); return real(fd, size); }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define RESERVE(name, type) \
    int name(int fd, type from, type n) \
    { \
        REAL(name); \
        char path[4096]; \
        if (is_armed() && of_descriptor(fd, path) && is_below(path) && crashes(#name, path, 1, 0)) return errno; \
        return real(fd, from, n); \
    }
RESERVE(posix_fallocate, off_t)
RESERVE(posix_fallocate64, off64_t)

#define REMOVE(name) \
    int name(const char *file) { REAL(name); OF_NAME(name, AT_FDCWD, file, 0); return real(file); }
REMOVE(unlink)
REMOVE(rmdir)
int unlinkat(int fd, const char *file, int flags)
{
    REAL(unlinkat);
    OF_NAME(unlinkat, fd, file, 0);
    return real(fd, file, flags);
}
int rename(const char *from, const char *to)
{
    REAL(rename);
    OF_NAME(rename, AT_FDCWD, to, 0);
    return real(from, to);
}
int renameat(int from_fd, const char *from, int fd, const char *to)
{
    REAL(renameat);
    OF_NAME(renameat, fd, to, 0);
    return real(from_fd, from, fd, to);
}
int renameat2(int from_fd, const char *from, int fd, const char *to, unsigned flags)
{
    REAL(renameat2);
    OF_NAME(renameat2, fd, to, 0);
    return real(from_fd, from, fd, to, flags);
}
int mkdir(const char *file, mode_t mode)
{
    REAL(mkdir);
    OF_NAME(mkdir, AT_FDCWD, file, 1);
    return real(file, mode);
}
int mkdirat(int fd, const char *file, mode_t mode)
{
    REAL(mkdirat);
    OF_NAME(mkdirat, fd, file, 1);
    return real(fd, file, mode);
}
int link(const char *from, const char *to)
{
    REAL(link);
    OF_NAME(link, AT_FDCWD, to, 1);
    return real(from, to);
}
int linkat(int from_fd, const char *from, int fd, const char *to, int flags)
{
    REAL(linkat);
    OF_NAME(linkat, fd, to, 1);
    return real(from_fd, from, fd, to, flags);
}
int symlink(const char *from, const char *to)
{
    REAL(symlink);
    OF_NAME(symlink, AT_FDCWD, to, 1);
    return real(from, to);
}

#define WRITES(flags) ((flags) & (O_CREAT | O_TRUNC))

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPEN(name) \
    int name(const char *file, int flags, ...) \
    { \
        REAL(name); \
        MODE; \
        if (WRITES(flags)) { OF_NAME(name, AT_FDCWD, file, access(file, F_OK)); } \
        return real(file, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name) \
    int name(int fd, const char *file, int flags, ...) \
    { \
        REAL(name); \
        MODE; \
        if (WRITES(flags)) { OF_NAME(name, fd, file, faccessat(fd, file, F_OK, 0)); } \
        return real(fd, file, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)
