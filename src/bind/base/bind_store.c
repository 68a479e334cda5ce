// bind_store.c: tperf.core.store: databases in files (io/store.h).
//   store.open(place, kind, like) -> a database, or nil, message, reason; kind: "write", "read", "query" or "trial"; place: of
//     file.keep, or the name of a file; like: the bytes of a database whose like alone is opened
//   store.memory() -> a database in memory, for statements of the library until database:confine()
//   database:confine(): from here on it answers queries alone
//   store.empty(sql) -> the bytes of a new database file after running the statements
//   place:lock() -> whether no other process of tperf now opens, closes or replaces databases in the folder
//   place:unlock()
//   place:set_aside() -> a damaged database's new name, or nil, message
//   place:writer() -> the process now writing to a database that this one has not opened, or nil
//   database:run(sql, value …) -> rows, names, or nil, message, reason: runs one statement, with a value for each "?". A
//     row is a table keyed by column names, which are also returned as a list. Numbers, strings, booleans (as 0 and 1)
//     and nil are passed exactly.
//   database:moved() -> whether another file has taken its name
//   database:close()
// Reasons: "busy": another program kept it locked; "damaged": or not a database at all; "foreign": not like `like`;
// "unfinished": a writer was stopped amid a change, which only a writer can take back; "interrupted"; "endless": the
// recursion of a query takes more steps than any should; "denied": not allowed in a query; or none.
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/always.h"
#include "bind/bind.h"
#include "bind/interrupt.h"
#include "io/store.h"

static const char database_type[] = "tperf.database";

enum { MOST_STATEMENTS = 16 }; // kept ready

static tperf_store *check_database(lua_State *L) {
    tperf_store *store = luaL_checkudata(L, 1, database_type);
    luaL_argcheck(L, store->db, 1, "it is closed");
    return store;
}

static int close_database(lua_State *L) {
    tperf_store_close(luaL_checkudata(L, 1, database_type));
    return 0;
}

static int moved(lua_State *L) {
    lua_pushboolean(L, tperf_store_moved(check_database(L)));
    return 1;
}

// --- places ---

static const char place_type[] = "tperf.place";

static tperf_store_place *check_place(lua_State *L) {
    tperf_store_place *place = luaL_checkudata(L, 1, place_type);
    luaL_argcheck(L, place->at >= 0, 1, "it is closed");
    return place;
}

// Pushes a place, to which it gives the descriptor; false with errno.
static bool push_place(lua_State *L, int at, const char *path) {
    tperf_store_place *place = lua_newuserdatauv(L, sizeof *place, 0);
    place->at = -1;
    luaL_setmetatable(L, place_type);
    return tperf_store_place_set(place, at, path);
}

bool tperf_bind_make_place(lua_State *L, int at, const char *path, const char *bytes, size_t size) {
    return push_place(L, at, path) && tperf_store_make(lua_touserdata(L, -1), bytes, size);
}

static int close_place(lua_State *L) {
    tperf_store_place_close(luaL_checkudata(L, 1, place_type));
    return 0;
}

static int lock(lua_State *L) {
    lua_pushboolean(L, tperf_store_lock(check_place(L)));
    return 1;
}

static int unlock(lua_State *L) {
    tperf_store_unlock(check_place(L));
    return 0;
}

static int set_aside(lua_State *L) {
    const tperf_store_place *place = check_place(L);
    char to[NAME_MAX + 1];
    if (!tperf_store_set_aside(place, to)) return luaL_fileresult(L, 0, place->name);
    lua_pushstring(L, to);
    return 1;
}

static int writer(lua_State *L) {
    long process = tperf_store_writer(check_place(L));
    if (!process) return 0;
    lua_pushinteger(L, process);
    return 1;
}

// Replaces the name of a file at this index by its place; false with errno.
static bool find_place(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TSTRING) return true;
    const char *path = lua_tostring(L, index), *slash = strrchr(path, '/');
    lua_pushlstring(L, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    int at = open(lua_tostring(L, -1), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0 || !push_place(L, at, path)) return false;
    lua_replace(L, index);
    lua_pop(L, 1);
    return true;
}

// --- databases ---

static const char *reason_of(int code) {
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: // a writer that was stopped (Ctrl-Z) amid a change
        return "busy";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "damaged";
    case SQLITE_INTERRUPT:
        return "interrupted";
    case SQLITE_AUTH:
        return "denied";
    case SQLITE_READONLY:
        return code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY ? "unfinished"
                                                                                    : NULL;
    default:
        return NULL;
    }
}

