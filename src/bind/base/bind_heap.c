// bind_heap.c: allocates the core's arrays from the state's memory, so that memory held for a script counts as Lua's.
// Finalizers free the arrays. Lua drops a finalizer that starts at the limit of its C stack, deep in a recursion: its
// blocks stay in the list of all blocks, and are freed when the state closes.
#include <stdalign.h>
#include <stddef.h>

#include "bind/bind.h"

typedef struct tperf_link tperf_link;
struct tperf_link {
    alignas(max_align_t) tperf_link *next;
    tperf_link *previous;
};

typedef struct blocks {
    tperf_link all; // a ring
    lua_Alloc allocate;
    void *allocator;
} blocks;

static const char key[] = "tperf.heap";

static void insert(blocks *list, tperf_link *link) {
    *link = (tperf_link){list->all.next, &list->all};
    link->next->previous = link->previous->next = link;
}

static void take_out(tperf_link *link) {
    link->next->previous = link->previous;
    link->previous->next = link->next;
}

// See tperf_heap. Lua's allocator cannot fail when freeing.
static void *resize(void *owner, void *block, size_t old_size, size_t new_size) {
    blocks *list = owner;
    tperf_link *old = block ? (tperf_link *)block - 1 : NULL;
    if (old) take_out(old);
    tperf_link *new = list->allocate(list->allocator, old, old ? sizeof *old + old_size : 0,
                                     new_size ? sizeof *new + new_size : 0);
    if (new) insert(list, new);
    if (!new &&old && new_size) insert(list, old);
    return new ? new + 1 : NULL;
}

// At state close, sizes are unknown, and no longer counted.
static int release_all(lua_State *L) {
    blocks *list = lua_touserdata(L, 1);
    while (list->all.next != &list->all) {
        tperf_link *link = list->all.next;
        take_out(link);
        list->allocate(list->allocator, link, 0, 0);
    }
    return 0;
}

void tperf_bind_open_heap(lua_State *L) {
    bool is_open = lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TNIL;
    lua_pop(L, 1);
    if (is_open) return; // the module is opened again, and its earlier blocks are in use
    blocks *list = lua_newuserdatauv(L, sizeof *list, 0);
    *list = (blocks){.all = {&list->all, &list->all}};
    list->allocate = lua_getallocf(L, &list->allocator);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, release_all);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

tperf_heap tperf_bind_heap(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    tperf_heap heap = {resize, lua_touserdata(L, -1)};
    lua_pop(L, 1);
    return heap;
}
