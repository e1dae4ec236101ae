/*
 * For the tests of the hosts themselves. As a service it runs and leaves C:\k\started behind; as a command
 * "grow PATH BYTES" writes a file and prints the error, "pipe NAME" says whether a named pipe can be opened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

static SERVICE_STATUS status = { SERVICE_WIN32_OWN_PROCESS, SERVICE_RUNNING, SERVICE_ACCEPT_STOP, 0, 0, 0, 0 };
static SERVICE_STATUS_HANDLE handle;
static HANDLE stopped;

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context)
{
    (void)type, (void)data, (void)context;
    if (code == SERVICE_CONTROL_STOP)
        SetEvent(stopped);
    return NO_ERROR;
}

static void WINAPI service(DWORD count, LPSTR *arguments)
{
    FILE *file = fopen("C:\\k\\started", "w");

    (void)count;
    if (file)
        fclose(file);
    stopped = CreateEventA(NULL, TRUE, FALSE, NULL);
    handle = RegisterServiceCtrlHandlerExA(arguments[0], control, NULL);
    SetServiceStatus(handle, &status);
    WaitForSingleObject(stopped, INFINITE);
    status.dwCurrentState = SERVICE_STOPPED;
    SetServiceStatus(handle, &status);
}

static int grow(const char *path, DWORD length)
{
    char *zeros = calloc(1, length);
    DWORD done = 0, written = 0, error = 0;
    HANDLE file = CreateFileA(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);

    while (done < length && !error) {
        if (file == INVALID_HANDLE_VALUE || !WriteFile(file, zeros, length - done, &written, NULL))
            error = GetLastError();
        done += written;
        written = 0;
    }
    printf("written %lu error %lu\n", done, error);
    return error != 0;
}

static int open_pipe(const char *name)
{
    char path[256];
    HANDLE pipe;

    snprintf(path, sizeof path, "\\\\.\\pipe\\%s", name);
    pipe = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    printf("error %lu\n", pipe == INVALID_HANDLE_VALUE ? GetLastError() : 0);
    return pipe == INVALID_HANDLE_VALUE;
}

int main(int count, char **arguments)
{
    SERVICE_TABLE_ENTRYA table[] = { { "probe", service }, { NULL, NULL } };

    if (count == 4 && strcmp(arguments[1], "grow") == 0)
        return grow(arguments[2], strtoul(arguments[3], NULL, 10));
    if (count == 3 && strcmp(arguments[1], "pipe") == 0)
        return open_pipe(arguments[2]);
    return !StartServiceCtrlDispatcherA(table);
}
