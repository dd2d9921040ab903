/* Counts the changes that one process makes below one directory, and at one of them kills it or makes the call fail.
 *
 * Loaded with LD_PRELOAD. Does nothing until ``interpose_arm`` is called (through ctypes, by a freshly forked child),
 * and then only in the process that called it: what that process starts is left alone. Counted: open for writing or
 * with O_CREAT, write, pwrite, writev, rename, link, symlink, unlink, rmdir, mkdir, fsync, fdatasync, truncate, chmod,
 * chown, utime. Paths are judged as they are spelled, relative ones against their directory: links are not followed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RECORD, KILL_BEFORE, KILL_AFTER, FAIL, SHORT };

static char root[PATH_MAX], wanted[PATH_MAX];
static size_t root_len;
static pid_t armed_pid;
static int action, code, note_fd = -1;
static long at_call, lasts_ms;
static atomic_long calls;
static atomic_llong broken_until_ns;

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* n: the call at which it happens, from 1. lasts: for FAIL and SHORT, how many milliseconds every further call fails
 * with the same code; 0 is that one call only. fd: where to write what happened. only: a glob over "CALL PATH PATH";
 * calls that do not match are not counted. */
void interpose_arm(const char *below, int what, long n, int with, long lasts, int fd, const char *only) {
    snprintf(wanted, sizeof wanted, "%s", only);
    snprintf(root, sizeof root, "%s/", below);
    root_len = strlen(root);
    action = what, at_call = n, code = with, lasts_ms = lasts, note_fd = fd;
    atomic_store(&calls, 0);
    atomic_store(&broken_until_ns, 0);
    armed_pid = getpid();
}

static int is_ours(const char *path) {
    size_t len = strlen(path);
    return (len >= root_len && memcmp(path, root, root_len) == 0) ||
           (len == root_len - 1 && memcmp(path, root, len) == 0);
}

static int of_fd(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlink, link, out, PATH_MAX - 1);
    if (len < 0) return 0;
    out[len] = 0;
    return 1;
}

static int of_path(int dir, const char *path, char *out) {
    char base[PATH_MAX];
    if (path == NULL) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return 1;
    }
    if (dir == AT_FDCWD ? getcwd(base, sizeof base) == NULL : !of_fd(dir, base)) return 0;
    snprintf(out, 2 * PATH_MAX, "%s/%s", base, path);
    return 1;
}

static void note(const char *what, long n, const char *call, const char *one, const char *two) {
    char line[4 * PATH_MAX];
    if (note_fd < 0) return;
    int len = snprintf(line, sizeof line, "%s\t%ld\t%s\t%s\t%s\n", what, n, call, one, two ? two : "");
    syscall(SYS_write, note_fd, line, len);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) syscall(SYS_pause);
}

enum verdict { PASS, REFUSE, HALF, THEN_DIE };

/* While the disk is broken: after a short write, further writes fail (it is full), and nothing else does. */
static enum verdict while_broken(int can_be_short) { return action == SHORT && !can_be_short ? PASS : REFUSE; }

/* What is to become of one call below the root. */
static enum verdict judge(const char *call, const char *one, const char *two, int can_be_short) {
    char line[4 * PATH_MAX];
    snprintf(line, sizeof line, "%s %s %s", call, one, two ? two : "");
    if (wanted[0] && fnmatch(wanted, line, 0) != 0) return PASS;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (action == RECORD) {
        note("call", n, call, one, two);
        return PASS;
    }
    if (n != at_call) return now_ns() < atomic_load(&broken_until_ns) ? while_broken(can_be_short) : PASS;
    switch (action) {
    case KILL_BEFORE:
        note("killed before", n, call, one, two);
        die();
        return PASS;
    case KILL_AFTER:
        note("killed after", n, call, one, two);
        return THEN_DIE;
    case FAIL:
        note("failed", n, call, one, two);
        atomic_store(&broken_until_ns, now_ns() + lasts_ms * 1000000LL);
        return REFUSE;
    default:
        note(can_be_short ? "short" : "passed", n, call, one, two);
        atomic_store(&broken_until_ns, now_ns() + lasts_ms * 1000000LL);
        return can_be_short ? HALF : PASS;
    }
}

static enum verdict ask(const char *call, int dir, const char *path, int dir2, const char *path2) {
    char one[3 * PATH_MAX], two[3 * PATH_MAX];
    two[0] = 0;
    if (armed_pid == 0 || armed_pid != getpid()) return PASS;
    int saved = errno;
    int ours = of_path(dir, path, one) && is_ours(one);
    if (path2 != NULL) ours |= of_path(dir2, path2, two) && is_ours(two);
    enum verdict found = ours ? judge(call, one, two, 0) : PASS;
    errno = saved;
    return found;
}

