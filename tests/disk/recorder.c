/* Records what a process, and those it starts, do to files below one folder, for `recording.py` to replay.

   cc -shared -fPIC -O1 -o recorder.so recorder.c -ldl
   LD_PRELOAD=recorder.so DISK_ROOT=/data DISK_LOG=/elsewhere/log command

   One record per call that succeeded, appended with one write, so that the log's order is the order of events. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))
#define MAX_FD 65536

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, LINK, SYNC, SYNC_ALL };

struct record { uint32_t magic, op; uint64_t inode, offset; uint32_t path, path2; uint64_t data; };

static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_length;
static unsigned char below[MAX_FD]; /* 0 not known, 1 elsewhere, 2 below the root */

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("DISK_LOG"), *folder = getenv("DISK_ROOT");
    if (!log || !folder) return;
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    int fd = REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    /* Far from what programs count on, such as 3 being the first that is free. */
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 1000);
    REAL(close)(fd);
}

static int is_below(const char *path) {
    return log_fd >= 0 && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* The absolute path, without following the last part. */
static int absolute(int folder, const char *path, char *out) {
    char joined[PATH_MAX * 2];
    if (path[0] == '/') snprintf(joined, sizeof joined, "%s", path);
    else if (folder == AT_FDCWD) {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(joined, sizeof joined, "%s/%s", here, path);
    } else {
        char link[64], there[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, there, sizeof there - 1);
        if (length < 0) return 0;
        there[length] = 0;
        snprintf(joined, sizeof joined, "%s/%s", there, path);
    }
    /* "//", "/./" and a slash at the end go. */
    char *to = out;
    for (const char *from = joined; *from && to < out + PATH_MAX - 1; from++) {
        if (from[0] == '/' && from[1] == '/') continue;
        if (from[0] == '/' && from[1] == '.' && (from[2] == '/' || !from[2])) { from++; continue; }
        *to++ = *from;
    }
    if (to > out + 1 && to[-1] == '/') to--;
    *to = 0;
    return is_below(out);
}

static void note(int op, uint64_t inode, uint64_t offset, const char *path, const char *path2, const void *data, size_t size) {
    int before = errno;
    struct record head = {0x4b534944, op, inode, offset, path ? strlen(path) : 0, path2 ? strlen(path2) : 0, size};
    struct iovec parts[4] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)path2, head.path2}, {(void *)data, size}};
    if (REAL(writev)(log_fd, parts, 4) < 0) abort();
    errno = before;
}

static int tracked(int fd) {
    if (log_fd < 0 || fd < 0 || fd >= MAX_FD || fd == log_fd) return 0;
    if (!below[fd]) {
        int before = errno;
        char link[64], path[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = 0;
        below[fd] = is_below(path) ? 2 : 1;
        errno = before;
    }
    return below[fd] == 2;
}

static uint64_t inode_of(int fd) { struct stat it; int before = errno; uint64_t n = fstat(fd, &it) ? 0 : it.st_ino; errno = before; return n; }

static int opened(int fd, int folder, const char *path, int flags, int was_there) {
    if (fd < 0 || fd >= MAX_FD) return fd;
    char full[PATH_MAX];
    below[fd] = 0;
    if (log_fd < 0 || (flags & O_PATH) || !absolute(folder, path, full)) return fd;
    if ((flags & O_CREAT) && !was_there) note(CREATE, inode_of(fd), 0, full, NULL, NULL, 0);
    else if (flags & O_TRUNC) note(TRUNCATE, inode_of(fd), 0, NULL, NULL, NULL, 0);
    return fd;
}

static int exists(int folder, const char *path) { struct stat it; int before = errno; int is = !fstatat(folder, path, &it, AT_SYMLINK_NOFOLLOW); errno = before; return is; }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, int); va_end(a); } \
        int was_there = (flags & O_CREAT) ? exists(AT_FDCWD, path) : 1; \
        return opened(REAL(name)(path, flags, mode), AT_FDCWD, path, flags, was_there); \
    }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, int); va_end(a); } \
        int was_there = (flags & O_CREAT) ? exists(folder, path) : 1; \
        return opened(REAL(name)(folder, path, flags, mode), folder, path, flags, was_there); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) { if (fd == log_fd && fd >= 0) return 0; if (fd >= 0 && fd < MAX_FD) below[fd] = 0; return REAL(close)(fd); }
int dup2(int from, int to) { if (to >= 0 && to < MAX_FD) below[to] = 0; return REAL(dup2)(from, to); }
int dup3(int from, int to, int flags) { if (to >= 0 && to < MAX_FD) below[to] = 0; return REAL(dup3)(from, to, flags); }

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = REAL(write)(fd, data, size);
    if (done > 0 && tracked(fd)) note(WRITE, inode_of(fd), lseek(fd, 0, SEEK_CUR) - done, NULL, NULL, data, done);
    return done;
}
#define PWRITE(name, type) \
    ssize_t name(int fd, const void *data, size_t size, type offset) { \
        ssize_t done = REAL(name)(fd, data, size, offset); \
        if (done > 0 && tracked(fd)) note(WRITE, inode_of(fd), offset, NULL, NULL, data, done); \
        return done; \
    }
