/*
 * Stands in for csi-proxy, for a service of somebody else's, and for an administrator with a tool, in tests of the agent.
 * What it does wrong as a service, and the pipes that it opens, stand at the end of its file: "STANDIN:",
 * the number of a behaviour, ':', names with ';' between them, and a nul.
 * As a command: "hold FILE" and "open SERVICE" keep that open, "serve PIPE" serves a pipe, and "occupy PIPE" keeps its name in
 * use without serving it, each until C:\k\release is there, with C:\k\holding from when it does; "send PIPE FILE" writes a file
 * into a pipe and prints the answer; "change SERVICE START COMMAND" changes a service, '-' leaves a setting, and "need
 * SERVICE OTHER" has it depend on another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define WELL 0
#define EXITS 1  /* with an error, before it is a service */
#define HANGS 2  /* does not stop */
#define CRASHES 3 /* exits while C:\k\crash is there */
#define MUTES 4  /* closes its pipes while C:\k\mute is there */
#define QUITS 5  /* ends without an answer when it is told to stop */
#define SILENT 6 /* takes connections and says nothing while C:\k\silent is there */
#define REFUSES 7 /* greets, and refuses every call */
#define LATE 8   /* does not become a service in time where C:\k\late is there, which it removes */

static int behaviour;
static char names[2048];
static SERVICE_STATUS status = { SERVICE_WIN32_OWN_PROCESS, SERVICE_RUNNING, SERVICE_ACCEPT_STOP, 0, 0, 0, 0 };
static SERVICE_STATUS_HANDLE handle;
static HANDLE stopped;
/* Each pipe by its name, with the instance that the next client gets; and those that are taken. */
static struct { char path[256]; HANDLE next; } pipes[32];
static HANDLE clients[256];
static int count, taken;

/* As a server of gRPC greets, and its answer to a call: status 200, then a message; or that it goes away. */
static const BYTE greeting[] = { 0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 64, 0 };
static const BYTE answer[] = { 0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 8, 1 };
static const BYTE refusal[] = { 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

/* Reads from the end of this program what it is to be. */
static void configure(void)
{
    static char end[4096];
    char path[MAX_PATH];
    FILE *file;
    int at;

    GetModuleFileNameA(NULL, path, sizeof path);
    file = fopen(path, "rb");
    if (!file || fseek(file, 1 - (long)sizeof end, SEEK_END))
        return;
    fread(end, 1, sizeof end - 1, file);
    fclose(file);
    for (at = sizeof end - 9; at >= 0; at--)
        if (memcmp(end + at, "STANDIN:", 8) == 0) {
            behaviour = atoi(end + at + 8);
            snprintf(names, sizeof names, "%s", strchr(end + at + 8, ':') + 1);
            return;
        }
}

static int there(const char *path)
{
    return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES;
}

static HANDLE instance(const char *path)
{
    HANDLE pipe = CreateNamedPipeA(path, PIPE_ACCESS_DUPLEX, PIPE_TYPE_BYTE | PIPE_NOWAIT, PIPE_UNLIMITED_INSTANCES,
                                   512, 512, 0, NULL);
    ConnectNamedPipe(pipe, NULL);
    return pipe;
}

static void open_pipes(void)
{
    char *name;

    count = 0;
    for (name = strtok(names, ";"); name; name = strtok(NULL, ";")) {
        snprintf(pipes[count].path, sizeof pipes[count].path, "\\\\.\\pipe\\%s", name);
        pipes[count].next = instance(pipes[count].path);
        count++;
    }
}

static void say(HANDLE client, const BYTE *what, DWORD length)
{
    DWORD done;

    WriteFile(client, what, length, &done, NULL);
}

/* Takes who has come, and answers who has called. */
static void serve_pipes(void)
{
    BYTE call[4096];
    DWORD length;
    int at;

    for (at = 0; at < count; at++)
        if (!ConnectNamedPipe(pipes[at].next, NULL) && GetLastError() == ERROR_PIPE_CONNECTED && taken < 256) {
            clients[taken++] = pipes[at].next;
            pipes[at].next = instance(pipes[at].path);
            if (behaviour != SILENT || !there("C:\\k\\silent"))
                say(clients[taken - 1], greeting, sizeof greeting);
        }
    for (at = taken - 1; at >= 0; at--)
        if (!PeekNamedPipe(clients[at], NULL, 0, NULL, &length, NULL)) {
            CloseHandle(clients[at]);
            clients[at] = clients[--taken];
        } else if (length && ReadFile(clients[at], call, sizeof call, &length, NULL)) {
            if (behaviour == REFUSES)
                say(clients[at], refusal, sizeof refusal);
            else
                say(clients[at], answer, sizeof answer);
        }
}

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context)
{
    (void)type, (void)data, (void)context;
    if (code == SERVICE_CONTROL_STOP && behaviour == QUITS)
        ExitProcess(0);
    if (code == SERVICE_CONTROL_STOP && behaviour != HANGS)
        SetEvent(stopped);
    return NO_ERROR;
}