static enum verdict ask_fd(const char *call, int fd, int can_be_short) {
    char one[PATH_MAX];
    if (armed_pid == 0 || armed_pid != getpid()) return PASS;
    int saved = errno;
    enum verdict found = of_fd(fd, one) && is_ours(one) ? judge(call, one, NULL, can_be_short) : PASS;
    errno = saved;
    return found;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FINISH(given, expression) \
    do { \
        enum verdict finish_ = (given); \
        if (finish_ == REFUSE) { errno = code; return -1; } \
        __typeof__(expression) result_ = (expression); \
        if (finish_ == THEN_DIE) die(); \
        return result_; \
    } while (0)

#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))
#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(flags)
    if (!CHANGES(flags)) return real(path, flags, mode);
    FINISH(ask("open", AT_FDCWD, path, 0, NULL), real(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE_OF(flags)
    if (!CHANGES(flags)) return real(path, flags, mode);
    FINISH(ask("open", AT_FDCWD, path, 0, NULL), real(path, flags, mode));
}

int openat(int dir, const char *path, int flags, ...) {
    REAL(openat);
    MODE_OF(flags)
    if (!CHANGES(flags)) return real(dir, path, flags, mode);
    FINISH(ask("open", dir, path, 0, NULL), real(dir, path, flags, mode));
}

int openat64(int dir, const char *path, int flags, ...) {
    REAL(openat64);
    MODE_OF(flags)
    if (!CHANGES(flags)) return real(dir, path, flags, mode);
    FINISH(ask("open", dir, path, 0, NULL), real(dir, path, flags, mode));
}

int creat(const char *path, mode_t mode) {
    REAL(creat);
    FINISH(ask("open", AT_FDCWD, path, 0, NULL), real(path, mode));
}

static size_t shortened(enum verdict found, size_t count) { return found == HALF && count > 1 ? count / 2 : count; }

ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    enum verdict found = ask_fd("write", fd, 1);
    FINISH(found, real(fd, data, shortened(found, count)));
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) {
    REAL(pwrite);
    enum verdict found = ask_fd("pwrite", fd, 1);
    FINISH(found, real(fd, data, shortened(found, count), offset));
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    REAL(pwrite64);
    enum verdict found = ask_fd("pwrite", fd, 1);
    FINISH(found, real(fd, data, shortened(found, count), offset));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    FINISH(ask_fd("writev", fd, 0), real(fd, parts, count));
}

int rename(const char *from, const char *to) {
    REAL(rename);
    FINISH(ask("rename", AT_FDCWD, from, AT_FDCWD, to), real(from, to));
}

int renameat(int dir, const char *from, int dir2, const char *to) {
    REAL(renameat);
    FINISH(ask("rename", dir, from, dir2, to), real(dir, from, dir2, to));
}

int renameat2(int dir, const char *from, int dir2, const char *to, unsigned flags) {
    REAL(renameat2);
    FINISH(ask("rename", dir, from, dir2, to), real(dir, from, dir2, to, flags));
}

int link(const char *from, const char *to) {
    REAL(link);
    FINISH(ask("link", AT_FDCWD, from, AT_FDCWD, to), real(from, to));
}

int linkat(int dir, const char *from, int dir2, const char *to, int flags) {
    REAL(linkat);
    FINISH(ask("link", dir, from, dir2, to), real(dir, from, dir2, to, flags));
}

int symlink(const char *from, const char *to) {
    REAL(symlink);
    FINISH(ask("symlink", AT_FDCWD, to, 0, NULL), real(from, to));
}

int unlink(const char *path) {
    REAL(unlink);
    FINISH(ask("unlink", AT_FDCWD, path, 0, NULL), real(path));
}

int unlinkat(int dir, const char *path, int flags) {
    REAL(unlinkat);
    FINISH(ask("unlink", dir, path, 0, NULL), real(dir, path, flags));
}

int rmdir(const char *path) {
    REAL(rmdir);
    FINISH(ask("rmdir", AT_FDCWD, path, 0, NULL), real(path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    FINISH(ask("mkdir", AT_FDCWD, path, 0, NULL), real(path, mode));
}

int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(mkdirat);
    FINISH(ask("mkdir", dir, path, 0, NULL), real(dir, path, mode));
}

int fsync(int fd) {
    REAL(fsync);
    FINISH(ask_fd("fsync", fd, 0), real(fd));
}

int fdatasync(int fd) {
    REAL(fdatasync);
    FINISH(ask_fd("fsync", fd, 0), real(fd));
}

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    FINISH(ask_fd("truncate", fd, 0), real(fd, length));
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    FINISH(ask_fd("truncate", fd, 0), real(fd, length));
}

int chmod(const char *path, mode_t mode) {
    REAL(chmod);
    FINISH(ask("chmod", AT_FDCWD, path, 0, NULL), real(path, mode));
}

int fchmod(int fd, mode_t mode) {
    REAL(fchmod);
    FINISH(ask_fd("chmod", fd, 0), real(fd, mode));
}

int fchown(int fd, uid_t owner, gid_t group) {
    REAL(fchown);
    FINISH(ask_fd("chown", fd, 0), real(fd, owner, group));
}

int futimens(int fd, const struct timespec times[2]) {
    REAL(futimens);
    FINISH(ask_fd("utime", fd, 0), real(fd, times));
}

int utimensat(int dir, const char *path, const struct timespec times[2], int flags) {
    REAL(utimensat);
    FINISH(ask("utime", dir, path, 0, NULL), real(dir, path, times, flags));
}
