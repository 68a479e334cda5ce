// bind_yaml.c: tperf.core.yaml, see io/yaml_in.h.
//   yaml(text, name) -> value, positions, or nil and "name:line:column: message"
// positions maps the path of every node ("network.fast.domain", "layers[2]"; "" is the root) to
// { line, column, key_line, key_column }. A null is absent from a map; in a list it is a light
// userdata.
#include "bind/bind.h"
#include "io/yaml_in.h"

static const char document_type[] = "tperf.yaml";

static int release(lua_State *L) {
    tp_yaml_release(luaL_checkudata(L, 1, document_type));
    return 0;
}

// The document belongs to a userdata, so that an error while pushing its content frees it.
static tp_yaml_document *new_document(lua_State *L) {
    tp_yaml_document *document = lua_newuserdatauv(L, sizeof *document, 0);
    *document = (tp_yaml_document){0};
    if (luaL_newmetatable(L, document_type)) {
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return document;
}

// Sets positions[the path on the top of the stack].
static void push_position(lua_State *L, int positions, const tp_yaml_node *node) {
    const lua_Integer marks[] = {node->mark.line, node->mark.column, node->key_mark.line,
                                 node->key_mark.column};
    lua_pushvalue(L, -1);
    lua_createtable(L, 4, 0);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(L, marks[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_rawset(L, positions);
}

static void push_member_path(lua_State *L, int path, const tp_yaml_document *d,
                             const tp_yaml_node *map, const tp_yaml_node *member,
                             lua_Integer index) {
    lua_pushvalue(L, path);
    if (map->kind == TP_YAML_LIST) {
        lua_pushfstring(L, "[%I]", index);
        lua_concat(L, 2);
        return;
    }
    if (lua_rawlen(L, path) > 0) lua_pushliteral(L, ".");
    lua_pushlstring(L, d->text + member->key, member->key_size);
    lua_concat(L, lua_rawlen(L, path) > 0 ? 3 : 2);
}

// Replaces the node's path on the top of the stack by its value. As deep as the reader allows.
static void push_node(lua_State *L, const tp_yaml_document *d, size_t at, int positions) {
    const tp_yaml_node *node = &d->nodes[at];
    luaL_checkstack(L, 10, "nested too deep");
    push_position(L, positions, node);
    int path = lua_gettop(L);
    switch (node->kind) {
    case TP_YAML_NULL:
        lua_pushlightuserdata(L, NULL);
        break;
    case TP_YAML_BOOLEAN:
        lua_pushboolean(L, node->value.boolean);
        break;
    case TP_YAML_INTEGER:
        lua_pushinteger(L, node->value.integer);
        break;
    case TP_YAML_FLOAT:
        lua_pushnumber(L, node->value.number);
        break;
    case TP_YAML_STRING:
        lua_pushlstring(L, d->text + node->value.string.at, node->value.string.size);
        break;
    case TP_YAML_LIST:
    case TP_YAML_MAP: {
        lua_newtable(L);
        lua_Integer index = 1;
        for (size_t i = at + 1; i < node->end; i = d->nodes[i].end, index++) {
            const tp_yaml_node *member = &d->nodes[i];
            if (node->kind == TP_YAML_MAP)
                lua_pushlstring(L, d->text + member->key, member->key_size);
            push_member_path(L, path, d, node, member, index);
            push_node(L, d, i, positions);
            if (node->kind == TP_YAML_LIST) {
                lua_rawseti(L, path + 1, index);
            } else if (member->kind == TP_YAML_NULL) {
                lua_pop(L, 2);
            } else {
                lua_rawset(L, path + 1);
            }
        }
    }
    }
    lua_remove(L, path);
}

static int read_yaml(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    const char *name = luaL_checkstring(L, 2);
    tp_yaml_document *document = new_document(L);
    tp_error error;
    if (tp_yaml_read(text, size, document, &error) != TP_OK) {
        lua_pushnil(L);
        lua_pushfstring(L, "%s:%s", name, error.message);
        return 2;
    }
    lua_newtable(L);
    int positions = lua_gettop(L);
    lua_pushliteral(L, "");
    push_node(L, document, 0, positions);
    lua_pushvalue(L, positions);
    return 2;
}

void tp_bind_yaml(lua_State *L) {
    lua_pushcfunction(L, read_yaml);
}
