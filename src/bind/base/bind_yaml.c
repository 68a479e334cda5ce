// bind_yaml.c: tperf.core.yaml, see io/yaml_in.h.
//   yaml(text, name) -> value, positions, or nil and "name:line:column: message"
// positions[path] is the position of the node at a path ("network.fast.domain", "layers[2]"; "" is the root): { line,
// column, key_line, key_column }, or nil. It is looked up on demand: the paths of all nodes can be far larger than the
// file. A null is absent from a map; in a list it is a light userdata.
#include <string.h>

#include "bind/bind.h"
#include "io/yaml_in.h"

static const char document_type[] = "tperf.yaml", positions_type[] = "tperf.yaml.positions";

static int release(lua_State *L) {
    tperf_yaml_release(luaL_checkudata(L, 1, document_type));
    return 0;
}

static int position(lua_State *L) {
    const tperf_yaml_document *document = luaL_checkudata(L, 1, positions_type);
    size_t size;
    const char *path = luaL_checklstring(L, 2, &size);
    const tperf_yaml_node *node =
        document->count > 0 ? tperf_yaml_find(document, path, size) : NULL;
    if (!node) return 0;
    const lua_Integer marks[] = {node->mark.line, node->mark.column, node->key_mark.line,
                                 node->key_mark.column};
    lua_createtable(L, 4, 0);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(L, marks[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static void push_node(lua_State *L, const tperf_yaml_document *d, size_t at);

static void push_members(lua_State *L, const tperf_yaml_document *d, size_t at) {
    const tperf_yaml_node *node = &d->nodes[at];
    lua_Integer index = 1;
    lua_newtable(L);
    for (size_t i = at + 1; i < node->end; i = d->nodes[i].end, index++) {
        const tperf_yaml_node *member = &d->nodes[i];
        if (node->kind == TPERF_YAML_LIST) {
            push_node(L, d, i);
            lua_rawseti(L, -2, index);
        } else if (member->kind != TPERF_YAML_NULL) {
            lua_pushlstring(L, d->text + member->key, member->key_size);
            push_node(L, d, i);
            lua_rawset(L, -3);
        }
    }
}

// Recurses at most as deep as the reader allows.
static void push_node(lua_State *L, const tperf_yaml_document *d, size_t at) {
    const tperf_yaml_node *node = &d->nodes[at];
    luaL_checkstack(L, 3, "nested too deep");
    switch (node->kind) {
    case TPERF_YAML_NULL:
        lua_pushlightuserdata(L, NULL);
        break;
    case TPERF_YAML_BOOLEAN:
        lua_pushboolean(L, node->value.boolean);
        break;
    case TPERF_YAML_INTEGER:
        lua_pushinteger(L, node->value.integer);
        break;
    case TPERF_YAML_FLOAT:
        lua_pushnumber(L, node->value.number);
        break;
    case TPERF_YAML_STRING:
        lua_pushlstring(L, d->text + node->value.string.at, node->value.string.size);
        break;
    case TPERF_YAML_LIST:
    case TPERF_YAML_MAP:
        push_members(L, d, at);
        break;
    }
}

// Copies the document into Lua's memory, which needs no finalizer: one that exhausts the C stack frees nothing.
static const tperf_yaml_document *push_copy(lua_State *L, tperf_yaml_document *document) {
    size_t nodes = document->count * sizeof *document->nodes;
    tperf_yaml_document *copy = lua_newuserdatauv(L, sizeof *copy + nodes + document->text_size, 0);
    *copy = *document;
    copy->nodes = (tperf_yaml_node *)(copy + 1);
    copy->text = (char *)copy->nodes + nodes;
    if (nodes) memcpy(copy->nodes, document->nodes, nodes);
    if (document->text_size) memcpy(copy->text, document->text, document->text_size);
    tperf_yaml_release(document);
    if (luaL_newmetatable(L, positions_type)) {
        lua_pushcfunction(L, position);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    return copy;
}

static int read_yaml(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    const char *name = luaL_checkstring(L, 2);
    // A userdata owns the document, so that an error while pushing its content frees it.
    tperf_yaml_document *document = tperf_bind_new(L, sizeof *document, document_type, release);
    tperf_error error;
    if (tperf_yaml_read(text, size, document, &error) != TPERF_OK) {
        tperf_yaml_release(document);
        lua_pushnil(L);
        lua_pushfstring(L, "%s:%s", name, error.message);
        return 2;
    }
    const tperf_yaml_document *copy = push_copy(L, document);
    push_node(L, copy, 0);
    lua_insert(L, -2);
    return 2;
}

void tperf_bind_yaml(lua_State *L) {
    lua_pushcfunction(L, read_yaml);
}
