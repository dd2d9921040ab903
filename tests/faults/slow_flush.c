/* Loaded into a daemon: fsync and fdatasync of a path that contains $SLOW_FLUSH_PART hang for as long as the file
 * $SLOW_FLUSH_GATE exists, and leave the file $SLOW_FLUSH_GATE.met when they do. Ten milliseconds between two looks, and
 * not longer than a minute: a test that died must not leave a daemon hanging for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_at_gate(int fd) {
    const char *gate = getenv("SLOW_FLUSH_GATE"), *part = getenv("SLOW_FLUSH_PART");
    char link[64], path[4096], met[4096];
    ssize_t length;
    int looks;
    if (gate == NULL || part == NULL || access(gate, F_OK) != 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = '\0';
    if (strstr(path, part) == NULL)
        return;
    snprintf(met, sizeof met, "%s.met", gate);
    close(open(met, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (looks = 0; looks < 6000 && access(gate, F_OK) == 0; looks++)
        usleep(10000);
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