PWRITE(pwrite, off_t) PWRITE(pwrite64, off64_t)

static void note_parts(int fd, const struct iovec *parts, int count, ssize_t done, uint64_t offset) {
    for (int i = 0; i < count && done > 0; i++) {
        size_t size = parts[i].iov_len < (size_t)done ? parts[i].iov_len : (size_t)done;
        if (size) note(WRITE, inode_of(fd), offset, NULL, NULL, parts[i].iov_base, size);
        offset += size; done -= size;
    }
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t done = REAL(writev)(fd, parts, count);
    if (done > 0 && tracked(fd)) note_parts(fd, parts, count, done, lseek(fd, 0, SEEK_CUR) - done);
    return done;
}
#define PWRITEV(name, type) \
    ssize_t name(int fd, const struct iovec *parts, int count, type offset) { \
        ssize_t done = REAL(name)(fd, parts, count, offset); \
        if (done > 0 && tracked(fd)) note_parts(fd, parts, count, done, offset); \
        return done; \
    }
PWRITEV(pwritev, off_t) PWRITEV(pwritev64, off64_t)
#define PWRITEV2(name, type) \
    ssize_t name(int fd, const struct iovec *parts, int count, type offset, int flags) { \
        ssize_t done = REAL(name)(fd, parts, count, offset, flags); \
        if (done > 0 && tracked(fd)) note_parts(fd, parts, count, done, offset >= 0 ? offset : lseek(fd, 0, SEEK_CUR) - done); \
        return done; \
    }
PWRITEV2(pwritev2, off_t) PWRITEV2(pwritev64v2, off64_t)

#define FTRUNCATE(name, type) \
    int name(int fd, type size) { \
        int failed = REAL(name)(fd, size); \
        if (!failed && tracked(fd)) note(TRUNCATE, inode_of(fd), size, NULL, NULL, NULL, 0); \
        return failed; \
    }
FTRUNCATE(ftruncate, off_t) FTRUNCATE(ftruncate64, off64_t)

#define SYNC_CALL(name) \
    int name(int fd) { \
        int failed = REAL(name)(fd); \
        if (!failed && tracked(fd)) { \
            char link[64], path[PATH_MAX]; struct stat it; \
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd); \
            ssize_t length = readlink(link, path, sizeof path - 1); \
            path[length < 0 ? 0 : length] = 0; \
            int is_folder = !fstat(fd, &it) && S_ISDIR(it.st_mode); \
            note(SYNC, inode_of(fd), 0, is_folder ? path : NULL, NULL, NULL, 0); \
        } \
        return failed; \
    }
SYNC_CALL(fsync) SYNC_CALL(fdatasync)
int syncfs(int fd) { int failed = REAL(syncfs)(fd); if (!failed && log_fd >= 0) note(SYNC_ALL, 0, 0, NULL, NULL, NULL, 0); return failed; }
void sync(void) { REAL(sync)(); if (log_fd >= 0) note(SYNC_ALL, 0, 0, NULL, NULL, NULL, 0); }

static int renamed(int failed, int a, const char *from, int b, const char *to) {
    char one[PATH_MAX], two[PATH_MAX];
    if (!failed && absolute(a, from, one) && absolute(b, to, two)) note(RENAME, 0, 0, one, two, NULL, 0);
    return failed;
}
int rename(const char *from, const char *to) { return renamed(REAL(rename)(from, to), AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int a, const char *from, int b, const char *to) { return renamed(REAL(renameat)(a, from, b, to), a, from, b, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return renamed(REAL(renameat2)(a, from, b, to, flags), a, from, b, to); }

static int linked(int failed, int a, const char *from, int b, const char *to) {
    char one[PATH_MAX], two[PATH_MAX];
    if (!failed && absolute(a, from, one) && absolute(b, to, two)) note(LINK, 0, 0, one, two, NULL, 0);
    return failed;
}
int link(const char *from, const char *to) { return linked(REAL(link)(from, to), AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return linked(REAL(linkat)(a, from, b, to, flags), a, from, b, to); }

static int at(int op, int failed, int folder, const char *path) {
    char full[PATH_MAX];
    if (!failed && absolute(folder, path, full)) note(op, 0, 0, full, NULL, NULL, 0);
    return failed;
}
int unlink(const char *path) { return at(UNLINK, REAL(unlink)(path), AT_FDCWD, path); }
int unlinkat(int folder, const char *path, int flags) { return at(UNLINK, REAL(unlinkat)(folder, path, flags), folder, path); }
int rmdir(const char *path) { return at(UNLINK, REAL(rmdir)(path), AT_FDCWD, path); }
int remove(const char *path) { return at(UNLINK, REAL(remove)(path), AT_FDCWD, path); }
int mkdir(const char *path, mode_t mode) { return at(MKDIR, REAL(mkdir)(path, mode), AT_FDCWD, path); }
int mkdirat(int folder, const char *path, mode_t mode) { return at(MKDIR, REAL(mkdirat)(folder, path, mode), folder, path); }
