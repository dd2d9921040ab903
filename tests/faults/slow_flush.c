/* Loaded into a daemon: fsync and fdatasync of a path that contains $SLOW_FLUSH_PART hang for as long as the file
 * $SLOW_FLUSH_GATE exists, and leave the file $SLOW_FLUSH_GATE.met when they do. Ten milliseconds between two looks, and
 * not longer than $SLOW_FLUSH_S seconds, or a minute: a test that died must not leave a daemon hanging for ever. When
 * one goes on, a line in the file $SLOW_FLUSH_GATE.held says since when it hung and until when, in seconds since 1970. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void note(const char *gate, double began) {
    char held[4096], line[128];
    int fd, length;
    snprintf(held, sizeof held, "%s.held", gate);
    length = snprintf(line, sizeof line, "%.6f %.6f\n", began, seconds(CLOCK_REALTIME));
    fd = open(held, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        abort(); /* a test would believe that nothing hung */
    close(fd);
}

static void wait_at_gate(int fd) {
    const char *gate = getenv("SLOW_FLUSH_GATE"), *part = getenv("SLOW_FLUSH_PART"), *most = getenv("SLOW_FLUSH_S");
    char link[64], path[4096], met[4096];
    ssize_t length;
    double began, until;
    if (gate == NULL || part == NULL || access(gate, F_OK) != 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = '\0';
    if (strstr(path, part) == NULL)
        return;
    began = seconds(CLOCK_REALTIME);
    until = seconds(CLOCK_MONOTONIC) + (most == NULL ? 60 : atof(most));
    snprintf(met, sizeof met, "%s.met", gate);
    close(open(met, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (access(gate, F_OK) == 0 && seconds(CLOCK_MONOTONIC) < until)
        usleep(10000);
    note(gate, began);
}

int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    wait_at_gate(fd);
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    wait_at_gate(fd);
    return real(fd);
}