static int push_failure(lua_State *L, sqlite3 *db, int code) {
    if ((code & 0xff) == SQLITE_NOMEM) return tperf_bind_fail(L, "not enough memory");
    lua_pushnil(L);
    // A query that was stopped while SQLite prepared it has run out of memory, as SQLite sees it.
    bool same = db && (sqlite3_errcode(db) & 0xff) == (code & 0xff);
    lua_pushstring(L, same ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    lua_pushstring(L, reason_of(code));
    return 3;
}

static int push_reason(lua_State *L, const char *message, const char *reason) {
    lua_pushnil(L);
    lua_pushstring(L, message);
    lua_pushstring(L, reason);
    return 3;
}

// Whether to retry after collecting garbage.
static bool try_again(lua_State *L, int code, bool *tried) {
    return tperf_bind_try_again(L, (code & 0xff) == SQLITE_NOMEM ? TPERF_NO_MEMORY : TPERF_OK,
                                tried);
}

static int open_database(lua_State *L) {
    static const char *const kinds[] = {"write", "read", "query", "trial", NULL};
    size_t size;
    int kind = luaL_checkoption(L, 2, NULL, kinds), code;
    const char *like = luaL_optlstring(L, 3, NULL, &size);
    luaL_argcheck(L, !like || size >= TPERF_STORE_HEADER, 3, "a database is needed");
    lua_settop(L, 3);
    if (!find_place(L, 1)) return luaL_fileresult(L, 0, lua_tostring(L, 1));
    tperf_store_place *place = check_place(L);
    tperf_store *store = lua_newuserdatauv(L, sizeof *store, 1);
    *store = (tperf_store){.db = NULL};
    luaL_setmetatable(L, database_type);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1); // the place lives as long
    bool tried = false;
    do {
        tperf_store_close(store);
        code = tperf_store_open(store, place, (tperf_store_kind)kind, like);
    } while (try_again(L, code, &tried));
    if (code == SQLITE_OK) return 1;
    if (code != SQLITE_AUTH) return push_failure(L, store->db, code);
    return push_reason(L, "it is another program's", "foreign");
}

static int open_memory(lua_State *L) {
    tperf_store *store = lua_newuserdatauv(L, sizeof *store, 1);
    *store = (tperf_store){.db = NULL};
    luaL_setmetatable(L, database_type);
    int code;
    bool tried = false;
    do {
        tperf_store_close(store);
        code = tperf_store_open_memory(store);
    } while (try_again(L, code, &tried));
    return code == SQLITE_OK ? 1 : push_failure(L, store->db, code);
}

static int confine(lua_State *L) {
    tperf_store_confine(check_database(L));
    return 0;
}

static int empty(lua_State *L) {
    const char *sql = luaL_checkstring(L, 1);
    char bytes[TPERF_STORE_EMPTY_MOST];
    size_t size;
    int code;
    bool tried = false;
    do {
        code = tperf_store_empty(sql, bytes, &size);
    } while (try_again(L, code, &tried));
    if (code != SQLITE_OK) return push_failure(L, NULL, code);
    lua_pushlstring(L, bytes, size);
    return 1;
}

// --- statements ---

// A cached statement, or a new one; *rest is the text after it.
static int prepare(const tperf_store *store, const char *sql, size_t size, sqlite3_stmt **statement,
                   const char **rest) {
    sqlite3 *db = store->db;
    int kept = 0;
    sqlite3_stmt *last = NULL;
    *statement = NULL;
    *rest = "";
    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db, s)); kept++) {
        const char *text = sqlite3_sql(s);
        if (ALWAYS(text) && strcmp(text, sql) == 0) {
            *statement = s;
            return sqlite3_reset(s), SQLITE_OK;
        }
        last = s;
    }
    if (kept >= MOST_STATEMENTS) sqlite3_finalize(last);
    return tperf_store_prepare(store, sql, size, statement, rest);
}

static int bind_value(lua_State *L, int index, sqlite3_stmt *statement, int place) {
    size_t size;
    const char *text;
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return sqlite3_bind_null(statement, place);
    case LUA_TBOOLEAN:
        return sqlite3_bind_int(statement, place, lua_toboolean(L, index));
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            return sqlite3_bind_int64(statement, place, lua_tointeger(L, index));
        return sqlite3_bind_double(statement, place, lua_tonumber(L, index));
    default:
        text = luaL_checklstring(L, index, &size);
        return sqlite3_bind_text64(statement, place, text, size, SQLITE_STATIC, SQLITE_UTF8);
    }
}

