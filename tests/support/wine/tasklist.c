/* Wine's tasklist prints nothing. This one prints what Windows' own does for "/fo csv /nh", as far as names and numbers go. */
#include <stdio.h>
#include <windows.h>
#include <tlhelp32.h>

int main(void)
{
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    PROCESSENTRY32 process = { sizeof(process) };
    BOOL found;

    for (found = Process32First(all, &process); found; found = Process32Next(all, &process))
        printf("\"%s\",\"%lu\",\"Services\",\"0\",\"1,024 K\"\n", process.szExeFile, process.th32ProcessID);
    return 0;
}
