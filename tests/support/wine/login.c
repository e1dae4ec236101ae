/*
 * Preloaded into sshd and sftp-server so that they look like a Windows host without any change to this machine:
 * sshd finds the account "Administrator", sftp-server understands the path "/C:/...".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Administrator is whoever runs the test: with another user id sshd would have to be root. */
struct passwd *getpwnam(const char *name)
{
    const char *home = getenv("TESTBED_HOME");
    struct passwd *entry;

    if (!home || strcasecmp(name, "Administrator") != 0)
        return NEXT(getpwnam)(name);
    entry = getpwuid(geteuid());
    if (entry) {
        entry->pw_name = "Administrator";
        entry->pw_passwd = "*";
        entry->pw_shell = "/bin/sh";
        entry->pw_dir = (char *)home;
    }
    return entry;
}

/* A mutable buffer for each argument, because link and rename need two at once. */
static const char *map(const char *path, char *buffer)
{
    const char *drive = getenv("TESTBED_DRIVE_C");

    if (drive && path[0] == '/' && (path[1] == 'C' || path[1] == 'c') && path[2] == ':'
        && (path[3] == '/' || path[3] == '\0')
        && (size_t)snprintf(buffer, PATH_MAX, "%s%s", drive, path + 3) < PATH_MAX)
        return buffer;
    return path;
}

#define ONE(type, name, parameters, ...)            \
    type name parameters                            \
    {                                               \
        char buffer[PATH_MAX];                      \
        return NEXT(name)(map(path, buffer) __VA_ARGS__); \
    }
#define AND ,

ONE(int, stat, (const char *path, struct stat *out), AND out)
ONE(int, lstat, (const char *path, struct stat *out), AND out)
ONE(int, statvfs, (const char *path, struct statvfs *out), AND out)
ONE(DIR *, opendir, (const char *path), )
ONE(int, mkdir, (const char *path, mode_t mode), AND mode)
ONE(int, rmdir, (const char *path), )
ONE(int, unlink, (const char *path), )
ONE(int, chmod, (const char *path, mode_t mode), AND mode)
ONE(int, truncate, (const char *path, off_t length), AND length)
ONE(int, utimes, (const char *path, const struct timeval times[2]), AND times)
ONE(ssize_t, readlink, (const char *path, char *out, size_t size), AND out AND size)

#define TWO(name)                                                       \
    int name(const char *from, const char *to)                          \
    {                                                                   \
        char first[PATH_MAX], second[PATH_MAX];                         \
        return NEXT(name)(map(from, first), map(to, second));           \
    }

TWO(rename)
TWO(link)

int open(const char *path, int flags, ...)
{
    char buffer[PATH_MAX];
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return NEXT(open)(map(path, buffer), flags, mode);
}