static void push_value(lua_State *L, sqlite3_stmt *statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        lua_pushinteger(L, sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        lua_pushnumber(L, sqlite3_column_double(statement, column));
        break;
    case SQLITE_NULL:
        lua_pushnil(L);
        break;
    default: {
        const void *bytes = sqlite3_column_blob(statement, column); // of a text, its bytes
        lua_pushlstring(L, bytes ? bytes : "", (size_t)sqlite3_column_bytes(statement, column));
    }
    }
}

// Collects the rows on top of the stack, with the names at `names`. Returns SQLite's code.
static int collect(lua_State *L, sqlite3_stmt *statement, int names) {
    int columns = sqlite3_column_count(statement), code;
    lua_newtable(L);
    for (lua_Integer i = 1; (code = sqlite3_step(statement)) == SQLITE_ROW; i++) {
        lua_createtable(L, 0, columns);
        for (int c = 0; c < columns; c++) {
            lua_rawgeti(L, names, c + 1);
            push_value(L, statement, c);
            lua_rawset(L, -3);
        }
        lua_rawseti(L, -2, i);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void push_names(lua_State *L, sqlite3_stmt *statement) {
    int columns = sqlite3_column_count(statement);
    lua_createtable(L, columns, 0);
    for (int c = 0; c < columns; c++) {
        lua_pushstring(L, sqlite3_column_name(statement, c));
        lua_rawseti(L, -2, c + 1);
    }
}

// Pushes names and rows above the arguments. A Lua error may leave a statement that its next use resets.
static int run_once(lua_State *L, const tperf_store *store, const char *sql, size_t size,
                    int arguments) {
    sqlite3_stmt *statement;
    const char *rest;
    int code = prepare(store, sql, size, &statement, &rest);
    if (code == SQLITE_OK && rest[strspn(rest, " \t\r\n;")])
        return tperf_bind_fail(L, "one statement of SQL is run at a time; there is another: %s",
                               rest);
    if (code != SQLITE_OK || !statement) return code;
    int places = sqlite3_bind_parameter_count(statement);
    if (places != arguments - 2)
        return tperf_bind_fail(L, "the statement has %d places for values ('?'), and %d %s given",
                               places, arguments - 2, arguments - 2 == 1 ? "is" : "are");
    for (int i = 1; i <= places && code == SQLITE_OK; i++)
        code = bind_value(L, i + 2, statement, i);
    lua_settop(L, arguments);
    push_names(L, statement);
    if (code == SQLITE_OK) code = collect(L, statement, arguments + 1);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code;
}

static int run(lua_State *L) {
    tperf_store *store = check_database(L);
    size_t size;
    const char *sql = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, strlen(sql) == size && size < (1 << 24), 2, "no statement of SQL");
    int arguments = lua_gettop(L), code;
    bool tried = false;
    do {
        store->steps = 0;
        store->endless = false;
        lua_settop(L, arguments);
        code = run_once(L, store, sql, size, arguments);
    } while (try_again(L, code, &tried));
    if (store->endless) return push_reason(L, "its recursion does not end", "endless");
    if (code != SQLITE_OK && !tperf_store_overtaken(store)) return push_failure(L, store->db, code);
    if (tperf_store_overtaken(store)) return push_failure(L, NULL, SQLITE_BUSY);
    if (lua_gettop(L) == arguments) { // only blanks and comments
        lua_newtable(L);
        lua_newtable(L);
    }
    lua_insert(L, -2);
    return 2;
}

static bool must_stop(uint64_t steps) {
    (void)steps;
    return *tperf_interrupt_flag() != 0;
}

static void make_type(lua_State *L, const char *type, const luaL_Reg *methods,
                      lua_CFunction close) {
    if (luaL_newmetatable(L, type)) {
        lua_pushcfunction(L, close);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, close);
        lua_setfield(L, -2, "__close");
        lua_newtable(L);
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
}

void tperf_bind_store(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"open", open_database}, {"memory", open_memory}, {"empty", empty}, {NULL, NULL}};
    static const luaL_Reg of_place[] = {{"lock", lock},
                                        {"unlock", unlock},
                                        {"set_aside", set_aside},
                                        {"writer", writer},
                                        {NULL, NULL}};
    static const luaL_Reg of_database[] = {{"run", run},
                                           {"confine", confine},
                                           {"moved", moved},
                                           {"close", close_database},
                                           {NULL, NULL}};
    make_type(L, place_type, of_place, close_place);
    make_type(L, database_type, of_database, close_database);
    tperf_store_ask(must_stop);
    luaL_newlib(L, functions);
}
