/* Rust's standard library takes random numbers from bcryptprimitives.dll, which Wine gained only after version 8. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    while (length) {
        ULONG part = length > 0x40000000 ? 0x40000000 : (ULONG)length;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        length -= part;
    }
    return TRUE;
}
