/* Threads of a virtual computer, for programs in C that are built for WASI preview 1.
 *
 * Each function opens, reads or writes files under /swarm, which docs/task-api.md specifies. It returns -1 on failure,
 * with errno set; ENOENT means that the program is not a thread: run it with `manyhands run --local-threads PROGRAM`.
 * Sizes are bytes. Include this file in as many sources as need it; there is nothing to link. */
#ifndef MANYHANDS_H
#define MANYHANDS_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Longest message, and longest input of a thread with its arguments. */
#define MH_MESSAGE_MAX 262144
/* Longest value of a global, and longest report. */
#define MH_VALUE_MAX 65536
/* Room that mh_recv_any and mh_global_get need in a buffer beside the message or value. */
#define MH_LABEL_MAX 24

/* Closes a file and returns `result` with the errno that it came with. */
static inline ssize_t mh_close(int file, ssize_t result) {
    int error = errno;
    close(file);
    errno = error;
    return result;
}

/* Opens a file by its name below /swarm; ENOENT, EINVAL. */
static inline int mh_open(const char *name, int flags) {
    char path[96];
    int length = snprintf(path, sizeof path, "/swarm/%s", name);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = EINVAL;
        return -1;
    }
    return open(path, flags);
}

/* Opens a file by its folder below /swarm and a number; ENOENT. */
static inline int mh_open_number(const char *folder, uint32_t number, int flags) {
    char name[32];
    snprintf(name, sizeof name, "%s/%lu", folder, (unsigned long)number);
    return mh_open(name, flags);
}

/* Writes once, whole, and closes the file. Returns 0. */
static inline int mh_write(int file, const void *bytes, size_t size) {
    if (file < 0) return -1;
    return (int)mh_close(file, write(file, bytes, size) < 0 ? -1 : 0);
}

/* Reads a number in decimal from an open file; EIO if it is none. */
static inline int mh_read_number(int file) {
    char text[16];
    ssize_t size = read(file, text, sizeof text - 1);
    if (size < 0) return -1;
    text[size] = 0;
    if (size == 0 || text[0] < '0' || text[0] > '9') {
        errno = EIO;
        return -1;
    }
    return (int)strtoul(text, NULL, 10);
}

/* Takes the first line, a number, off what was read into `buffer`; returns the size of the rest, or -1 with EIO. */
static inline ssize_t mh_take_label(void *buffer, ssize_t size, uint64_t *label) {
    char *text = (char *)buffer;
    char *end = size > 0 ? (char *)memchr(text, '\n', (size_t)size) : NULL;
    if (!end) {
        errno = EIO;
        return -1;
    }
    *label = strtoull(text, NULL, 10);
    size -= end + 1 - text;
    memmove(text, end + 1, (size_t)size);
    return size;
}

/* Number of this thread, from 0; ENOENT: it is none. */
static inline int mh_self(void) {
    int file = mh_open("self", O_RDONLY);
    return file < 0 ? -1 : (int)mh_close(file, mh_read_number(file));
}

/* Number of workers that the job asked for; ENOENT. */
static inline int mh_workers(void) {
    int file = mh_open("workers", O_RDONLY);
    return file < 0 ? -1 : (int)mh_close(file, mh_read_number(file));
}

/* Sends 1 to MH_MESSAGE_MAX bytes to a thread; waits while 1 MiB is on its way. Returns 0; EMSGSIZE, EINVAL: no bytes. */
static inline int mh_send(uint32_t to, const void *message, size_t size) {
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    return mh_write(mh_open_number("to", to, O_WRONLY), message, size);
}

/* Waits for the next message of a thread; returns its size, 0: the thread has ended; EMSGSIZE: more room is needed. */
static inline ssize_t mh_recv(uint32_t from, void *buffer, size_t room) {
    int file = mh_open_number("from", from, O_RDONLY);
    return file < 0 ? -1 : mh_close(file, read(file, buffer, room));
}

/* Waits for a message of any thread; returns its size, at most `room - MH_LABEL_MAX`; EMSGSIZE: more room is needed. */
static inline ssize_t mh_recv_any(uint32_t *from, void *buffer, size_t room) {
    uint64_t label = 0;
    int file = mh_open("from/any", O_RDONLY);
    if (file < 0) return -1;
    ssize_t size = mh_close(file, read(file, buffer, room));
    if (size >= 0) size = mh_take_label(buffer, size, &label);
    if (size >= 0) *from = (uint32_t)label;
    return size;
}

/* Begins a thread with arguments separated by spaces, and an input; returns its number; EDQUOT, EMSGSIZE, E2BIG. */
static inline int mh_spawn(const char *arguments, const void *input, size_t size) {
    int file = mh_open("spawn", O_RDWR);
    if (file < 0) return -1;
    struct iovec parts[3] = {
        {(void *)arguments, strlen(arguments)},
        {(void *)"\n", 1},
        {(void *)input, size},
    };
    return (int)mh_close(file, writev(file, parts, 3) < 0 ? -1 : mh_read_number(file));
}

/* Waits for the end of a thread; returns the size of its output, cut to `room`. `code` is -1 if it did not exit. */
static inline ssize_t mh_join(uint32_t thread, int *code, void *output, size_t room) {
    char how[256];
    size_t length = 0, size = 0;
    ssize_t more;
    int file = mh_open_number("end", thread, O_RDONLY);
    if (file < 0) return -1;
    for (char byte = 0; (more = read(file, &byte, 1)) == 1 && byte != '\n';) {
        if (length + 1 < sizeof how) how[length++] = byte;
    }
    how[length] = 0;
    *code = strncmp(how, "exit ", 5) == 0 ? (int)strtoul(how + 5, NULL, 10) : -1;
    while (more > 0 && size < room && (more = read(file, (char *)output + size, room - size)) > 0) size += (size_t)more;
    return mh_close(file, more < 0 ? -1 : (ssize_t)size);
}

/* Opens a global for mh_global_get and mh_global_swap; close it by close(). ENOENT, EINVAL: no global has such a name. */
static inline int mh_global_open(const char *name) {
    char path[96];
    int length = snprintf(path, sizeof path, "globals/%s", name);
    if (length < 0 || (size_t)length >= sizeof path || strchr(name, '/')) {
        errno = EINVAL;
        return -1;
    }
    return mh_open(path, O_RDWR);
}

/* Reads a global, from the second time on a later version; returns the size, at most `room - MH_LABEL_MAX`; EMSGSIZE.
 * Version 0: it was never set. */
static inline ssize_t mh_global_get(int global, uint64_t *version, void *buffer, size_t room) {
    ssize_t size = read(global, buffer, room);
    return size < 0 ? -1 : mh_take_label(buffer, size, version);
}

/* Sets a global to 1 to MH_VALUE_MAX bytes if nobody did since mh_global_get. Returns 0; EBUSY: get it again; EFBIG,
 * ENOSPC, EINVAL: no bytes. */
static inline int mh_global_swap(int global, const void *value, size_t size) {
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    return write(global, value, size) < 0 ? -1 : 0;
}

/* Gives the submitter a partial result of at most MH_VALUE_MAX bytes. Returns 0; EMSGSIZE. */
static inline int mh_report(const void *bytes, size_t size) {
    return mh_write(mh_open("report", O_WRONLY), bytes, size);
}

#endif
