/*
 * Preloaded into everything that writes to a host's disk: the limit of a file's size, which is how a test fills the disk
 * (see WindowsHost::fill_disk), looks like a full disk. SFTP does not tell the two apart, but Windows programs do.
 *
 * Nothing is flushed: a host's power is cut by ending its processes, which loses nothing that they have written, and on a
 * machine with a busy disk a flush took seconds, which the Service Control Manager's time limits do not allow for.
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

int fsync(int file)
{
    (void)file;
    return 0;
}

int fdatasync(int file)
{
    return fsync(file);
}
