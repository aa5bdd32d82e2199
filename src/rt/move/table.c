// SPDX-License-Identifier: BSD-3-Clause
//
// Rows, places and pieces: making, finding and forgetting them.
#include "rt/move/table.h"

#include <assert.h>

#include "base/alloc.h"

enum { PIECES_KEPT = 64 };

static_assert(sizeof(whi_place_key) == 32, "a key has no bytes that are not set");

// word returns one of the four words of a key.  Keys are copied and compared by words: a load of more than was stored at once waits
// until the stores have left for the cache.
static inline uint64_t word(const whi_place_key *key, int at) {
    uint64_t value;
    memcpy(&value, (const char *)key + at * (int)sizeof(value), sizeof(value));
    return value;
}

static inline bool is_key(const whi_place_key *a, const whi_place_key *b) {
    return word(a, 0) == word(b, 0) && word(a, 1) == word(b, 1) && word(a, 2) == word(b, 2) &&
           word(a, 3) == word(b, 3);
}

// Two pairs of words rather than one after the other: it is computed twice for each message.
static uint64_t hash_of(const whi_places *t, const whi_place_key *key) {
    return (whi_hash_fold(word(key, 0) ^ 0x9e3779b97f4a7c15u, word(key, 1) ^ 0xd6e8feb86659fd93u) ^
            whi_hash_fold(word(key, 2) ^ 0xa0761d6478bd642fu, word(key, 3) ^ 0xe7037ed1a0b428dbu)) &
           t->hash_mask;
}

whi_row *whi_row_find(const whi_places *t, const whi_place_key *key) {
    whi_row *row = whi_hash_get(&t->table, hash_of(t, key));
    while (row && !is_key(&row->key, key))
        row = row->same;
    return row;
}

whi_row *whi_row_make(whi_places *t, const whi_place_key *key) {
    whi_row *row = whi_pool_get(&t->rows);
    if (!row)
        return NULL;
    uint64_t hash = hash_of(t, key);
    *row = (whi_row){.key = *key, .same = whi_hash_get(&t->table, hash), .pe = WHI_NO_PE};
    row->home_here = whi_home_of(t, key) == t->self;
    if (whi_hash_put(&t->table, hash, row) != WH_OK) {
        whi_pool_put(&t->rows, row);
        return NULL;
    }
    return row;
}

void whi_row_drop(whi_places *t, whi_row *row) {
    if (row->element || row->places || row->pe != WHI_NO_PE)
        return;
    uint64_t hash = hash_of(t, &row->key);
    whi_row *first = whi_hash_get(&t->table, hash);
    if (first != row) {
        while (first->same != row)
            first = first->same;
        first->same = row->same;
    } else if (!row->same) {
        whi_hash_remove(&t->table, hash);
    } else {
        wh_status status = whi_hash_put(&t->table, hash, row->same);
        assert(status == WH_OK);  // it replaces
        (void)status;
    }
    whi_pool_put(&t->rows, row);
}

whi_row *whi_row_next(const whi_places *t, size_t *cursor, whi_row *last) {
    uint64_t hash;
    return last && last->same ? last->same : whi_hash_next(&t->table, cursor, &hash);
}

bool whi_row_is_away(const whi_places *t, const whi_row *row) {
    if (row->pe != t->self)
        return true;
    const whi_place *place = whi_place_find(row, row->number);
    return place && (place->state == WHI_PLACE_LEAVING || place->state == WHI_PLACE_LEFT);
}

whi_place *whi_place_find(const whi_row *row, uint64_t number) {
    whi_place *place = row->places;
    while (place && place->number != number)
        place = place->next;
    return place;
}

whi_place *whi_place_make(whi_row *row, uint64_t number, whi_place_state state) {
    whi_place *place = whi_malloc(sizeof(*place));
    if (!place)
        return NULL;
    *place = (whi_place){.next = row->places, .number = number, .state = state};
    whi_queue_init(&place->queue);
    whi_queue_init(&place->by_home);
    row->places = place;
    return place;
}

void whi_place_free(whi_row *row, whi_place *place) {
    whi_place **at = &row->places;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    whi_free(place->told);
    whi_free(place);
}

whi_place *whi_place_current(whi_row *row) {
    whi_place *place = whi_place_find(row, row->number);
    if (place || !(place = whi_place_make(row, row->number, WHI_PLACE_HERE)))
        return place;
    place->via = row->number;
    place->users = 1;
    return place;
}

bool whi_place_told_reserve(whi_place *place, uint32_t count) {
    if (count <= place->told_room)
        return true;
    uint32_t room = 2 * place->told_room > count ? 2 * place->told_room : count;
    uint32_t *told = whi_realloc(place->told, room * sizeof(*told));
    if (!told)
        return false;
    place->told = told;
    place->told_room = room;
    return true;
}

bool whi_pieces_reserve(whi_places *t, uint32_t count) {
    while (t->piece_count < count) {
        whi_piece *piece = whi_malloc(sizeof(*piece));
        if (!piece)
            return false;
        piece->next = t->pieces;
        t->pieces = piece;
        t->piece_count++;
    }
    return true;
}

whi_piece *whi_piece_take(whi_places *t) {
    whi_piece *piece = t->pieces;
    assert(piece);
    t->pieces = piece->next;
    t->piece_count--;
    return piece;
}

void whi_piece_put(whi_places *t, void *memory) {
    whi_piece *piece = memory;
    if (t->piece_count >= PIECES_KEPT) {
        whi_free(piece);
        return;
    }
    piece->next = t->pieces;
    t->pieces = piece;
    t->piece_count++;
}
