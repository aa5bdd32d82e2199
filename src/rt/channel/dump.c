// SPDX-License-Identifier: BSD-3-Clause
//
// What the channels of a PE wait for, in print.
#include "rt/channel/channels.h"
#include "rt/chare/chares.h"

// How much of each kind has been found.
typedef struct found {
    size_t unmet, unopened, receives, sends;
} found;

static void print(const whi_channels *channels, const whi_channel_name *name, FILE *file) {
    const whi_chares *c = whi_chares_get(channels->pe);
    wh_proxy proxy;
    if (c && wh_proxy_decode(name->bytes, sizeof(name->bytes), &proxy) == WH_OK)
        whi_proxy_print(c, &proxy, file);
    else
        fputs("an element", file);
}

static size_t length(const whi_list *list) {
    size_t count = 0;
    for (const whi_list *node = list->next; node != list; node = node->next)
        count++;
    return count;
}

// ---- Ends that have not met.

static void dump_unmet(const whi_channels *channels, const whi_channel_element *element,
                       const whi_channel_pair *pair, whi_dump *to, found *told) {
    size_t unmet = length(&pair->unmet), openings = length(&pair->openings);
    to->waits = to->waits || unmet || openings;
    if (unmet && whi_dump_line(&told->unmet)) {
        fputs("  ", to->file);
        print(channels, &element->name, to->file);
        fprintf(to->file, " waits for %zu channels: ", unmet);
        print(channels, &pair->peer, to->file);
        fputs(" has not opened its end\n", to->file);
    }
    if (openings && whi_dump_line(&told->unopened)) {
        fputs("  ", to->file);
        print(channels, &element->name, to->file);
        fprintf(to->file, " has not opened its end of %zu channels, which ", openings);
        print(channels, &pair->peer, to->file);
        fputs(" has opened\n", to->file);
    }
}

// ---- Sends and receives.

static void dump_ops(const wh_channel *ch, whi_dump *to, found *told) {
    size_t waiting = length(&ch->waiting), sends = length(&ch->sends);
    size_t receives = length(&ch->receives) + length(&ch->early);
    const whi_channels *channels = ch->in;
    to->waits = to->waits || waiting || receives;
    to->busy = to->busy || sends;
    if (waiting + sends && whi_dump_line(&told->sends)) {
        fprintf(to->file, "  %zu sends of ", waiting + sends);
        print(channels, &ch->element->name, to->file);
        fputs(" wait for ", to->file);
        print(channels, &ch->pair->peer, to->file);
        fprintf(to->file, " to receive, of %llu that it has begun\n",
                (unsigned long long)ch->sent + waiting);
    }
    if (receives && whi_dump_line(&told->receives)) {
        fprintf(to->file, "  %zu receives of ", receives);
        print(channels, &ch->element->name, to->file);
        fputs(" wait for ", to->file);
        print(channels, &ch->pair->peer, to->file);
        fprintf(to->file, " to send, behind %llu messages that have come\n",
                (unsigned long long)ch->matched);
    }
}

static void dump_element(const whi_channels *channels, const whi_channel_element *element,
                         whi_dump *to, found *told) {
    whi_list_foreach(node, (whi_list *)(uintptr_t)&element->pairs) {
        const whi_channel_pair *pair = whi_container_of(node, whi_channel_pair, link);
        dump_unmet(channels, element, pair, to, told);
        whi_list_foreach(end, (whi_list *)(uintptr_t)&pair->ends)
            dump_ops(whi_container_of(end, wh_channel, link), to, told);
    }
}

void whi_channels_dump(const void *state, whi_dump *to) {
    const whi_channels *channels = state;
    found told = {.unmet = 0};
    size_t cursor = 0;
    uint64_t hash;
    const whi_channel_element *element;
    while ((element = whi_hash_next(&channels->elements, &cursor, &hash)))
        for (; element; element = element->next)
            dump_element(channels, element, to, &told);
    whi_dump_rest(to, told.unmet, "elements whose channels nobody has met");
    whi_dump_rest(to, told.unopened, "channels that others have opened");
    whi_dump_rest(to, told.sends, "channels whose sends wait");
    whi_dump_rest(to, told.receives, "channels whose receives wait");
}

// ---- Threads.

static bool has(const whi_list *ops, const wh_wait *wait) {
    for (const whi_list *node = ops->next; node != ops; node = node->next) {
        const whi_channel_op *op =
            whi_container_of((whi_list *)(uintptr_t)node, whi_channel_op, link);
        if (op->done == wh_wait_done && op->arg == wait)
            return true;
    }
    return false;
}

bool whi_channels_awaited(const void *state, const wh_wait *wait, FILE *file) {
    const whi_channels *channels = state;
    size_t cursor = 0;
    uint64_t number;
    const wh_channel *ch;
    while ((ch = whi_hash_next(&channels->ends, &cursor, &number))) {
        bool receives = has(&ch->early, wait) || has(&ch->receives, wait);
        if (!ch->element || (!receives && !has(&ch->waiting, wait) && !has(&ch->sends, wait)))
            continue;
        fputs(receives ? "a message on the channel of " : "a send on the channel of ", file);
        print(channels, &ch->element->name, file);
        fputs(" to ", file);
        print(channels, &ch->pair->peer, file);
        return true;
    }
    return false;
}
