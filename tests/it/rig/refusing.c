/* A disk that refuses, put before the relay by LD_PRELOAD; the program itself knows nothing of it. As long as the file $DISK_REFUSES is there, calls
   that change a file fail: it says which calls (open, write, sync), with which errno, and a part of the path that they must have. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int refused(const char *call, const char *path) {
    char text[512], calls[64], part[256];
    int error;
    const char *control = getenv("DISK_REFUSES");
    int fd = control ? REAL(open)(control, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    if (sscanf(text, "%63s %d %255s", calls, &error, part) != 3 || !strstr(calls, call) || !strstr(path, part)) return 0;
    errno = error;
    return 1;
}

static int refused_fd(const char *call, int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return refused(call, path);
}

#define ON_FD(call, type, name, parameters, arguments) \
    type name parameters { return refused_fd(call, fd) ? -1 : REAL(name) arguments; }

ON_FD("write", ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
ON_FD("write", ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
ON_FD("write", int, ftruncate64, (int fd, off64_t length), (fd, length))
ON_FD("sync", int, fdatasync, (int fd), (fd))
ON_FD("sync", int, fsync, (int fd), (fd))

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return (flags & (O_ACCMODE | O_CREAT)) != O_RDONLY && refused("open", path) ? -1 : REAL(open64)(path, flags, mode);
}
