/* Makes every sync of a process slow: it waits FSYNC_MS milliseconds, then really syncs. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int sync_slowly(const char *name, int descriptor)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *setting = getenv("FSYNC_MS");
    long ms = setting ? atol(setting) : 0;
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
    return sync(descriptor);
}

int fsync(int descriptor) { return sync_slowly("fsync", descriptor); }

int fdatasync(int descriptor) { return sync_slowly("fdatasync", descriptor); }
