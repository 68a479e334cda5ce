// names.c: the names that a script may give to files. What matters is what other programs do with a new file: tools run
// or obey files of names that they know (a Makefile, package.json, conftest.py), and no list of such names is complete.
// So a script may write only files with endings on the lists below: data, which nothing reads unasked, in most folders;
// files that tools read by name, in folders that are tperf's, or that the user has named for them.
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/visible.h"
#include "cli/folder.h"

typedef enum kind { DATA, NAMED, OTHER } kind;

static const char *const data[] = {"csv", "db",  "et",  "html",   "jsonl",   "log", "md",
                                   "pdf", "png", "svg", "sqlite", "sqlite3", "tsv", NULL};
static const char *const named[] = {"bash", "json", "sbatch", "sh",  "slurm", "tex",
                                    "toml", "txt",  "yaml",   "yml", NULL};

// Data that agents of editors obey: what is before the first dot, with any endings between it and .md …
static const char *const obeyed[] = {
    "AGENT", "AGENTS", "CLAUDE", "CONVENTIONS", "copilot-instructions", "CRUSH", "GEMINI",
    "QWEN",  "SKILL",  "WARP",   NULL};

// … and the endings before .md.
static const char *const roles[] = {".agent", ".chatmode", ".instructions", ".prompt", NULL};

// Folders whose files belong to a build or a deployment, often unseen by version control; "-" at the end: of all that
// begin so.
static const char *const builds[] = {
    "__pycache__",  "_build",      "bazel-",       "bin",      "bower_components",
    "build",        "build-",      "builddir",     "buck-out", "CMakeFiles",
    "cmake-build-", "DerivedData", "_deps",        "dist",     "env",
    "group_vars",   "host_vars",   "node_modules", "obj",      "site-packages",
    "target",       "vendor",      "venv",         NULL};

// Files that mark such a folder, whatever its name.
static const char *const marks[] = {"CACHEDIR.TAG", "CMakeCache.txt", "build.ninja", "pyvenv.cfg",
                                    NULL};

// Where a system's programs look for their files.
static const char *const systems[] = {"/bin",   "/boot", "/etc", "/lib",       "/lib32",
                                      "/lib64", "/sbin", "/usr", "/var/spool", NULL};

static const char needs_folder[] =
    "other programs read such files by name (--out DIR names a folder for them, '--out .' the "
    "current one; --trust lifts this)";
static const char no_ending[] =
    "its name must end in .csv, .html, .jsonl, .log, .md, .pdf, .png, .sqlite, .svg or .tsv; with "
    "--out DIR also in .json, .sh, .slurm, .tex, .toml, .txt or .yaml (--trust lifts this)";
static const char in_build[] =
    "it lies in the folder of a build, whose files tools run (name another folder; --trust lifts "
    "this)";
static const char in_configuration[] =
    "programs read all files of a folder whose name ends in .d (name another folder; --trust lifts "
    "this)";
static const char with_ending[] =
    "programs read folders with such an ending unasked (name it without one; --trust lifts this)";
static const char in_system[] =
    "the current folder is the system's (--out DIR names another one; --trust lifts this)";
static const char *const reasons[] = {needs_folder, no_ending, in_build, in_configuration,
                                      with_ending,  in_system, NULL};

static bool is_in(const char *const *list, const char *name) {
    for (; *list; list++)
        if (strcasecmp(*list, name) == 0) return true;
    return false;
}

static bool is_obeyed(const char *name, const char *ending) {
    for (const char *const *one = roles; *one; one++) {
        size_t length = strlen(*one);
        if ((size_t)(ending - name) > length && strncasecmp(ending - length, *one, length) == 0)
            return true;
    }
    for (const char *const *one = obeyed; *one; one++) {
        size_t length = strlen(*one);
        if (strncasecmp(name, *one, length) == 0 && name[length] == '.') return true;
    }
    return false;
}

static kind kind_of(const char *name) {
    const char *dot = strrchr(name, '.');
    if (!dot) return OTHER;
    bool is_text = strcasecmp(dot, ".md") == 0;
    if (is_in(data, dot + 1)) return is_text && is_obeyed(name, dot) ? NAMED : DATA;
    return is_in(named, dot + 1) ? NAMED : OTHER;
}

static bool is_build(const char *name) {
    for (const char *const *one = builds; *one; one++) {
        size_t length = strlen(*one);
        bool begins = (*one)[length - 1] == '-';
        if (begins ? strncasecmp(name, *one, length) == 0 : strcasecmp(name, *one) == 0)
            return true;
    }
    return false;
}

static bool is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_system(const char *path) {
    for (const char *const *one = systems; *one; one++)
        if (is_below(path, *one)) return !is_below(path, "/usr/src");
    return strcmp(path, "/") == 0;
}

const char *tperf_names_part(const char *part, size_t length) {
    if (part[0] == '.') return "it starts with a dot, or lies in a folder that does";
    if (length > NAME_MAX) return "its name is too long";
    for (size_t i = 0; i < length;) {
        tperf_character c = tperf_character_at(part + i, length - i);
        if (!tperf_character_visible(c)) return "its name has a control character in it";
        i += c.bytes;
    }
    return NULL;
}

// A name that a later `tool *.csv` or a loop in a shell would not take for a file's.
static const char *check_new(const char *name) {
    if (strpbrk(name, "\"$&'*;<>?\\`|")) return "its name has a character in it that shells obey";
    if (strchr("-+@~", name[0])) return "its name starts as options do";
    return NULL;
}

// Whether a name has an ending of letters, as those of bundles and packages (x.app, x.dist-info); "v1.5" has none.
static bool has_ending(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && ((dot[1] >= 'a' && dot[1] <= 'z') || (dot[1] >= 'A' && dot[1] <= 'Z'));
}

const char *tperf_names_folder(int at, const char *name) {
    size_t length = strlen(name);
    struct stat info;
    const char *wrong = at < 0 ? check_new(name) : NULL;
    if (wrong) return wrong;
    if (is_build(name)) return in_build;
    if (length > 2 && strcasecmp(name + length - 2, ".d") == 0) return in_configuration;
    if (at < 0 && has_ending(name)) return with_ending;
    for (const char *const *one = marks; at >= 0 && *one; one++)
        if (fstatat(at, *one, &info, AT_SYMLINK_NOFOLLOW) == 0) return in_build;
    return NULL;
}

const char *tperf_names_file(const tperf_folder_entry *place) {
    kind it = kind_of(place->name);
    const char *wrong = check_new(place->name);
    if (wrong) return wrong;
    if (it == OTHER) return no_ending;
    if (tperf_folder_is_named()) return NULL;
    if (is_system(tperf_folder_path())) return in_system;
    return it == DATA || tperf_journal_made(place->at) ? NULL : needs_folder;
}

bool tperf_names_advise(const char *reason) {
    for (const char *const *one = reasons; *one; one++)
        if (reason == *one) return true;
    return false;
}