static void WINAPI service(DWORD argc, LPSTR *argv)
{
    (void)argc;
    stopped = CreateEventA(NULL, TRUE, FALSE, NULL);
    handle = RegisterServiceCtrlHandlerExA(argv[0], control, NULL);
    open_pipes();
    SetServiceStatus(handle, &status);
    while (WaitForSingleObject(stopped, 5) == WAIT_TIMEOUT) {
        serve_pipes();
        if (behaviour == CRASHES && there("C:\\k\\crash"))
            ExitProcess(7);
        if (behaviour == MUTES && there("C:\\k\\mute"))
            while (count)
                CloseHandle(pipes[--count].next);
    }
    status.dwCurrentState = SERVICE_STOPPED;
    SetServiceStatus(handle, &status);
}

/* Until C:\k\release is there; serves what is to be served meanwhile. */
static int keep(HANDLE what)
{
    FILE *file;

    if (!what || what == INVALID_HANDLE_VALUE) {
        printf("error %lu\n", GetLastError());
        return 1;
    }
    file = fopen("C:\\k\\holding", "w");
    if (file)
        fclose(file);
    while (!there("C:\\k\\release")) {
        serve_pipes();
        Sleep(10);
    }
    return 0;
}

static HANDLE serve(const char *name)
{
    snprintf(pipes[0].path, sizeof pipes[0].path, "\\\\.\\pipe\\%s", name);
    count = 1;
    return pipes[0].next = instance(pipes[0].path);
}

/* Keeps a pipe's name in use with nobody to take a connection, as Windows may for a client whose server is gone. */
static HANDLE occupy(const char *name)
{
    char path[256];
    HANDLE own;

    snprintf(path, sizeof path, "\\\\.\\pipe\\%s", name);
    own = instance(path);
    do
        /* Another process may serve it as well, and take this one. */
        CreateFileA(path, GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
    while (own != INVALID_HANDLE_VALUE && !ConnectNamedPipe(own, NULL) && GetLastError() != ERROR_PIPE_CONNECTED);
    return own;
}

static int change(const char *name, const char *start, const char *command, const char *other)
{
    char needs[256] = "";
    SC_HANDLE manager = OpenSCManagerA(NULL, NULL, SC_MANAGER_CONNECT);
    SC_HANDLE opened = OpenServiceA(manager, name, SERVICE_ALL_ACCESS);
    BOOL done;

    /* A list: it ends with one more nul, which is there already. */
    if (other)
        snprintf(needs, sizeof needs - 1, "%s", other);
    done = ChangeServiceConfigA(opened, SERVICE_NO_CHANGE, *start == '-' ? SERVICE_NO_CHANGE : (DWORD)atoi(start),
                                     SERVICE_NO_CHANGE, *command == '-' ? NULL : command, NULL, NULL,
                                     other ? needs : NULL, NULL, NULL, NULL);

    printf("error %lu\n", done ? 0 : GetLastError());
    return !done;
}

int main(int argc, char **argv)
{
    SERVICE_TABLE_ENTRYA table[] = { { "standin", service }, { NULL, NULL } };

    configure();
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return keep(CreateFileA(argv[2], GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL));
    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return keep((HANDLE)OpenServiceA(OpenSCManagerA(NULL, NULL, SC_MANAGER_CONNECT), argv[2], SERVICE_QUERY_STATUS));
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return keep(serve(argv[2]));
    if (argc == 3 && strcmp(argv[1], "occupy") == 0)
        return keep(occupy(argv[2]));
    if (argc == 5 && strcmp(argv[1], "change") == 0)
        return change(argv[2], argv[3], argv[4], NULL);
    if (argc == 4 && strcmp(argv[1], "need") == 0)
        return change(argv[2], "-", "-", argv[3]);
    if (behaviour == EXITS || (behaviour == CRASHES && there("C:\\k\\crash")))
        return 7;
    if (behaviour == LATE && DeleteFileA("C:\\k\\late"))
        Sleep(INFINITE);
    return !StartServiceCtrlDispatcherA(table);
}
