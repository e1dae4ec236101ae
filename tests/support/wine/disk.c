/*
 * Preloaded into everything that writes to a host's disk: the limit of a file's size, which is how a test fills the disk
 * (see WindowsHost::fill_disk), looks like a full disk. SFTP does not tell the two apart, but Windows programs do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define FULL(type, name, parameters, ...)                                \
    type name parameters                                                 \
    {                                                                    \
        static type(*next) parameters;                                   \
        type result;                                                     \
        if (!next)                                                       \
            next = (__typeof__(next))dlsym(RTLD_NEXT, #name);            \
        result = next(__VA_ARGS__);                                      \
        if (result < 0 && errno == EFBIG)                                \
            errno = ENOSPC;                                              \
        return result;                                                   \
    }

FULL(ssize_t, write, (int file, const void *bytes, size_t length), file, bytes, length)
FULL(ssize_t, pwrite, (int file, const void *bytes, size_t length, off_t at), file, bytes, length, at)
FULL(ssize_t, writev, (int file, const struct iovec *parts, int count), file, parts, count)
