// bind_store.c: tperf.core.store: databases in files (io/store.h).
//   store.open(path, kind) -> a database, or nil, message, reason; kind: "write", "read" or "query"
//   store.empty(sql) -> the bytes of a new database file after running the statements
//   store.set_aside(path) -> a damaged database's new name, or nil, message
//   store.writer(path) -> the process now writing to a database, or nil
//   database:run(sql, value …) -> rows, names, or nil, message, reason: runs one statement, with a value for each "?".
//       A
//     row is a table keyed by column names, which are also returned as a list. Numbers, strings, booleans (as 0 and 1)
//     and nil are passed exactly.
//   database:close()
// Reasons: "busy": another program kept it locked; "damaged": or not a database at all; "interrupted"; "denied": not
// allowed in a query; or none.
#include <limits.h>
#include <string.h>

#include "base/always.h"
#include "bind/bind.h"
#include "bind/interrupt.h"
#include "io/store.h"

static const char database_type[] = "tperf.database";

enum { MOST_STATEMENTS = 16 }; // kept ready

static sqlite3 **check_database(lua_State *L) {
    sqlite3 **database = luaL_checkudata(L, 1, database_type);
    luaL_argcheck(L, *database, 1, "it is closed");
    return database;
}

static int close_database(lua_State *L) {
    sqlite3 **database = luaL_checkudata(L, 1, database_type);
    tperf_store_close(*database);
    *database = NULL;
    return 0;
}

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
    default:
        return NULL;
    }
}

static int push_failure(lua_State *L, sqlite3 *db, int code) {
    if ((code & 0xff) == SQLITE_NOMEM) return tperf_bind_fail(L, "not enough memory");
    lua_pushnil(L);
    lua_pushstring(L, db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    lua_pushstring(L, reason_of(code));
    return 3;
}

// Whether to retry after collecting garbage.
static bool try_again(lua_State *L, int code, bool *tried) {
    return tperf_bind_try_again(L, (code & 0xff) == SQLITE_NOMEM ? TPERF_NO_MEMORY : TPERF_OK,
                                tried);
}

static int open_database(lua_State *L) {
    static const char *const kinds[] = {"write", "read", "query", NULL};
    const char *path = luaL_checkstring(L, 1);
    int kind = luaL_checkoption(L, 2, NULL, kinds), code;
    sqlite3 **database = lua_newuserdatauv(L, sizeof(sqlite3 *), 0);
    *database = NULL;
    luaL_setmetatable(L, database_type);
    bool tried = false;
    do {
        tperf_store_close(*database);
        code = tperf_store_open(path, (tperf_store_kind)kind, database);
    } while (try_again(L, code, &tried));
    return code == SQLITE_OK ? 1 : push_failure(L, *database, code);
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

static int set_aside(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char to[PATH_MAX + 32];
    if (!tperf_store_set_aside(path, to, sizeof to)) return luaL_fileresult(L, 0, path);
    lua_pushstring(L, to);
    return 1;
}

static int writer(lua_State *L) {
    long process = tperf_store_writer(luaL_checkstring(L, 1));
    if (!process) return 0;
    lua_pushinteger(L, process);
    return 1;
}

// --- statements ---

// A cached statement, or a new one; *rest is the text after it.
static int prepare(sqlite3 *db, const char *sql, size_t size, sqlite3_stmt **statement,
                   const char **rest) {
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
    return sqlite3_prepare_v2(db, sql, (int)size + 1, statement, rest);
}

static int bind_value(lua_State *L, int index, sqlite3_stmt *statement, int place) {
    size_t size;
    const char *text;
    switch (lua_type(L, index)) {
    case LUA_TNONE:
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
static int run_once(lua_State *L, sqlite3 *db, const char *sql, size_t size, int arguments) {
    sqlite3_stmt *statement;
    const char *rest;
    int code = prepare(db, sql, size, &statement, &rest);
    if (code == SQLITE_OK && rest[strspn(rest, " \t\r\n;")])
        return tperf_bind_fail(L, "one statement of SQL is run at a time; there is another: %s",
                               rest);
    if (code != SQLITE_OK || !statement) return code;
    int places = sqlite3_bind_parameter_count(statement);
    for (int i = 1; i <= places && code == SQLITE_OK; i++)
        code = bind_value(L, i + 2 <= arguments ? i + 2 : arguments + 1, statement, i);
    lua_settop(L, arguments);
    push_names(L, statement);
    if (code == SQLITE_OK) code = collect(L, statement, arguments + 1);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code;
}

static int run(lua_State *L) {
    sqlite3 *db = *check_database(L);
    size_t size;
    const char *sql = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, strlen(sql) == size && size < (1 << 24), 2, "no statement of SQL");
    int arguments = lua_gettop(L), code;
    bool tried = false;
    do {
        lua_settop(L, arguments);
        code = run_once(L, db, sql, size, arguments);
    } while (try_again(L, code, &tried));
    if (code != SQLITE_OK) return push_failure(L, db, code);
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

void tperf_bind_store(lua_State *L) {
    static const luaL_Reg functions[] = {{"open", open_database},
                                         {"empty", empty},
                                         {"set_aside", set_aside},
                                         {"writer", writer},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"run", run}, {"close", close_database}, {NULL, NULL}};
    if (luaL_newmetatable(L, database_type)) {
        lua_pushcfunction(L, close_database);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, close_database);
        lua_setfield(L, -2, "__close");
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    tperf_store_ask(must_stop);
    luaL_newlib(L, functions);
}
