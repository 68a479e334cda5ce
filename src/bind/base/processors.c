// processors.c: see processors.h.
#include "bind/base/processors.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024, PATH_BYTES = 4096 };

static double allowed(tperf_sharing sharing) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        if (sharing.launched && CPU_COUNT(&set) < count) return CPU_COUNT(&set); // its own
        count = CPU_COUNT(&set);
    }
#endif
    return (double)count / sharing.processes;
}

// Reads the first two words of a file if they are numbers; returns how many are.
static int read_numbers(const char *path, double numbers[2]) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int n = fscanf(file, "%lf %lf", &numbers[0], &numbers[1]);
    fclose(file);
    return n;
}

// The processors that one group's quota allows; 0: no quota.
static double quota_v2(const char *group) {
    char path[PATH_BYTES];
    double numbers[2]; // "max 100000": no quota
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.max", group) >= sizeof path) return 0;
    return read_numbers(path, numbers) == 2 && numbers[1] > 0 ? numbers[0] / numbers[1] : 0;
}

static double quota_v1(const char *group) {
    char path[PATH_BYTES];
    double quota[2], period[2]; // -1: no quota
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group) >= sizeof path) return 0;
    if (read_numbers(path, quota) < 1 || quota[0] <= 0) return 0;
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group) >= sizeof path) return 0;
    return read_numbers(path, period) >= 1 && period[0] > 0 ? quota[0] / period[0] : 0;
}

// The smallest quota of a group and its ancestors, up to the mount point.
static double least_quota(const char *mount, const char *group, double (*quota_of)(const char *)) {
    char path[PATH_BYTES];
    double least = 0;
    size_t top = strlen(mount);
    if ((size_t)snprintf(path, sizeof path, "%s%s", mount, group) >= sizeof path) return 0;
    for (;;) {
        double quota = quota_of(path);
        if (quota > 0 && (least == 0 || quota < least)) least = quota;
        char *slash = strrchr(path, '/');
        if (!slash || strlen(path) <= top) return least;
        *slash = '\0';
    }
}

// The quota of the group in a line of /proc/self/cgroup: "0::/path", or "4:cpu,cpuacct:/path".
static double quota_of_line(const char *root, char *line) {
    char mount[PATH_BYTES];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return 0;
    *controllers++ = *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    bool second = *controllers == '\0';
    if (!second && strcmp(controllers, "cpu") != 0 && strncmp(controllers, "cpu,", 4) != 0)
        return 0;
    int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, second ? "" : "/cpu");
    if ((size_t)length >= sizeof mount) return 0;
    return least_quota(mount, group, second ? quota_v2 : quota_v1);
}

static double quota(const char *root) {
    char line[PATH_BYTES];
    double least = 0;
    if ((size_t)snprintf(line, sizeof line, "%s/proc/self/cgroup", root) >= sizeof line) return 0;
    FILE *file = fopen(line, "r");
    while (file && fgets(line, sizeof line, file)) {
        double one = quota_of_line(root, line);
        if (one > 0 && (least == 0 || one < least)) least = one;
    }
    if (file) fclose(file);
    return least;
}

int tperf_processors(const char *root, tperf_sharing sharing) {
    double limit = quota(root) / sharing.processes, own = allowed(sharing);
    int count = own < MOST ? (int)own : MOST;
    if (limit > 0 && limit < count)
        count = (int)limit + (limit > (int)limit); // a fraction of a processor is worth a thread
    return count < 1 ? 1 : count;
}
