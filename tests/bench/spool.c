/* The bare spool loop of bare.py in C: what files, renames and flushes take when no interpreter takes part.
 *
 *     spool DIRECTORY MESSAGES SENDERS BYTES flush|none
 *
 * Senders are processes: a temporary file, written, flushed, renamed, the directory flushed. The consumer reads what
 * inotify names, moves it to processed/ and to archive/, and writes a line of log for each; behind its back a thread
 * flushes what was moved. Prints the seconds from the common start to the last message, its flush included. Whatever
 * the system refuses ends it with 1: a limit that lost a message would be none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 64, TOGETHER = 64, LARGEST = 1 << 20 };

static int messages, senders, bytes, flushing;

static int must(int answer, const char *what)
{
    if (answer >= 0)
        return answer;
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void send_share(int number, const int *started)
{
    char *data = malloc((size_t)bytes), hidden[NAME + 1], *name = hidden + 1;
    int queue = must(open("queue", O_RDONLY | O_DIRECTORY), "queue");

    memset(data, 'x', (size_t)bytes);
    hidden[0] = '.';
    while (!__atomic_load_n(started, __ATOMIC_ACQUIRE))
        usleep(100);
    for (int next = number; next < messages; next += senders) {
        snprintf(name, NAME, "message_%016d.mime", next);
        int file = must(openat(queue, hidden, O_WRONLY | O_CREAT | O_EXCL, 0600), hidden);
        if (write(file, data, (size_t)bytes) != bytes)
            must(-1, "write");
        if (flushing)
            must(fsync(file), "flush a message");
        close(file);
        must(renameat(queue, hidden, queue, name), "rename");
        if (flushing)
            must(fsync(queue), "flush queue");
    }
    _exit(0);
}

/* What was moved and is not flushed yet. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int *unflushed, waiting, over;

static void *flush_behind(void *directory)
{
    int *taken = malloc(sizeof(int) * (size_t)messages), count;

    for (;;) {
        pthread_mutex_lock(&lock);
        while (!waiting && !over)
            pthread_cond_wait(&more, &lock);
        count = waiting;
        memcpy(taken, unflushed, sizeof(int) * (size_t)count);
        waiting = 0;
        pthread_mutex_unlock(&lock);
        if (!count)
            return NULL;
        for (int each = 0; each < count; each++) {
            must(fdatasync(taken[each]), "flush a moved message");
            close(taken[each]);
        }
        must(fsync(*(int *)directory), "flush processed");
    }
}

static int queue, processed, archive;

static int consume(const char *name)
{
    static char data[LARGEST];
    int file = must(openat(queue, name, O_RDONLY), name);

    if (read(file, data, sizeof data) != bytes)
        must(-1, "read");
    must(renameat(queue, name, processed, name), "claim");
    must(renameat(processed, name, archive, name), "archive");
    return file;
}

static void hand_over(const int *files, int count)
{
    pthread_mutex_lock(&lock);
    memcpy(unflushed + waiting, files, sizeof(int) * (size_t)count);
    waiting += count;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

static void consume_all(int watch)
{
    char events[8192], lines[TOGETHER * (NAME + 16)];
    int log = must(open("log", O_WRONLY | O_CREAT | O_APPEND, 0600), "log"), files[TOGETHER], done = 0;

    while (done < messages) {
        ssize_t got = must((int)read(watch, events, sizeof events), "inotify");
        for (char *at = events; at < events + got;) {
            int count = 0, written = 0;
            for (; at < events + got && count < TOGETHER; count++) {
                struct inotify_event *event = (struct inotify_event *)at;
                at += sizeof *event + event->len;
                files[count] = consume(event->name);
                written += snprintf(lines + written, sizeof lines - (size_t)written, "%s completed\n", event->name);
            }
            if (write(log, lines, (size_t)written) != written)
                must(-1, "log");
            if (flushing)
                hand_over(files, count);
            else
                for (int each = 0; each < count; each++)
                    close(files[each]);
            done += count;
        }
    }
}

static void allow_many_files(void)
{
    struct rlimit files;

    must(getrlimit(RLIMIT_NOFILE, &files), "limits");
    files.rlim_cur = files.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &files), "limits");
}

int main(int count, char **given)
{
    if (count != 6)
        return 2;
    allow_many_files();
    must(chdir(given[1]), given[1]);
    messages = atoi(given[2]), senders = atoi(given[3]), bytes = atoi(given[4]);
    flushing = !strcmp(given[5], "flush");
    unflushed = malloc(sizeof(int) * (size_t)messages);
    int *started = mmap(NULL, sizeof *started, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(mkdir("queue", 0700), "queue"), must(mkdir("processed", 0700), "processed");
    must(mkdir("archive", 0700), "archive");
    queue = must(open("queue", O_RDONLY | O_DIRECTORY), "queue");
    processed = must(open("processed", O_RDONLY | O_DIRECTORY), "processed");
    archive = must(open("archive", O_RDONLY | O_DIRECTORY), "archive");
    int watch = must(inotify_init1(IN_CLOEXEC), "inotify");
    must(inotify_add_watch(watch, "queue", IN_MOVED_TO), "watch");
    for (int number = 0; number < senders; number++)
        if (!must(fork(), "fork"))
            send_share(number, started);

    pthread_t behind;
    if (pthread_create(&behind, NULL, flush_behind, &processed))
        return 1;
    double began = now();
    __atomic_store_n(started, 1, __ATOMIC_RELEASE);
    consume_all(watch);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
    pthread_join(behind, NULL);
    printf("%.6f\n", now() - began);
    for (int status; wait(&status) > 0;)
        if (status)
            return 1;
    return 0;
}
